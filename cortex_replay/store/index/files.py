"""The files of an index, as a commit reads and writes them: one, or a root and the shards that it touches."""

from __future__ import annotations

import re
from collections.abc import Collection, Set as AbstractSet
from contextlib import suppress
from typing import Final, NamedTuple

from cortex_replay.errors import StoreIo
from cortex_replay.store import trust
from cortex_replay.store.changes import Add, Pin, Remove, shard_of_change
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index import shards
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, ScopedRow, content_key, row_key
from cortex_replay.store.index.shard_reading import read_shard, read_shards
from cortex_replay.store.index.sharded_rows import ShardedRows
from cortex_replay.store.index.shards import (
    IndexFiles,
    join_shards,
    render_whole,
    replace_shards,
    split_index,
)
from cortex_replay.store.lock import LockedStore
from cortex_replay.store.trust import Layout, Untrusted

__all__ = ["Touched", "read_touched", "render_anew", "render_commit", "vouched_digests"]

_FLAT: Final = (
    "a store in the flat layout has none; record into a new store, which is nested, or prune this one"
)
_DIGEST: Final = re.compile(rb"[0-9a-f]{64}")


class Touched(NamedTuple):
    """What a commit has read of an index: some shards, or an index in one file."""

    names: frozenset[str]
    """Those of the shards."""
    rows: Index
    """Their rows, or all there are."""


def read_touched(
    source: DirectorySource, root: Index, rows: ShardedRows | None, changes: Collection[Add | Remove | Pin]
) -> Touched:
    """Read all rows that changes may concern: those of their keys, and of what continues their requests.

    Args:
        source: Where the store is.
        root: The index, or its root.
        rows: How to look into other shards, if there are any.
        changes: What a commit is to change.

    Raises:
        Untrusted: A shard is not what the root says.
    """
    if rows is None:
        return Touched(frozenset(), root)
    names = frozenset(map(shard_of_change, changes))
    index = _read_shards(source, root, names)
    changed = {_key_of(change) for change in changes if not isinstance(change, Pin)}
    files: list[FixtureRow | ScopedRow] = [*index.fixtures, *index.scoped]
    listed = {(row.model, row.prompt_hash) for row in files} & changed
    continued = rows.shards_that_continue(listed)
    if continued <= names:
        return Touched(names, index)
    return Touched(names | continued, _read_shards(source, root, names | continued))


def _read_shards(source: DirectorySource, root: Index, names: AbstractSet[str]) -> Index:
    return join_shards(root, read_shards(source, [shard for shard in root.shards if shard.name in names]))


def _key_of(change: Add | Remove) -> tuple[str | None, str | None]:
    model, prompt_hash, *_ = change.key if isinstance(change, Remove) else content_key(change.row)
    return model, prompt_hash


def render_commit(
    store: LockedStore,
    source: DirectorySource,
    layout: Layout,
    root: Index,
    touched: AbstractSet[str],
    index: Index,
) -> tuple[Index, IndexFiles]:
    """The index after a commit, or its root, and the files of it that change.

    Args:
        store: The store, locked.
        source: Where it is.
        layout: Where its files stand.
        root: The index before, or its root.
        touched: The shards that were read for the commit.
        index: The rows after it: of these shards, or all there are. Parts may come in others.
    """
    if not root.shards:
        return _limit(render_whole(index, is_sharded=_goes_over(store, layout, index)), layout)
    now = split_index(index)
    for name in now.keys() - touched:
        now[name] = _add_parts(source, root, name, now[name])
    names = {*touched, *now}
    return _limit(replace_shards(root, {name: now.get(name, Index()) for name in names}), layout)


def _add_parts(source: DirectorySource, root: Index, name: str, new: Index) -> Index:
    """A shard that was not read yet, with new parts."""
    if not all(isinstance(row, PartRow) for row in new.rows):
        raise RuntimeError("a commit changes rows of a shard that it has not read")
    listed = [row for shard in root.shards if shard.name == name for row in read_shard(source, shard).rows]
    by_key = {row_key(row): row for row in (*listed, *new.rows)}
    return Index.of(by_key.values(), {})


def render_anew(
    store: LockedStore, layout: Layout, index: Index, expected: bytes | None, is_sharded: bool | None
) -> IndexFiles:
    """The files of a whole index that differ from those that are there.

    Args:
        store: The store, locked.
        layout: Where its files stand.
        index: All rows.
        expected: ``INDEX.toml`` as it is, ``None`` if it is not there.
        is_sharded: Whether it is to have shards; if nothing is said, as it has now, or as its size says.

    Raises:
        StoreIo: It cannot have shards, or is too large without.
    """
    present = store.present_shards() if layout is Layout.NESTED else {}
    old = _parse_root(expected)
    # Of an index that cannot be read, what stands in the places of shards tells whether it had any.
    had_shards = bool(old.shards) if old is not None else bool(present)
    if is_sharded and layout is Layout.FLAT:
        raise StoreIo(f"the index cannot have shards: {_FLAT}")
    if is_sharded and not had_shards and not store.has_place_for_shards():
        raise StoreIo("the index cannot have shards: something else stands in index/, move it elsewhere")
    if is_sharded is None:
        is_sharded = bool(index.shards) or had_shards or _goes_over(store, layout, index)
    _, files = _limit(render_whole(index, is_sharded=is_sharded), layout)
    digests = files.digests
    gone = present.keys() - digests.keys() if is_sharded or had_shards else frozenset[str]()
    changed = {name: data for name, data in files.shards.items() if present.get(name) != digests[name]}
    return IndexFiles(files.root, changed | dict.fromkeys(gone, b""))


def vouched_digests(source: DirectorySource, root: bytes | None) -> set[str]:
    """All hashes that an index has, as far as it can be read."""
    found = {digest.decode() for digest in _DIGEST.findall(root or b"")}
    old = _parse_root(root)
    for shard in old.shards if old is not None else ():
        with suppress(Untrusted):
            found |= {row.blake3 for row in read_shard(source, shard).rows}
    return found


def _goes_over(store: LockedStore, layout: Layout, index: Index) -> bool:
    """Whether an index in one file has become so large that it is to have shards."""
    return (
        len(index.rows) > shards.MOST_ROWS_IN_ONE_FILE
        and layout is Layout.NESTED
        and store.has_place_for_shards()
    )


def _parse_root(data: bytes | None) -> Index | None:
    """The root of an index, unless there is none that can be read."""
    with suppress(Untrusted):
        return Index() if data is None else trust.trust_index(data)
    return None


def _limit(rendered: tuple[Index, IndexFiles], layout: Layout) -> tuple[Index, IndexFiles]:
    index, files = rendered
    if max(map(len, (files.root, *files.shards.values()))) <= trust.MAX_INDEX_BYTES:
        return rendered
    advice = "prune it"
    if not index.shards:
        advice = _FLAT if layout is Layout.FLAT else "with shards, each of them may be so large"
    raise StoreIo(
        f"the index would be larger than {trust.MAX_INDEX_BYTES} bytes, which no reader takes; {advice}"
    )
