"""What the cache plan of a request means: its system text in blocks, and where the markers stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from cortex_replay.errors import InvalidRequest
from cortex_replay.prompt.blocks import BLANK_LINE
from cortex_replay.prompt.breakpoints import (
    MOST_BREAKPOINTS,
    Breakpoint,
    Place,
    Placement,
    can_cache,
    place_breakpoints,
)
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.types import CacheMark, LlmMessage, LlmRequest, LlmRole, PromptCachePlan

__all__ = [
    "breakpoint_behind",
    "breakpoints_of",
    "can_carry_marker",
    "marks_of",
    "system_blocks",
    "system_name",
    "turn_name",
]

_THINKING = ("thinking", "redacted_thinking")


def breakpoints_of(request: LlmRequest) -> Placement:
    """The breakpoints that a request's plan asks for, as many of them as a request may carry.

    What the plan has in its ``marks`` stands where a client put it, takes its room first, and is not among
    these; see :func:`marks_of`.

    Raises:
        InvalidRequest: The plan names a message that the request does not have.
    """
    plan = request.cache
    if plan is None:
        return Placement()
    known = {message.id for message in request.messages}
    for name in plan.breakpoint_message_ids:
        if name not in known:
            raise InvalidRequest("cache.breakpoint_message_ids", f"no message has the id {name!r}")
    wanted = _wanted_breakpoints(request, plan) if can_cache(request.model) else ()
    return place_breakpoints(wanted, max(0, MOST_BREAKPOINTS - len(plan.marks)))


def marks_of(request: LlmRequest) -> tuple[Breakpoint, ...]:
    """The markers that a client put into a request by itself, in the order in which a provider reads.

    One for the whole prompt stands where the provider puts it: behind the last block that takes a marker.
    What the request has no place for is left out.
    """
    plan = request.cache
    if plan is None or not plan.marks:
        return ()
    found: dict[tuple[Place, int, int | None], Breakpoint] = {}
    count = len(system_blocks(request))
    for mark in plan.marks:
        made = _breakpoint_of(request, plan, mark, count)
        if made is not None:
            found.setdefault((made.place, made.index, made.part), made)
    return tuple(sorted(found.values(), key=_reading_order))


def _reading_order(breakpoint_: Breakpoint) -> tuple[int, int, float]:
    part = breakpoint_.part
    return breakpoint_.place, breakpoint_.index, float("inf") if part is None else part


def _breakpoint_of(
    request: LlmRequest, plan: PromptCachePlan, mark: CacheMark, count: int
) -> Breakpoint | None:
    """The breakpoint of a marker in a request whose system text has ``count`` blocks."""
    place, i = mark.place, mark.index
    if place == "prompt":
        place, i = _last_place(request, count)
    policy = CachePolicy.of_ttl(mark.ttl)
    if place == "tool" and i < len(request.tools):
        tool = request.tools[i]
        name = tool.get("name") if isinstance(tool, dict) else None
        return Breakpoint(Place.TOOLS, i, policy, f"tool {name!r}" if name else f"tool {i + 1}")
    if place == "system" and i < count:
        return Breakpoint(Place.SYSTEM, i, policy, system_name(plan, i, count))
    if place == "message" and i < len(request.messages):
        return Breakpoint(Place.MESSAGES, i, policy, turn_name(i, request.messages[i]), mark.part)
    return None


def _last_place(request: LlmRequest, count: int) -> tuple[Literal["tool", "system", "message"], int]:
    """Behind what a provider caches a whole prompt."""
    for i in range(len(request.messages) - 1, -1, -1):
        if can_carry_marker(request.messages[i]):
            return "message", i
    if request.system:
        return "system", count - 1
    return "tool", max(0, len(request.tools) - 1)


def system_name(plan: PromptCachePlan | None, index: int, count: int) -> str:
    """A block of the system text for people: by its label if it has one."""
    if plan is not None and len(plan.labels) == count and plan.labels[index]:
        return f"block {plan.labels[index]!r}"
    return "system text" if count == 1 else f"system block {index + 1}"


def system_blocks(request: LlmRequest) -> tuple[tuple[str, CachePolicy], ...]:
    """The system text in the blocks that the plan cuts it into, each with the marker behind it.

    A plan made for another text, one that a normaliser changed for example, may cut it anywhere; then it is
    one block.
    """
    text, plan = request.system, request.cache
    if not text:
        return ()
    if plan is None:
        return ((text, CachePolicy.NONE),)
    blocks: list[tuple[str, CachePolicy]] = []
    start = 0
    for end, time in plan.system_cuts:
        if end <= start or not (end == len(text) or text.startswith(BLANK_LINE, end)):
            break
        blocks.append((text[start:end], CachePolicy(time)))
        start = end + len(BLANK_LINE)
    is_cut_up = start == len(text) + len(BLANK_LINE) and len(blocks) == len(plan.system_cuts)
    if not is_cut_up:
        blocks = [(text, CachePolicy.NONE)]
    if plan.cache_system and not blocks[-1][1].is_cached:
        blocks[-1] = (blocks[-1][0], CachePolicy.of_ttl(plan.ttl))
    return tuple(blocks)


def can_carry_marker(message: LlmMessage) -> bool:
    """Whether a marker could stand on what a message ends with: an empty text and thinking take none."""
    if message.tool_calls or message.role is LlmRole.TOOL:
        return True
    blocks = [part for part in message.parts if isinstance(part, dict) and part.get("type") != "fields"]
    if message.content and not any(block.get("type") == "text" for block in blocks):
        return True
    last = blocks[-1] if blocks else {}
    return bool(last) and last.get("type") not in _THINKING and last.get("text") != ""


def breakpoint_behind(
    messages: Sequence[LlmMessage], index: int, policy: CachePolicy, blocks: Sequence[str]
) -> Breakpoint | None:
    """A breakpoint behind a message, or behind the nearest before it that can carry one.

    What has nothing in it adds nothing to the cache, so the same is cached from there.

    Args:
        messages: All of a request.
        index: The message behind which it is wanted.
        policy: How long the cache is to keep it.
        blocks: The names of the blocks of the system text, which stand before the messages.
    """
    carrier = next((i for i in range(index, -1, -1) if can_carry_marker(messages[i])), None)
    instead_of = "" if carrier == index else turn_name(index, messages[index])
    if carrier is not None:
        return Breakpoint(
            Place.MESSAGES, carrier, policy, turn_name(carrier, messages[carrier]), instead_of=instead_of
        )
    return (
        Breakpoint(Place.SYSTEM, len(blocks) - 1, policy, blocks[-1], instead_of=instead_of)
        if blocks
        else None
    )


def turn_name(index: int, message: LlmMessage) -> str:
    """A turn's name for people, who count from one; an id that was made for a plan tells them nothing."""
    named = "" if message.id in (None, f"turn-{index + 1}") else f", id {message.id!r}"
    return f"turn {index + 1} ({message.role}{named})"


def _wanted_breakpoints(request: LlmRequest, plan: PromptCachePlan) -> Iterator[Breakpoint]:
    policy, tail = CachePolicy.of_ttl(plan.ttl), CachePolicy.of_tail(plan)
    if plan.cache_tools and request.tools and isinstance(request.tools[-1], dict):
        yield Breakpoint(Place.TOOLS, 0, policy, "the tools")
    blocks = system_blocks(request)
    names = [system_name(plan, i, len(blocks)) for i in range(len(blocks))]
    for i, (_, cache) in enumerate(blocks):
        if cache.is_cached:
            yield Breakpoint(Place.SYSTEM, i, cache, names[i])
    for i, message in enumerate(request.messages):
        if message.id is not None and message.id in plan.breakpoint_message_ids:
            found = breakpoint_behind(request.messages, i, tail, names)
            if found is not None:
                yield found
