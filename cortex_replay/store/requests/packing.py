"""A commit in which no request is written that is there already. No I/O of its own.

What is staged is whole. At the commit it is known what else is listed, so here what comes gets the form in
which it is written (:mod:`.forms`).

What others continue may go with a commit, or come back with other ids of tool calls. Then those that
continue it are written anew, with the request that they had: whole, or continuing one further up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple, cast

from cortex_replay.hashing import blake3_hex
from cortex_replay.store.changes import Add, Changes, fixture_path, is_apart
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.fixture_json import parse_fixture, render_fixture
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, Row, ScopedRow
from cortex_replay.store.index.named_file import NamedFile
from cortex_replay.store.index.rows import parents_in
from cortex_replay.store.index.sharded_rows import ShardedRows
from cortex_replay.store.index.shards import shard_of_key, shard_of_part
from cortex_replay.store.requests.forms import Form, is_start, part_path, shorten
from cortex_replay.store.requests.links import FileRow, Links
from cortex_replay.store.trust import Layout, trust_content, trust_request
from cortex_replay.types import LlmRequest

__all__ = ["Beyond", "Listed", "Packing", "pack"]


class Beyond:
    """The rows of the shards that a commit has not read. What continues a request that it changes is not
    among them."""

    def __init__(self, rows: ShardedRows, touched: Collection[str]) -> None:
        self._rows = rows
        self._touched = frozenset(touched)

    def find(self, key: FixtureKey) -> FileRow | None:
        return None if shard_of_key(*key) in self._touched else self._rows.parent(key)

    def part(self, digest: str) -> PartRow | None:
        return None if shard_of_part(digest) in self._touched else self._rows.part(digest)


class Listed:
    """What packing asks of an index. A class to sort the rows once."""

    def __init__(self, index: Index, beyond: Beyond | None = None) -> None:
        """Take the rows.

        Args:
            index: Those that are in memory.
            beyond: Those of the shards that the commit has not read.
        """
        self._index = index
        self._beyond = beyond

    def change(self, index: Index) -> Listed:
        """The same after a commit, which changes only what is in memory."""
        return Listed(index, self._beyond)

    def find(self, key: FixtureKey) -> FileRow | None:
        """The row of a key whose request others may continue: the shared one, else that of any scope."""
        found = self._fixtures.get(key)
        return self._beyond.find(key) if found is None and self._beyond else found

    def children(self, key: FixtureKey) -> list[FileRow]:
        """The rows of requests that continue that of a key."""
        return self._children.get(key, [])

    def part(self, digest: str) -> PartRow | None:
        """The part with a hash."""
        found = self._parts.get(digest)
        return self._beyond.part(digest) if found is None and self._beyond else found

    def has_file(self, row: Row) -> bool:
        """Whether a row names this very file."""
        return (row.path, row.blake3) in self._files

    @cached_property
    def _fixtures(self) -> dict[tuple[str | None, ...], FileRow]:
        return parents_in(self._index)

    @cached_property
    def _children(self) -> dict[tuple[str | None, ...], list[FileRow]]:
        found: defaultdict[tuple[str | None, ...], list[FileRow]] = defaultdict(list)
        rows: list[FileRow] = [*self._index.fixtures, *self._index.scoped]
        for row in rows:
            if row.continues is not None:
                found[row.model, row.continues].append(row)
        return found

    @cached_property
    def _parts(self) -> dict[str, PartRow]:
        return {row.blake3: row for row in self._index.parts}

    @cached_property
    def _files(self) -> AbstractSet[tuple[str, str]]:
        return {(row.path, row.blake3) for row in self._index.rows}


@dataclass(frozen=True, slots=True)
class Packing:
    """A commit in which no request is written that is there already."""

    changes: Changes
    files: dict[str, bytes] = field(default_factory=dict)
    """What is to be written besides what is staged: short forms, parts, and what lost what it continued."""
    spent: list[str] = field(default_factory=list)
    """The paths, as they were planned, of staged files that are not written as they are."""


def pack(
    changes: Changes,
    before: Listed,
    links: Links,
    read: Callable[[NamedFile], bytes],
    layout: Layout,
) -> Packing:
    """How a commit is written.

    Args:
        changes: The commit, of whole requests.
        before: The index that it changes.
        links: How requests are put together from what that index lists.
        read: The bytes of the file of a row: of a listed one, or of one that is staged to come there.
        layout: Where the files stand.
    """
    packer = _Packer(changes, before, links, read)
    packer.run(layout)
    return packer.finish()


class _Item(NamedTuple):
    """A file that is written, or written anew."""

    length: int
    """How many messages its request has. What continues it has more."""
    row: FileRow
    fixture: Fixture | None = None
    """With its whole request; ``None`` if it is staged, and not read yet."""


class _Packer:
    """A class to hold what becomes of each file."""

    def __init__(
        self, changes: Changes, before: Listed, links: Links, read: Callable[[NamedFile], bytes]
    ) -> None:
        self._changes = changes
        self._before = before
        self._after = before.change(changes.index)
        self._links = links
        self._read = read
        self._staged = {change.row.path for change in changes.added}
        self._requests: dict[str, LlmRequest | None] = {}
        """By path, what others may continue."""
        self._moved: dict[str, FileRow] = {}
        """By path as it was, the row of the file that is written instead."""
        self._orphans: dict[str, FileRow] = {}
        """Those that lose what they continue, by path."""
        self._parts: dict[str, PartRow] = {}
        self._files: dict[str, bytes] = {}

    def run(self, layout: Layout) -> None:
        """Find the form of each file that comes, and of each that cannot stay as it is."""
        items = [
            _Item(change.length, change.row)
            for change in self._changes.added
            if isinstance(change.row, FixtureRow)
        ]
        self._find_orphans()
        for row in self._orphans.values():
            fixture = self._complete(row)
            items.append(_Item(len(fixture.request.messages) if fixture.request else 0, row, fixture))
        for item in sorted(items, key=attrgetter("length")):
            self._write(item, layout)

    def _find_orphans(self) -> None:
        """Find fixtures whose request cannot be put together any more from what is listed now."""
        for key in self._changes.keys:
            rows = [row for row in self._after.children(key) if row.path not in self._staged]
            if not rows:  # nearly always, and the rest takes all rows by their keys
                continue
            was, now = self._before.find(key), self._after.find(key)
            if was is None or (now is not None and now.blake3 == was.blake3):
                continue
            if now is None or not self._is_same(was, now):
                self._orphans |= {row.path: row for row in rows}

    def _is_same(self, was: FileRow, now: FileRow) -> bool:
        old, new = self._request(was), self._request(now)
        return old is not None and new is not None and is_start(old, new.to_dict(), len(new.messages))

    def _write(self, item: _Item, layout: Layout) -> None:
        row = item.row
        data = self._read(row) if item.fixture is None else render_fixture(item.fixture)
        fixture = item.fixture or parse_fixture(data)
        form = shorten(fixture, data, self._find)
        self._requests[row.path] = self._continuable(fixture, form)
        digest = blake3_hex(form.data)
        if digest == row.blake3:
            return
        path = fixture_path(layout, fixture.key, digest, is_apart=is_apart(row.path))
        self._moved[row.path] = row._replace(path=path, blake3=digest, continues=form.continues)
        self._put(FixtureRow(path, digest), form.data)
        for name, part in form.parts.items():
            self._put_part(name, part, layout)

    def _put_part(self, name: str, data: bytes, layout: Layout) -> None:
        digest = blake3_hex(data)
        if self._after.part(digest) is None and digest not in self._parts:
            self._parts[digest] = PartRow(part_path(layout, name, digest), digest)
            self._put(self._parts[digest], data)

    def _put(self, row: Row, data: bytes) -> None:
        if not self._before.has_file(row):  # else it stays where it is
            self._files[row.path] = data

    def _find(self, key: FixtureKey) -> LlmRequest | None:
        row = self._after.find(key)
        return None if row is None else self._request(row)

    def _request(self, row: FileRow) -> LlmRequest | None:
        """What others may continue in a file that is listed, or staged."""
        if row.path not in self._requests:
            is_staged = row.path in self._staged
            fixture = parse_fixture(self._read(row)) if is_staged else self._complete(row)
            self._requests[row.path] = None if fixture.is_request_redacted else fixture.request
        return self._requests[row.path]

    def _complete(self, row: FileRow) -> Fixture:
        fixture = trust_content(row, self._read(row))
        if fixture.link is not None:
            return self._links.complete(row, fixture)
        trust_request(row, fixture)
        return fixture

    def _continuable(self, fixture: Fixture, form: Form) -> LlmRequest | None:
        """The request of a fixture for those that continue it, holding the very messages of its own start: so
        the memory that many turns take is that of their text."""
        request = fixture.request
        if request is None or fixture.is_request_redacted or form.continues is None:
            return None if fixture.is_request_redacted else request
        start = self._find(FixtureKey(request.model, form.continues))
        return request if start is None else start.continue_with(request.messages[len(start.messages) :])

    def finish(self) -> Packing:
        """The commit, with the rows of what is written."""
        if not self._moved:
            return Packing(self._changes)
        rows = [*map(self._move, self._changes.index.rows), *self._parts.values()]
        listed = {row.path for row in rows}
        spent = [path for path in self._moved if path in self._staged]
        anew = [row for path, row in self._orphans.items() if path in self._moved]
        changes = replace(
            self._changes,
            index=Index.of(rows, self._changes.index.header),
            added=[self._move_change(change) for change in self._changes.added],
            removed=[row for row in (*self._changes.removed, *anew) if row.path not in listed],
        )
        return Packing(changes, self._files, spent)

    def _move_change(self, change: Add) -> Add:
        return replace(change, row=cast("FixtureRow", self._move(change.row)))

    def _move(self, row: Row) -> Row:
        now = self._moved.get(row.path)
        if now is None or not isinstance(row, FixtureRow | ScopedRow):
            return row
        return row._replace(path=now.path, blake3=now.blake3, continues=now.continues)
