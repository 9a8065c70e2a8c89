"""Merging and comparing indexes: by key, never by line. No I/O.

What one side removes and the other has come to need stays: a request that others continue, and what requests
share (`docs/adr/0016-a-conversation-is-stored-once.md`). A removal loses against a use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from cortex_replay.store.index.grid import render_index, render_row
from cortex_replay.store.index.index import (
    FixtureRow,
    Index,
    IndexSyntaxError,
    PartRow,
    Row,
    ScopedRow,
    content_key,
    continued_by,
    parse_index,
    row_key,
)
from cortex_replay.store.signing.chain import merge_heads

__all__ = [
    "Conflict",
    "IndexComparison",
    "NamedParts",
    "common_rows",
    "compare_indexes",
    "likely_originals",
    "merge_indexes",
    "missing_parents",
    "paths_lost",
    "read_sides",
    "render_conflicts",
    "sides_of_conflict",
    "with_parents",
]

_Key = tuple[str | None, ...]
_FixtureKey = tuple[str | None, str | None]
NamedParts = Callable[[Row], Collection[str] | None]
"""The parts that the file of a row names, by their hashes; ``None`` where that cannot be told."""
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
    old, new = _index_by_key(before), _index_by_key(after)
    return IndexComparison(
        [row for key, row in new.items() if key not in old],
        [(old[key], row) for key, row in new.items() if key in old and old[key].blake3 != row.blake3],
        [row for key, row in old.items() if key not in new],
    )


def merge_indexes(
    base: Index, ours: Index, theirs: Index, named_parts: NamedParts | None = None
) -> tuple[Index, list[Conflict]]:
    """Take each side's changes; a key that both changed differently is a conflict, and left out.

    Args:
        base: The common ancestor.
        ours: One side.
        theirs: The other.
        named_parts: Tells what rows need; without it, a part that one side removed stays if it may be needed.
    """
    old, here, there = _index_by_key(base), _index_by_key(ours), _index_by_key(theirs)
    merged: dict[_Key, Row] = {}
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
            merged[key] = chosen
    contested = [row for one in conflicts for row in (one.ours, one.theirs) if row is not None]
    rows = with_parents(merged.values(), contested, ours, theirs)
    for side, other in ((here, there), (there, here)):
        pruned = [
            row
            for key, row in other.items()
            if isinstance(row, PartRow) and key not in side and key not in merged
        ]
        users = [row for row in (*rows, *contested) if _is_new(row, side)] if pruned else []
        rows += [part for part in pruned if _is_named(part, users, named_parts)]
    return Index.of(rows, merge_heads(ours.header, theirs.header)), conflicts


def with_parents(rows: Iterable[Row], others: Iterable[Row], *sides: Index) -> list[Row]:
    """Rows, and those of the sides that they, or the others, continue and that neither have.

    A parent comes back with the failures before it, as it was recorded.
    """
    kept = list(rows)
    others = list(others)
    wanted = missing_parents([*kept, *others])
    while wanted:
        known = {_key_of(row) for row in (*kept, *others)}
        sequences = (row for key in sorted(wanted) for row in _sequence_of(key, sides))
        found = [row for row in sequences if _key_of(row) not in known]
        if not found:
            return kept  # as broken as it was on its side
        kept += found
        wanted = missing_parents([*kept, *others])
    return kept


def missing_parents(rows: Collection[Row]) -> set[tuple[str, str]]:
    """The keys of requests that rows continue, and that no row has."""
    known = {content_key(row)[:2] for row in rows if _is_fixture(row)}
    needed = {(content_key(row)[0], parent) for row in rows if (parent := continued_by(row)) is not None}
    return {(str(model), parent) for model, parent in needed if (model, parent) not in known}


def _sequence_of(key: _FixtureKey, sides: Iterable[Index]) -> list[Row]:
    """The answers under a key, shared, or else of one scope, in the first of the sides that has it."""
    for side in sides:
        shared = next((row for row in side.fixtures if row[2:4] == key), None)
        if shared is not None:
            return [shared, *(row for row in side.exchanges if row[2:4] == key)]
        own = [row for row in side.scoped if row[2:4] == key]
        scopes = [row.scope for row in own if row.is_fixture]
        if scopes:
            return [row for row in own if row.scope == min(scopes)]
    return []


def paths_lost(merged: Index, base: Index, ours: Index, theirs: Index) -> list[str]:
    """Files that a merged index lists and git removes, since one side has removed them."""
    was, here, there = ({row.path for row in index.rows} for index in (base, ours, theirs))
    return sorted({row.path for row in merged.rows} & was - (here & there))


def _is_fixture(row: Row) -> bool:
    return isinstance(row, FixtureRow) or (isinstance(row, ScopedRow) and row.is_fixture)


def _is_new(row: Row, side: dict[_Key, Row]) -> bool:
    """Whether a row may name a part that this side has not got: it is not this side's own."""
    return _is_fixture(row) and continued_by(row) is None and side.get(_key_of(row)) != row


def _is_named(part: Row, users: list[Row], named_parts: NamedParts | None) -> bool:
    for user in users:
        named = named_parts(user) if named_parts is not None else None
        if named is None or part.blake3 in named:
            return True
    return False


def render_conflicts(
    merged: Index, conflicts: list[Conflict], render: Callable[[Index], str] = render_index
) -> str:
    """What could be merged, then both sides of what could not: with these, no reader takes it."""
    text = render(merged)
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

    Git wrote the markers, or :func:`render_conflicts` did. Where they do not tell the base, it is what
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
        base = common_rows(ours, theirs)
    return base, ours, theirs


def common_rows(ours: Index, theirs: Index) -> Index:
    """What takes the place of a base that is not known."""
    there = set(theirs.rows)
    return Index.of((row for row in ours.rows if row in there), ours.header)


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


def _index_by_key(index: Index) -> dict[_Key, Row]:
    """The rows of an index by what they are found by."""
    return {_key_of(row): row for row in index.rows}


def _key_of(row: Row) -> _Key:
    # A row without a key (by crtx-llm) is known by its path.
    return (type(row).__name__, *(key if any(key := row_key(row)) else (row.path,)))
