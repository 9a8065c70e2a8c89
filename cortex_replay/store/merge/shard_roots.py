"""Merging the root of a sharded index: it has to list what git makes of each shard.

Git merges file by file. It takes a shard that one side changed as it is, and gives one that both changed to
the merge driver, in whatever order. So when the root is merged, no merged shard is there yet. But all
versions of them are in git, and the roots name them by their hashes: what becomes of a shard can be told.

What one side removes and the other needs (:mod:`.merge`) may stand in two shards, and is only seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cortex_replay.hashing import blake3_hex
from cortex_replay.store.index.grid import render_root, render_shard
from cortex_replay.store.index.index import Index, Row, ShardRow
from cortex_replay.store.index.shards import shard_of, split_index
from cortex_replay.store.merge.merge import NamedParts, merge_indexes, paths_lost
from cortex_replay.store.signing.chain import merge_heads
from cortex_replay.store.trust import Untrusted, trust_shard

__all__ = ["FindShards", "RootMerge", "merge_roots", "render_sides"]

FindShards = Callable[[Collection[ShardRow]], Mapping[ShardRow, bytes]]
"""The bytes of shards by their hashes, as far as they are known."""


@dataclass(frozen=True, slots=True)
class RootMerge:
    """What becomes of a root."""

    text: str = ""
    """Empty if it cannot be told: then rows have to be merged, of all shards at once."""
    problems: list[str] = field(default_factory=list)
    """Why."""
    lost: list[str] = field(default_factory=list)
    """Files that git removes, since one side did, and the other needs."""


def merge_roots(
    base: Index, ours: Index, theirs: Index, find: FindShards, named_parts: NamedParts | None = None
) -> RootMerge:
    """Say what a root lists after git has merged all shards.

    Args:
        base: The common ancestor, which may be an index in one file.
        ours: One side.
        theirs: The other.
        find: Where shards come from.
        named_parts: As for :func:`.merge_indexes`.
    """
    if not (ours.shards and theirs.shards):
        return RootMerge(problems=["one side has shards, the other has all rows in one file"])
    roots = _Roots(*({shard.name: shard for shard in root.shards} for root in (base, ours, theirs)))
    changed = roots.changed()
    wanted = {shard for name in changed for shard in roots.versions(name) if shard is not None}
    found = find(wanted)
    if missing := sorted({shard.path for shard in wanted if shard not in found}):
        return RootMerge(problems=[f"git has not got all versions of {path}" for path in missing])
    try:
        parsed = {shard: trust_shard(shard, found[shard]) for shard in wanted}
    except Untrusted as error:
        return RootMerge(problems=[f"{error.finding.path}: {error.finding.reason}"])
    sides = [_rows_of(side, changed, parsed) for side in roots]
    if not base.shards:
        rows = split_index(base)
        sides[0] = Index.of((row for name in changed if name in rows for row in rows[name].rows), {})
    whole, conflicts = merge_indexes(sides[0], sides[1], sides[2], named_parts)
    contested = {shard_of(row) for one in conflicts for row in (one.ours, one.theirs) if row is not None}
    right = split_index(whole)
    listed = {name: shard for name, shard in roots.ours.items() if name not in changed}
    problems: list[str] = []
    for name in changed:
        taken = _merge_as_git_does(name, roots, parsed, named_parts)
        expected = set(right[name].rows) if name in right else set[Row]()
        if taken is None or name in contested or set(taken[1].rows) != expected:
            problems.append(f"{ShardRow(name, '').path} is not what both sides together come to")
        elif taken[0] is not None:
            listed[name] = taken[0]
    text = "" if problems else render_root(merge_heads(ours.header, theirs.header), listed.values())
    return RootMerge(text, problems, paths_lost(whole, sides[0], sides[1], sides[2]))


class _Roots(NamedTuple):
    """The shards that the three roots list, by name."""

    base: dict[str, ShardRow]
    ours: dict[str, ShardRow]
    theirs: dict[str, ShardRow]

    def versions(self, name: str) -> tuple[ShardRow | None, ShardRow | None, ShardRow | None]:
        return self.base.get(name), self.ours.get(name), self.theirs.get(name)

    def changed(self) -> list[str]:
        names = sorted({*self.base, *self.ours, *self.theirs})
        return [name for name in names if len(set(self.versions(name))) > 1]


def _rows_of(side: Mapping[str, ShardRow], names: Collection[str], parsed: Mapping[ShardRow, Index]) -> Index:
    return Index.of((row for name in names if name in side for row in parsed[side[name]].rows), {})


def _merge_as_git_does(
    name: str, roots: _Roots, parsed: Mapping[ShardRow, Index], named_parts: NamedParts | None
) -> tuple[ShardRow | None, Index] | None:
    """What git leaves in the place of a shard, and its rows; ``None`` if it reports a conflict."""
    base, ours, theirs = roots.versions(name)
    if ours == theirs or base in (ours, theirs):
        taken = theirs if base == ours else ours
        return taken, parsed[taken] if taken is not None else Index()
    if ours is None or theirs is None:
        return None  # one removes the file, the other changes it
    old = parsed[base] if base is not None else Index()
    merged, conflicts = merge_indexes(old, parsed[ours], parsed[theirs], named_parts)
    if conflicts or not merged.rows:
        return None  # one without rows is not listed
    return ShardRow(name, blake3_hex(render_shard(merged).encode())), merged


def render_sides(ours: str, theirs: str) -> str:
    """A root that no reader takes: both sides, as they are."""
    return f"<<<<<<< ours\n{ours}=======\n{theirs}>>>>>>> theirs\n"
