"""What a recording notes of a prompt's cache: a stored request has no plan, which is no part of the key.

`docs/store-format.md` describes the notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.hashing import blake3_hex
from cortex_replay.printable import escape_controls
from cortex_replay.prompt.blocks import BLANK_LINE
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.markers import breakpoints_of, system_blocks
from cortex_replay.types import CacheMark, LlmRequest, PromptCachePlan

__all__ = ["block_ends", "move_blocks", "note_cache", "restore_breakpoints", "restore_plan"]

_MOST_MARKERS: Final = 64
"""A provider takes a few; a client may send any number."""
_MOST_BLOCKS: Final = 1024
_LONGEST_LABEL: Final = 80
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What a provider knows; a client may send anything."""
_MOST_KEPT: Final = 1_000_000
_KEY_LENGTH: Final = 16
_PLACES: Final[Mapping[Place, Literal["tool", "system", "message"]]] = {
    Place.TOOLS: "tool",
    Place.SYSTEM: "system",
    Place.MESSAGES: "message",
}


def block_ends(request: LlmRequest) -> tuple[int, ...]:
    """Where each block of the system text ends."""
    ends: list[int] = []
    for text, _ in system_blocks(request):
        ends.append((ends[-1] + len(BLANK_LINE) if ends else 0) + len(text))
    return tuple(ends)


def note_cache(request: LlmRequest, ends: Sequence[int] | None) -> dict[str, JsonValue]:
    """What the ``meta`` of a recording says of the cache; empty where a client said nothing.

    Args:
        request: As it was asked, with its plan.
        ends: Where the blocks of its system text end as it is stored; ``None`` where that cannot be told.
    """
    plan = request.cache
    if plan is None:
        return {}
    own_ends = block_ends(request)
    count = len(own_ends)
    notes: dict[str, JsonValue] = {}
    marks = [mark for mark in _marks(request, plan) if mark.place != "system" or mark.index < count]
    if marks:
        notes["markers"] = [_marker(mark) for mark in marks[-_MOST_MARKERS:]]
    labels = plan.labels if len(plan.labels) == count else ()
    if count > 1 or any(labels):
        notes["blocks"] = [
            {"end": end, **({"label": _short(label, _LONGEST_LABEL)} if label else {})}
            for end, label in zip(own_ends, labels or [""] * count, strict=True)
        ]
        notes = move_blocks(notes, ends if count <= _MOST_BLOCKS else None)
    if plan.key:
        notes["key"] = blake3_hex(plan.key.encode("utf-8", "surrogatepass"))[:_KEY_LENGTH]
    for name, word in (("retention", plan.retention), ("mode", plan.mode)):
        if word and _WORD.fullmatch(word):
            notes[name] = word
    if plan.kept_messages is not None:
        notes["kept"] = plan.kept_messages
    return notes


def move_blocks(notes: Mapping[str, JsonValue], ends: Sequence[int] | None) -> dict[str, JsonValue]:
    """The notes of a request whose system text was changed.

    Args:
        notes: Of the text before.
        ends: Where its blocks end now; ``None`` where that cannot be told. Then it is one block, and only the
            marker behind the last one has its place.
    """
    blocks, markers = notes.get("blocks"), notes.get("markers")
    if not isinstance(blocks, list):
        return dict(notes)
    if ends is not None and len(ends) == len(blocks):
        rows = [row if isinstance(row, dict) else {} for row in blocks]
        moved: list[JsonValue] = [{**row, "end": end} for row, end in zip(rows, ends, strict=True)]
        return {**notes, "blocks": moved}
    kept: list[JsonValue] = []
    for marker in markers if isinstance(markers, list) else ():
        if not isinstance(marker, dict) or marker.get("at") != "system":
            kept.append(marker)
        elif marker.get("number") == len(blocks):
            kept.append({**marker, "number": 1})
    rest = {name: value for name, value in notes.items() if name not in ("blocks", "markers")}
    return {"markers": kept, **rest} if kept else rest


def _marks(request: LlmRequest, plan: PromptCachePlan) -> list[CacheMark]:
    """All markers of a plan; of one that names a message that is not there, only those in its ``marks``."""
    found: dict[tuple[str, int, int | None], CacheMark] = {}
    try:
        kept = breakpoints_of(request).kept
    except InvalidRequest:
        kept = ()
    for one in kept:
        index = len(request.tools) - 1 if one.place is Place.TOOLS else one.index
        ttl: Literal["5m", "1h"] = "1h" if one.cache == "1h" else "5m"
        found[_PLACES[one.place], index, None] = CacheMark(_PLACES[one.place], index, ttl)
    found |= {(mark.place, mark.index, mark.part): mark for mark in plan.marks}
    return list(found.values())


def _marker(mark: CacheMark) -> JsonValue:
    note: dict[str, JsonValue] = {"at": mark.place}
    if mark.place != "prompt":
        note["number"] = mark.index + 1
    if mark.part is not None:
        note["part"] = mark.part + 1
    return {**note, "ttl": mark.ttl}


def _short(text: str, most: int) -> str:
    plain = escape_controls(" ".join(text[: most * 4].split()))
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def restore_breakpoints(request: LlmRequest, meta: Mapping[str, JsonValue] | None) -> LlmRequest:
    """A stored request with the plan that its recording notes; what makes no sense there is not followed.

    The cache key is the hash that was noted: it tells calls apart, and is nothing to send.

    Args:
        request: As it is stored.
        meta: Of the recording, or of the one answer of several.
    """
    plan = restore_plan(request, meta)
    return request if plan is None else replace(request, cache=plan)


def restore_plan(request: LlmRequest, meta: Mapping[str, JsonValue] | None) -> PromptCachePlan | None:
    """The plan alone, which is quicker for many; see :func:`restore_breakpoints`."""
    notes = (meta or {}).get("cache")
    return _read_notes(request, notes) if isinstance(notes, dict) else _read_old_notes(request, (meta or {}))


def _read_notes(request: LlmRequest, notes: Mapping[str, Any]) -> PromptCachePlan | None:
    blocks = list(_read_blocks(notes.get("blocks")))
    if not _fit(request.system, [end for end, _ in blocks]):
        blocks, notes = [], move_blocks(notes, None)
    labels = tuple(label for _, label in blocks)
    key, retention, mode = notes.get("key"), notes.get("retention"), notes.get("mode")
    kept = notes.get("kept")
    is_count = isinstance(kept, int) and not isinstance(kept, bool) and 0 <= kept <= _MOST_KEPT
    plan = PromptCachePlan(
        system_cuts=tuple((end, "none") for end, _ in blocks),
        marks=tuple(_read_markers(notes.get("markers"))),
        labels=labels if any(labels) else (),
        key=key if isinstance(key, str) else None,
        retention=retention if isinstance(retention, str) else None,
        mode=mode if isinstance(mode, str) else None,
        kept_messages=kept if is_count else None,
    )
    return plan if plan != PromptCachePlan() else None


def _fit(text: str, ends: Sequence[int]) -> bool:
    """Whether these are ends of blocks of a text."""
    return not ends or (ends[-1] == len(text) and all(text.startswith(BLANK_LINE, end) for end in ends[:-1]))


def _read_blocks(notes: object) -> Iterator[tuple[int, str]]:
    blocks: list[tuple[int, str]] = []
    for note in notes if isinstance(notes, list) and len(notes) <= _MOST_BLOCKS else ():
        match note:
            case {"end": int(end)} if end > (blocks[-1][0] if blocks else 0) and not isinstance(end, bool):
                label = note.get("label")
                blocks.append((end, _short(label, _LONGEST_LABEL) if isinstance(label, str) else ""))
            case _:  # the others tell nothing without it
                return
    yield from blocks


def _read_markers(notes: object) -> Iterator[CacheMark]:
    for note in notes[-_MOST_MARKERS:] if isinstance(notes, list) else ():
        match note:
            case {"at": "prompt", "ttl": ("5m" | "30m" | "1h") as ttl}:
                yield CacheMark("prompt", 0, ttl)
            case {
                "at": ("tool" | "system" | "message") as at,
                "number": number,
                "ttl": ("5m" | "30m" | "1h") as ttl,
            }:
                part = note.get("part")
                try:
                    yield CacheMark(at, _index(number), ttl, None if part is None else _index(part))
                except (InvalidRequest, TypeError):
                    continue


def _index(number: Any) -> int:
    return -1 if isinstance(number, bool) else number - 1


def _read_old_notes(request: LlmRequest, meta: Mapping[str, JsonValue]) -> PromptCachePlan | None:
    """The notes of earlier versions, which knew the tools as one and the offset of a marked block alone."""
    found: list[CacheMark] = []
    behind: dict[int, Literal["5m", "1h"]] = {}
    notes = meta.get("breakpoints")
    for note in notes if isinstance(notes, list) else ():
        match note:
            case {"behind": "tools", "ttl": ("5m" | "1h") as ttl} if request.tools:
                found.append(CacheMark("tool", len(request.tools) - 1, ttl))
            case {"behind": "message", "number": int(number), "ttl": ("5m" | "1h") as ttl} if (
                0 < number <= len(request.messages)
            ):
                found.append(CacheMark("message", number - 1, ttl))
            case {"behind": "system", "end": int(end), "ttl": ("5m" | "1h") as ttl} if (
                0 < end <= len(request.system)
            ):
                behind[end] = ttl
    cuts = sorted({*behind, len(request.system)}) if behind else []
    found += [CacheMark("system", i, behind[end]) for i, end in enumerate(cuts) if end in behind]
    if not found:
        return None
    order = ("tool", "system", "message")
    return PromptCachePlan(
        system_cuts=tuple((end, "none") for end in cuts) if len(cuts) > 1 else (),
        marks=tuple(sorted(found, key=lambda mark: (order.index(mark.place), mark.index))),
    )
