"""Merging and comparing indexes: by key, never by line. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from cortex_replay.store.grid import render_index, render_row
from cortex_replay.store.index import Index, IndexSyntaxError, Row, parse_index

__all__ = [
    "Conflict",
    "IndexComparison",
    "compare_indexes",
    "likely_originals",
    "merge_indexes",
    "read_sides",
    "render_conflicts",
    "sides_of_conflict",
]

_Key = tuple[str | None, ...]
_OURS, _MIDDLE, _THEIRS = "<<<<<<< ours", "=======", ">>>>>>> theirs"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A key that both sides changed, each in its own way; ``None`` is a removal."""

    ours: Row | None
    theirs: Row | None


@dataclass(frozen=True, slots=True)
class IndexComparison:
    """What changed from one index to another; a changed key has its row of before and of after."""

    added: list[Row] = field(default_factory=list)
    changed: list[tuple[Row, Row]] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)


def compare_indexes(before: Index, after: Index) -> IndexComparison:
    """Which keys came, went, or have another file."""
    old, new = index_by_key(before), index_by_key(after)
    return IndexComparison(
        [row for key, row in new.items() if key not in old],
        [(old[key], row) for key, row in new.items() if key in old and old[key].blake3 != row.blake3],
        [row for key, row in old.items() if key not in new],
    )


def merge_indexes(base: Index, ours: Index, theirs: Index) -> tuple[Index, list[Conflict]]:
    """Take each side's changes; a key that both changed differently is a conflict, and left out."""
    old, here, there = index_by_key(base), index_by_key(ours), index_by_key(theirs)
    merged: list[Row] = []
    conflicts: list[Conflict] = []
    for key in dict.fromkeys([*here, *there]):
        mine, yours, was = here.get(key), there.get(key), old.get(key)
        if yours in (mine, was):
            chosen = mine
        elif mine == was:
            chosen = yours
        else:
            conflicts.append(Conflict(mine, yours))
            continue
        if chosen is not None:
            merged.append(chosen)
    return Index.of(merged, ours.header), conflicts


def render_conflicts(merged: Index, conflicts: list[Conflict]) -> str:
    """An index that no reader takes: what could be merged, then both sides of what could not."""
    text = render_index(merged)
    for conflict in conflicts:
        sides = [render_row(row) if row else "" for row in (conflict.ours, conflict.theirs)]
        text += f"\n{_OURS}\n{sides[0]}{_MIDDLE}\n{sides[1]}{_THEIRS}\n"
    return text


class Sides(NamedTuple):
    """The texts that conflict markers stand for."""

    ours: str
    theirs: str
    base: str | None
    """Of the common ancestor, which git shows in its longer styles only."""


def read_sides(text: str) -> tuple[Index, Index, Index] | None:
    """Base, ours and theirs of an index with conflict markers, or ``None`` if it has none.

    Whoever wrote the markers, git or :func:`render_conflicts`. Where they do not tell the base, it is what
    both sides have: then nothing counts as removed.

    Raises:
        IndexSyntaxError: A side is no index.
    """
    sides = sides_of_conflict(text)
    if sides is None:
        return None
    ours, theirs = parse_index(sides.ours), parse_index(sides.theirs)
    try:
        base = parse_index(sides.base or "[no base]")
    except IndexSyntaxError:
        there = set(theirs.rows)
        base = Index.of((row for row in ours.rows if row in there), ours.header)
    return base, ours, theirs


def sides_of_conflict(text: str) -> Sides | None:
    """The texts that conflict markers stand for, or ``None`` if there are no markers."""
    sides: tuple[list[str], list[str], list[str]] = ([], [], [])
    side = None
    has_marks = has_base = False
    for line in text.split("\n"):
        if line.startswith("<<<<<<<"):
            side, has_marks = 0, True
        elif line.startswith("|||||||") and side == 0:
            side, has_base = 2, True
        elif line.startswith("=======") and side is not None:
            side = 1
        elif line.startswith(">>>>>>>") and side == 1:
            side = None
        else:
            for number, lines in enumerate(sides):
                if side in (None, number):
                    lines.append(line)
    if not has_marks:
        return None
    ours, theirs, base = map("\n".join, sides)
    return Sides(ours, theirs, base if has_base else None)


def likely_originals(data: bytes) -> Iterator[bytes]:
    """What a file may have been before git changed its line ends, or merged two answers into one."""
    yield data.replace(b"\r\n", b"\n")
    yield data.replace(b"\n", b"\r\n")
    with suppress(UnicodeDecodeError):
        for side in (sides_of_conflict(data.decode()) or ())[:2]:
            yield (side or "").encode()


def index_by_key(index: Index) -> dict[_Key, Row]:
    # A row without a key (by crtx-llm) is known by its path.
    return {(type(row).__name__, *(row[2:] if any(row[2:]) else (row.path,))): row for row in index.rows}
