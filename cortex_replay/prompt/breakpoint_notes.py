"""Breakpoints as a recording notes them: a stored request has no plan, since a plan is no part of the key."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

from cortex_replay.canonical import JsonValue
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.markers import breakpoints_of, system_blocks
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.types import CacheTime, LlmRequest, PromptCachePlan

__all__ = ["note_breakpoints", "restore_breakpoints"]


def note_breakpoints(request: LlmRequest, stored_system: str) -> list[JsonValue]:
    """Where the markers of a request stand, for the ``meta`` of its recording.

    Args:
        request: As it was asked.
        stored_system: Its system text as it is stored, which a normaliser may have changed. A marker whose
            place cannot be told there any more is left out.
    """
    notes: list[JsonValue] = []
    ends: list[int] = []
    for text, _ in system_blocks(request):
        ends.append((ends[-1] + 2 if ends else 0) + len(text))
    for kept in breakpoints_of(request).kept:
        if kept.place is Place.TOOLS:
            notes.append({"behind": "tools", "ttl": kept.cache.value})
        elif kept.place is Place.MESSAGES:
            notes.append({"behind": "message", "number": kept.index + 1, "ttl": kept.cache.value})
        elif (end := _offset_in(request.system, stored_system, ends[kept.index])) is not None:
            notes.append({"behind": "system", "end": end, "ttl": kept.cache.value})
    return notes


def restore_breakpoints(request: LlmRequest, notes: JsonValue) -> LlmRequest:
    """A stored request with the plan that its recording notes; what makes no sense there is not followed."""
    cuts: dict[int, CacheTime] = {}
    messages = list(request.messages)
    names: list[str] = []
    tools = False
    times: list[CachePolicy] = []
    for entry in notes if isinstance(notes, list) else ():
        if not isinstance(entry, dict) or entry.get("ttl") not in ("5m", "1h"):
            continue
        policy = CachePolicy(cast("str", entry["ttl"]))
        match entry:
            case {"behind": "tools"}:
                tools = True
                times.append(policy)
            case {"behind": "message", "number": int(number)} if 0 < number <= len(messages):
                names.append(f"turn-{number}")
                messages[number - 1] = replace(messages[number - 1], id=names[-1])
                times.append(policy)
            case {"behind": "system", "end": int(end)} if 0 < end <= len(request.system):
                cuts[end] = policy.value
    if cuts:
        cuts.setdefault(len(request.system), "none")
    if not (cuts or names or tools):
        return request
    ttl: Literal["5m", "1h"] = "1h" if times and times[-1] is CachePolicy.EPHEMERAL_1H else "5m"
    plan = PromptCachePlan(
        cache_tools=tools,
        breakpoint_message_ids=tuple(names),
        ttl=ttl,
        system_cuts=tuple(sorted(cuts.items())),
    )
    return replace(request, messages=tuple(messages), cache=plan)


def _offset_in(asked: str, stored: str, end: int) -> int | None:
    """Where an offset in one text is in another that begins or ends like it."""
    if end < len(asked) and stored.startswith(asked[:end]):
        return end
    return len(stored) - len(asked) + end if stored.endswith(asked[end:]) else None
