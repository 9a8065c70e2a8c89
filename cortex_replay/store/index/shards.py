"""An index in many files: what stands where. No I/O.

Who asks one question should not read a million rows, nor should who records one answer write them. So a
large index is a tree of two levels (`docs/adr/0017-a-sharded-index.md`): ``INDEX.toml``, the root, names
shards with their BLAKE3, and each shard, ``index/3f.toml``, is an index of its own. A row's shard comes from
what the row is about, so all that may answer one question stands in one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from blake3 import blake3

from cortex_replay.hashing import blake3_hex
from cortex_replay.store.index.grid import render_index, render_root, render_shard
from cortex_replay.store.index.index import Index, PartRow, Row, ShardRow, content_key
from cortex_replay.store.paths import INDEX_NAME

__all__ = [
    "MOST_ROWS_IN_ONE_FILE",
    "SHARD_NAMES",
    "IndexFiles",
    "join_shards",
    "render_files",
    "render_whole",
    "replace_shards",
    "shard_of",
    "shard_of_key",
    "shard_of_part",
    "split_index",
]

SHARD_NAMES: Final = frozenset(f"{number:02x}" for number in range(256))
MOST_ROWS_IN_ONE_FILE: Final = 20_000
"""A store with more rows goes over to shards by itself; the figures are in the ADR."""


@dataclass(frozen=True, slots=True)
class IndexFiles:
    """What a commit writes of an index."""

    root: bytes
    shards: Mapping[str, bytes] = field(default_factory=dict)
    """By name, the new bytes of those shards that change; none, for one that goes."""

    @property
    def digests(self) -> dict[str, str]:
        """By name, the hash of each shard that changes; "" for one that goes."""
        return {name: blake3_hex(data) if data else "" for name, data in self.shards.items()}


def shard_of_key(model: str | None, prompt_hash: str | None, key: str | None = None) -> str:
    """The shard of all that is recorded under a key: of a completion, or of an opaque call."""
    text = f"{model or ''}\0{prompt_hash or ''}\0{key or ''}"
    return blake3(text.encode(errors="surrogatepass")).hexdigest(1)


def shard_of_part(digest: str) -> str:
    """The shard of a part."""
    return digest[:2]


def shard_of(row: Row) -> str:
    """The shard of a row."""
    if isinstance(row, PartRow):
        return shard_of_part(row.blake3)
    model, prompt_hash, _, key = content_key(row)
    return shard_of_key(model, prompt_hash, key)


def split_index(index: Index) -> dict[str, Index]:
    """The shards of an index by name; those without rows are left out. Every row needs a key."""
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in index.rows:
        rows[shard_of(row)].append(row)
    return {name: Index.of(rows[name], {}) for name in sorted(rows)}


def join_shards(root: Index, shards: Iterable[Index]) -> Index:
    """One index with the rows of all shards."""
    rows = (row for shard in shards for row in shard.rows)
    return Index.of(rows, root.header, root.shards)


def replace_shards(root: Index, shards: Mapping[str, Index]) -> tuple[Index, IndexFiles]:
    """The root, and what is to be written, once some of its shards have other rows.

    Args:
        root: The root as it was.
        shards: By name, the rows that a shard has from now on.
    """
    listed = {shard.name: shard for shard in root.shards}
    changed: dict[str, bytes] = {}
    for name, shard in shards.items():
        data = render_shard(shard).encode() if shard.rows else b""
        if data and listed.get(name) == (row := ShardRow(name, blake3_hex(data))):
            continue
        if data:
            listed[name] = row
        elif listed.pop(name, None) is None:
            continue
        changed[name] = data
    new = Index(header=root.header, shards=[listed[name] for name in sorted(listed)])
    return new, IndexFiles(render_root(new.header, new.shards).encode(), changed)


def render_whole(index: Index, *, is_sharded: bool) -> tuple[Index, IndexFiles]:
    """``INDEX.toml`` as it reads then, and all files of an index."""
    if is_sharded and index.rows:
        return replace_shards(Index(header=index.header), split_index(index))
    return index, IndexFiles(render_index(index).encode())


def render_files(index: Index) -> dict[str, bytes]:
    """The files of a whole index, by path: the root alone, or with its shards if it has any."""
    _, files = render_whole(index, is_sharded=bool(index.shards))
    return {INDEX_NAME: files.root, **{ShardRow(name, "").path: data for name, data in files.shards.items()}}
