"""Parts that no fixture names any more. They go only after a look at every fixture."""

from __future__ import annotations

from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.store.check import look_until_stable
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture_json import FixtureError, may_be_short, parse_fixture
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, ScopedRow
from cortex_replay.store.index.named_file import one_per_file
from cortex_replay.store.index.shard_reading import read_index
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, Layout, Untrusted
from cortex_replay.store.writer import StoreWriter

__all__ = ["drop_unused_parts", "parts_named_in"]


def drop_unused_parts(source: DirectorySource, layout: Layout) -> list[PartRow]:
    """Drop the parts that no fixture names, in one commit; gives their rows.

    Raises:
        FixtureIntegrityFailed: A fixture cannot be read, so what it names is not known.
        StoreChanged: Another process committed meanwhile.
        StoreIo: The disk refused.
    """
    index, data, unused = look_until_stable(source, lambda _: _look_for_unused(source))
    if unused:
        kept = Index.of((row for row in index.rows if row not in unused), index.header)
        StoreWriter(source, layout).put_index(kept, data, {}, [row.path for row in unused])
    return unused


def _look_for_unused(source: DirectorySource) -> tuple[Index, bytes, list[PartRow]]:
    """The index, as rows and as bytes, and those of its parts that no fixture names."""
    try:
        index, data = read_index(source)
    except Untrusted as error:
        raise FixtureIntegrityFailed([error.finding]) from None
    if not index.parts:
        return index, data, []
    fixtures: list[FixtureRow | ScopedRow] = [
        *index.fixtures,
        *(row for row in index.scoped if row.is_fixture),
    ]
    named: set[str] = set()
    for row, read in source.read_many(one_per_file(fixtures), MAX_FIXTURE_BYTES):
        if isinstance(read, Finding):
            raise FixtureIntegrityFailed([read])
        named |= parts_named_in(row.path, read)
    return index, data, [row for row in index.parts if row.blake3 not in named]


def parts_named_in(path: str, data: bytes) -> set[str]:
    """The hashes of the parts that a fixture names.

    Raises:
        FixtureIntegrityFailed: The bytes are no fixture.
    """
    if not may_be_short(data):
        return set()
    try:
        link = parse_fixture(data).link
    except FixtureError as error:
        raise FixtureIntegrityFailed([Finding(error.code, path, str(error))]) from None
    return set() if link is None else set(link.parts.values())
