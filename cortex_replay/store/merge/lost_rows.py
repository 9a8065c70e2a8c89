"""What a merge dropped although something needs it: parents of requests, parts, and whole shards.

Git merges an index by line, where no driver tells it otherwise. If one branch removes a recording and another
adds one that continues it, the two lines do not meet, and git sees no conflict. And where both branches
changed a shard, who resolves the root by hand lists one of the two versions, and not what git made of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import cache

from cortex_replay.hashing import blake3_hex
from cortex_replay.store.check import CheckReport
from cortex_replay.store.fixture_json import FixtureError, parse_fixture
from cortex_replay.store.git.history import History
from cortex_replay.store.index.index import Index, IndexSyntaxError, PartRow, Row, ShardRow, parse_index
from cortex_replay.store.index.shards import SHARD_NAMES, shard_of_key, shard_of_part
from cortex_replay.store.merge.merge import NamedParts, missing_parents, with_parents
from cortex_replay.store.paths import INDEX_NAME, MAX_INDEX_BYTES, path_problem
from cortex_replay.store.source import Source
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, Untrusted, trust_shard

__all__ = ["lost_rows", "named_parts"]


def named_parts(history: History, source: Source | None = None) -> NamedParts:
    """Tells which parts the files of rows name, by what git, or a store, has of them."""

    @cache
    def tell(row: Row) -> Collection[str] | None:
        if path_problem(row.path) is not None:
            return ()  # such a row is refused
        present = source.read(row.path, MAX_FIXTURE_BYTES) if source is not None else None
        if not isinstance(present, bytes) or blake3_hex(present) != row.blake3:
            present = history.find(row.path, row.blake3)
        if present is None:
            return None
        try:
            link = parse_fixture(present).link
        except FixtureError:
            return ()
        return () if link is None else link.parts.values()

    return tell


def lost_rows(report: CheckReport, source: Source, history: History) -> list[Row]:
    """The rows of earlier indexes that those of a checked one need, as far as git has them."""
    broken = {finding.path for finding in report.findings if finding.code == "link-broken"}
    listed = report.index.rows
    rows = [*listed, *_rows_of_stale_shards(report, source, history)]
    wanted = missing_parents(rows)
    while wanted:
        count = len(rows)
        for earlier in _earlier_indexes(history, {shard_of_key(*key) for key in wanted}):
            rows = with_parents(rows, (), earlier)
            if not wanted & missing_parents(rows):
                break
        wanted = missing_parents(rows) if len(rows) > count else set()
    found = rows[len(listed) :]
    tell = named_parts(history, source)
    users = [row for row in listed if row.path in broken and not isinstance(row, PartRow)]
    named = {digest for row in (*users, *found) for digest in tell(row) or ()}
    lacking = named - {row.blake3 for row in report.index.parts}
    for earlier in (
        _earlier_indexes(history, {shard_of_part(digest) for digest in lacking}) if lacking else ()
    ):
        parts = [row for row in earlier.parts if row.blake3 in lacking]
        found += parts
        lacking -= {row.blake3 for row in parts}
        if not lacking:
            break
    return found


def _rows_of_stale_shards(report: CheckReport, source: Source, history: History) -> list[Row]:
    """The rows of shards that a root does not list as they are, if git has each row on a side of a merge."""
    found: list[Row] = []
    listed = {shard.path: shard.blake3 for shard in report.index.shards}
    paths = {finding.path for finding in report.findings}
    for name in sorted(SHARD_NAMES):
        path = ShardRow(name, "").path
        if path not in paths:
            continue
        present = source.read(path, MAX_INDEX_BYTES)
        data = present if isinstance(present, bytes) else history.find(path, listed.get(path, ""))
        if data is None:
            continue
        with suppress(Untrusted):
            rows = trust_shard(ShardRow(name, blake3_hex(data)), data).rows
            known = {row for index in _parse_all(history.recent(path)) for row in index.rows}
            found += rows if known.issuperset(rows) else []
    return found


def _earlier_indexes(history: History, shards: Collection[str]) -> Iterator[Index]:
    """The versions of these shards, and of an index in one file."""
    for path in (*(ShardRow(name, "").path for name in sorted(shards)), INDEX_NAME):
        yield from _parse_all(history.versions(path))


def _parse_all(versions: Iterable[bytes]) -> Iterator[Index]:
    for data in versions:
        # One with conflict markers, or of another version, says nothing.
        with suppress(UnicodeDecodeError, IndexSyntaxError):
            yield parse_index(data.decode())
