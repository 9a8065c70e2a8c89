"""The three versions of an index that a merge brings together, each with all of its rows.

Git keeps them of a file in conflict. Of the shards that their roots list, some are in the work tree and the
others in git. Where there is no git, the markers have to do, in the root and in the shards.
"""

from __future__ import annotations

from collections.abc import Sequence

from cortex_replay.errors import Finding, FixtureIntegrityFailed, StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import hints
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.git.history import History
from cortex_replay.store.index.index import Index, IndexSyntaxError, ShardRow, parse_index
from cortex_replay.store.index.shards import SHARD_NAMES, join_shards
from cortex_replay.store.merge.merge import common_rows, read_sides
from cortex_replay.store.paths import INDEX_NAME, MAX_INDEX_BYTES, SHARDS_FOLDER
from cortex_replay.store.trust import Untrusted, trust_index, trust_shard

__all__ = ["Sides", "has_shards", "marked_sides", "staged_sides"]

Sides = tuple[Index, Index, Index]
"""Base, ours and theirs."""


def staged_sides(source: DirectorySource, history: History) -> Sides | None:
    """Base, ours and theirs, if git could not merge the index.

    Raises:
        FixtureIntegrityFailed: One of them is no index.
        StoreIo: Git has not got a shard of one.
    """
    texts = history.stages(INDEX_NAME)
    if texts[1:] == (None, None):
        return None
    try:
        return _join([trust_index(text or b"") for text in texts], source, history)
    except Untrusted as error:
        raise FixtureIntegrityFailed([error.finding]) from None


def marked_sides(source: DirectorySource, history: History, data: bytes) -> Sides | None:
    """The same, told from the markers in an index.

    Raises:
        FixtureIntegrityFailed: What the markers stand for is no index.
    """
    sides = _read_marks(INDEX_NAME, data)
    if sides is None or not any(side.shards for side in sides):
        return sides
    if any(shard.name not in SHARD_NAMES for side in sides for shard in side.shards):
        reason = "has conflict markers, and a side of them lists a shard that none can be called"
        raise FixtureIntegrityFailed([Finding("index-malformed", INDEX_NAME, reason, hints.RESTORE)])
    try:
        base, ours, theirs = _join(sides, source, history)
    except (StoreIo, Untrusted):
        shards = [_marks_in_shard(source, name) for name in sorted(SHARD_NAMES)]
        base, ours, theirs = (
            join_shards(root, [shard[number] for shard in shards]) if root.shards else root
            for number, root in enumerate(sides)
        )
    return base if base.rows else common_rows(ours, theirs), ours, theirs


def has_shards(base: Index, ours: Index, theirs: Index) -> bool | None:
    """Whether the merged index has shards: as the side says that went over to them, or back; ``None`` if no
    side has any."""
    forms = [bool(side.shards) for side in (base, ours, theirs)]
    if not any(forms):
        return None
    return forms[1] if forms[2] == forms[0] else forms[2]


def _join(roots: Sequence[Index], source: DirectorySource, history: History) -> Sides:
    """Each root with the rows of its shards."""
    wanted = {shard for root in roots for shard in root.shards}
    found: dict[ShardRow, bytes] = {}
    for shard in wanted:
        present = source.read(shard.path, MAX_INDEX_BYTES)
        if isinstance(present, bytes) and blake3_hex(present) == shard.blake3:
            found[shard] = present
    found |= history.find_shards(wanted - found.keys())
    if missing := sorted({shard.path for shard in wanted - found.keys()}):
        raise StoreIo(
            f"git has not got all versions of {missing[0]} that {INDEX_NAME} lists; fetch what was merged"
        )
    parsed = {shard: trust_shard(shard, data) for shard, data in found.items()}
    base, ours, theirs = (
        join_shards(root, [parsed[shard] for shard in root.shards]) if root.shards else root for root in roots
    )
    return base, ours, theirs


def _read_marks(path: str, data: bytes) -> Sides | None:
    try:
        # Line ends that git or an editor changed say nothing about what was trusted.
        return read_sides(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except (UnicodeDecodeError, IndexSyntaxError) as error:
        reason = f"has conflict markers, but a side of them is no index: {error}"
        raise FixtureIntegrityFailed([Finding("index-malformed", path, reason, hints.RESTORE)]) from None


def _marks_in_shard(source: DirectorySource, name: str) -> Sides:
    """What both sides have in the place of a shard: the same, where there are no markers."""
    path = f"{SHARDS_FOLDER}/{name}.toml"
    data = source.read(path, MAX_INDEX_BYTES)
    if isinstance(data, Finding):
        return Index(), Index(), Index()
    if (sides := _read_marks(path, data)) is not None:
        return sides
    try:
        index = parse_index(data.decode())
    except (UnicodeDecodeError, IndexSyntaxError) as error:
        finding = Finding("index-malformed", path, f"is no shard: {error}", hints.for_index(data))
        raise FixtureIntegrityFailed([finding]) from None
    return index, index, index
