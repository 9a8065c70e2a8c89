"""Merging and comparing indexes: by key, never by line. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

from cortex_replay.store.index import Index, IndexSyntaxError, Row, parse_index, render_index

__all__ = [
    "Conflict",
    "IndexComparison",
    "compare_indexes",
    "merge_indexes",
    "read_both_sides",
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
    old, new = _by_key(before), _by_key(after)
    return IndexComparison(
        [row for key, row in new.items() if key not in old],
        [(old[key], row) for key, row in new.items() if key in old and old[key].blake3 != row.blake3],
        [row for key, row in old.items() if key not in new],
    )


def merge_indexes(base: Index, ours: Index, theirs: Index) -> tuple[Index, list[Conflict]]:
    """Take each side's changes; a key that both changed differently is a conflict, and left out."""
    old, here, there = _by_key(base), _by_key(ours), _by_key(theirs)
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
        sides = [render_rows([row]) if row else "" for row in (conflict.ours, conflict.theirs)]
        text += f"\n{_OURS}\n{sides[0]}{_MIDDLE}\n{sides[1]}{_THEIRS}\n"
    return text


def render_rows(rows: list[Row]) -> str:
    """Rows alone, without a header."""
    return render_index(Index.of(rows, {})).partition("\n\n")[2]


def read_both_sides(text: str) -> Index | None:
    """The rows of both sides of an index with conflict markers, or ``None`` if there are none.

    Whoever wrote the markers, git or :func:`render_conflicts`; a row that both sides have is
    there once.
    """
    sides = sides_of_conflict(text)
    if sides is None:
        return None
    try:
        ours, theirs = map(parse_index, sides)
    except IndexSyntaxError:
        return None
    return Index.of(dict.fromkeys([*ours.rows, *theirs.rows]), ours.header)


def sides_of_conflict(text: str) -> tuple[str, str] | None:
    """The two texts that conflict markers stand for, or ``None`` if there are no markers."""
    sides: tuple[list[str], list[str]] = ([], [])
    side = None
    has_marks = False
    for line in text.split("\n"):
        if line.startswith("<<<<<<<"):
            side, has_marks = 0, True
        elif line.startswith("|||||||") and side == 0:
            side = 2  # the common ancestor, in git's longer style: neither side's
        elif line.startswith("=======") and side is not None:
            side = 1
        elif line.startswith(">>>>>>>") and side == 1:
            side = None
        else:
            for number in (0, 1):
                if side in (None, number):
                    sides[number].append(line)
    return ("\n".join(sides[0]), "\n".join(sides[1])) if has_marks else None


def _by_key(index: Index) -> dict[_Key, Row]:
    # A row without a key (by crtx-llm) is known by its path.
    return {(type(row).__name__, *(row[2:] if any(row[2:]) else (row.path,))): row for row in index.rows}
