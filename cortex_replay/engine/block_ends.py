"""Where the blocks of a system text end once the text was normalised, redacted and bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cortex_replay.canonical import JsonValue

__all__ = ["BLANK_LINE", "move_ends", "move_noted_blocks"]

BLANK_LINE: Final = "\n\n"
"""What stands between two blocks."""
_SEAMS: Final = tuple(map(chr, range(0xE000, 0xE010)))
"""Characters for private use, which no rule is about."""


def move_ends(
    text: str, ends: Sequence[int], changed: str, change: Callable[[str], str | None]
) -> tuple[int, ...] | None:
    """Where blocks end in a text that was changed; ``None`` where that cannot be found out.

    The same is done to the text with seams between its blocks. Only if nothing but the seams tells the two
    results apart are they where the blocks end.

    Args:
        text: As it was.
        ends: Where its blocks end there.
        changed: What became of it.
        change: What was done; ``None`` where it cannot be done to another text.
    """
    if changed == text:
        return tuple(ends)
    if len(ends) <= 1:
        return (len(changed),) if ends and changed else None
    seam = next((seam for seam in _SEAMS if seam not in text and seam not in changed), None)
    if seam is None:
        return None
    starts = [0, *(end + len(BLANK_LINE) for end in ends[:-1])]
    blocks = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    between = f"{BLANK_LINE}{seam}{BLANK_LINE}"
    made = change(between.join(blocks))
    pieces = [] if made is None else made.split(between)
    if len(pieces) != len(blocks) or BLANK_LINE.join(pieces) != changed or not all(pieces):
        return None
    moved: list[int] = []
    for piece in pieces:
        moved.append((moved[-1] + len(BLANK_LINE) if moved else 0) + len(piece))
    return tuple(moved)


def move_noted_blocks(
    meta: Mapping[str, JsonValue] | None, text: str, changed: str, change: Callable[[str], str | None]
) -> dict[str, JsonValue] | None:
    """What a recording says of itself, for a system text that was changed; see :func:`move_ends`."""
    notes = (meta or {}).get("cache")
    blocks = notes.get("blocks") if isinstance(notes, dict) else None
    if meta is None or changed == text or not isinstance(notes, dict) or not isinstance(blocks, list):
        return None if meta is None else dict(meta)
    # Few recordings have blocks, and fewer are changed.
    from cortex_replay.prompt.breakpoint_notes import move_blocks  # noqa: PLC0415

    ends: list[int] = []
    for row in blocks:
        end = row.get("end") if isinstance(row, dict) else None
        ends += [end] if isinstance(end, int) else []
    is_known = len(ends) == len(blocks) and ends == sorted(ends) and ends[-1:] == [len(text)]
    moved = move_ends(text, ends, changed, change) if is_known else None
    return {**meta, "cache": move_blocks(notes, moved)}
