"""Changing whether an index has shards. The rows stay as they are, and so do all other files."""

from __future__ import annotations

from cortex_replay.errors import FixtureIntegrityFailed, StoreIo
from cortex_replay.gc_pause import pause_gc
from cortex_replay.store.check import check_listing
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index.shard_reading import read_index
from cortex_replay.store.state import translate_errors
from cortex_replay.store.writer import StoreWriter

__all__ = ["convert_index"]


@pause_gc()
def convert_index(source: DirectorySource, *, is_sharded: bool, dry_run: bool = False) -> bool:
    """Give an index shards, or make one file of it again; gives whether it had another form.

    Args:
        source: Where the store is.
        is_sharded: Whether it is to have shards.
        dry_run: Whether to say only what it has.

    Raises:
        FixtureIntegrityFailed: The store is not what its index says.
        StoreIo: It cannot have this form, another process committed meanwhile, or the disk refused.
    """
    report = check_listing(source)
    if not report.is_trusted:
        raise FixtureIntegrityFailed(report.findings)
    if not report.has_keys:
        raise StoreIo(
            "the index has rows without keys; run `cortex-replay index` first, which gives them some"
        )
    with translate_errors():
        index, data = read_index(source)
    if bool(index.shards) == is_sharded or not index.rows:
        return False
    if not dry_run:
        StoreWriter(source, report.layout).put_index(index, data, {}, is_sharded=is_sharded)
    return True
