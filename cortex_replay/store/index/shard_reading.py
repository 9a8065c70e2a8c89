"""Reading an index that has shards. A shard is trusted by its hash in the root, wherever its bytes come from.

A commit replaces the root at one instant, and the shards after it. So new shards wait in the writers' folder
first, named in the journal: a reader that finds other bytes in a shard's place looks there, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cortex_replay.errors import Finding
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.index.index import Index, ShardRow
from cortex_replay.store.index.shards import join_shards
from cortex_replay.store.journal import trust_journal
from cortex_replay.store.paths import INDEX_NAME, MAX_INDEX_BYTES
from cortex_replay.store.source import Source
from cortex_replay.store.trust import Untrusted, check_shard_bytes, trust_index, trust_shard

__all__ = ["read_index", "read_root", "read_shard", "read_shard_bytes", "read_shards", "try_shards"]


def read_root(source: Source) -> tuple[Index, bytes]:
    """Read ``INDEX.toml``: all rows, or the shards that have them.

    Raises:
        Untrusted: It is not there, or it is none.
    """
    data = source.read(INDEX_NAME, MAX_INDEX_BYTES)
    if isinstance(data, Finding):
        raise Untrusted(data)
    return trust_index(data), data


def read_index(source: Source) -> tuple[Index, bytes]:
    """Read the whole index; gives the bytes of ``INDEX.toml``, too, which stand for all of it.

    Raises:
        Untrusted: It or a shard is not there, or not what it should be.
    """
    root, data = read_root(source)
    return join_shards(root, read_shards(source, root.shards)) if root.shards else root, data


def read_shards(source: Source, shards: Iterable[ShardRow]) -> Iterator[Index]:
    """Read shards one after the other.

    Raises:
        Untrusted: One is not there, or not what the root says.
    """
    for index in _try_each(source, shards):
        if isinstance(index, Finding):
            raise Untrusted(index)
        yield index


def try_shards(source: Source, root: Index) -> tuple[Index, list[Finding]]:
    """The whole index of a root, as far as its shards can be trusted, and what is wrong with the others."""
    found = list(_try_each(source, root.shards))
    trusted = [index for index in found if isinstance(index, Index)]
    return join_shards(root, trusted), [index for index in found if isinstance(index, Finding)]


def _try_each(source: Source, shards: Iterable[ShardRow]) -> Iterator[Index | Finding]:
    for shard in shards:
        try:
            yield read_shard(source, shard)
        except Untrusted as error:
            yield error.finding


def read_shard(source: Source, shard: ShardRow) -> Index:
    """Read one shard.

    Raises:
        Untrusted: It is not there, or not what the root says.
    """
    return trust_shard(shard, read_shard_bytes(source, shard))


def read_shard_bytes(source: Source, shard: ShardRow) -> bytes:
    """The bytes of one shard, which have the hash that the root says; what they say is unchecked.

    Raises:
        Untrusted: It is not there, or has other bytes.
    """
    try:
        return _read_in_place(source, shard)
    except Untrusted:
        if not trust_journal(source.read_journal()).promises(shard):
            return _read_in_place(source, shard)  # which may be there by now
    waiting = source.read_waiting(shard.blake3)
    if blake3_hex(waiting) == shard.blake3:
        return waiting
    return _read_in_place(source, shard)  # it waits no more


def _read_in_place(source: Source, shard: ShardRow) -> bytes:
    data = source.read(shard.path, MAX_INDEX_BYTES)
    if isinstance(data, Finding):
        raise Untrusted(data)
    check_shard_bytes(shard, data)
    return data
