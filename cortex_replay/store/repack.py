"""Writing the same recordings in another form: what would be done, as a value, and then doing it.

In the short form a conversation is stored once, as a commit writes it (:mod:`.requests.packing`); in the
other one every file holds its whole request. The way back gives the same files to the byte, so neither what
is recorded changes nor any key. What is not as this program writes it stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from cortex_replay.errors import FixtureIntegrityFailed, StoreIo
from cortex_replay.gc_pause import pause_gc
from cortex_replay.hashing import blake3_hex
from cortex_replay.progress import Progress
from cortex_replay.store.changes import Add, Changes, Said, fixture_path, is_apart
from cortex_replay.store.check import CheckReport, check_store, read_listed
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture import Fixture
from cortex_replay.store.fixture_json import render_fixture
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, Row, ScopedRow, row_key
from cortex_replay.store.index.named_file import NamedFile
from cortex_replay.store.index.shard_reading import read_index
from cortex_replay.store.requests.links import FileRow, Links, sort_by_links
from cortex_replay.store.requests.packing import Listed, pack
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, Layout, Untrusted, trust_content
from cortex_replay.store.writer import StoreWriter

__all__ = ["RepackPlan", "Rewrite", "plan_repack"]

MOST_AT_ONCE = 50_000
"""How many recordings one commit converts."""
_PROGRESS_STEP: Final = 64


class Rewrite(NamedTuple):
    """A recording that is written in another form."""

    path: str
    new_path: str
    size: int
    new_size: int


@dataclass(frozen=True, slots=True)
class RepackPlan:
    """What changes, and how large the store is before and after, its index included."""

    layout: Layout
    old_index: bytes
    index: Index
    files: _Forms = field(repr=False)
    """The files that come."""
    old_rows: Mapping[str, FileRow] = field(repr=False)
    """By path, as they are."""
    rewritten: list[Rewrite]
    unchanged: int
    """How many files of recordings stay as they are."""
    new_parts: list[PartRow]
    old_parts: list[PartRow]
    """Those that no recording names any more."""
    bytes_before: int
    bytes_after: int

    @property
    def is_empty(self) -> bool:
        """Whether everything is in the wanted form already."""
        return not (self.rewritten or self.new_parts or self.old_parts)

    def apply(self, source: DirectorySource) -> None:
        """Do it, in one commit. A very large store takes several, since a journal has to name all files; who
        continues another does not care how that is stored, so it is sound between them.

        Raises:
            StoreIo: Another process committed meanwhile, or the disk refused. What was not committed is as it
                was.
        """
        data = self.old_index
        count = 0 if self.is_empty else max(len(self.rewritten), 1)
        for start in range(0, count, MOST_AT_ONCE):
            chosen = self.rewritten[start : start + MOST_AT_ONCE]
            waiting = self.rewritten[start + MOST_AT_ONCE :]
            coming = {item.new_path for item in chosen}
            coming |= {row.path for row in self.new_parts} if start == 0 else set()
            leaving = [item.path for item in chosen]
            leaving += [] if waiting else [row.path for row in self.old_parts]
            forms = self.files.among(coming)
            data = StoreWriter(source, self.layout).put_index(
                self._index_before(waiting), data, {}, leaving, forms=forms
            )

    def _index_before(self, waiting: list[Rewrite]) -> Index:
        """The index while these have not been written yet."""
        if not waiting:
            return self.index
        old = {item.new_path: self.old_rows[item.path] for item in waiting}
        rows: list[Row] = [*self.old_parts]
        for row in self.index.rows:
            was = old.get(row.path)
            if was is not None and isinstance(row, FixtureRow | ScopedRow):
                rows.append(row._replace(path=was.path, blake3=was.blake3, continues=was.continues))
            else:
                rows.append(row)
        return Index.of(rows, self.index.header)


@pause_gc()
def plan_repack(
    source: DirectorySource, *, is_whole: bool = False, progress: Progress | None = None
) -> RepackPlan:
    """How the files of a store would have to change to be in one form.

    Args:
        source: Where the store is.
        is_whole: Whether every file is to hold its whole request.
        progress: Called now and then with the number of files checked so far, and of all.

    Raises:
        FixtureIntegrityFailed: The store is not what its index says.
        StoreIo: Another process committed meanwhile.
    """
    report = check_store(source, progress=_phase(progress, 0))
    if not report.is_trusted:
        raise FixtureIntegrityFailed(report.findings)
    try:
        index, old_index = read_index(source)
    except Untrusted as error:
        raise FixtureIntegrityFailed([error.finding]) from None
    if sorted(report.index.rows, key=str) != sorted(index.rows, key=str):
        raise StoreIo("the store changed in the meantime; look again and then repeat the command")
    wholes = _Wholes(source, index, report.layout)
    wholes.look(_phase(progress, 1))
    now = wholes.index()
    short: Mapping[str, bytes] = {}
    if not is_whole:
        wholes.progress = _phase(progress, 2)
        packing = pack(
            Changes(now, wholes.additions()), Listed(index), wholes.links, wholes.read, report.layout
        )
        now, short = packing.changes.index, packing.files
    forms = _Forms({row.path for row in now.rows} - {row.path for row in index.rows}, short, wholes)
    return _plan(report, old_index, now, forms, wholes)


def _phase(progress: Progress | None, number: int) -> Progress | None:
    """The progress of one of three looks at all files."""
    return None if progress is None else lambda done, total: progress(number * total + done, 3 * total)


class _Whole(NamedTuple):
    """The file of a recording, and what it is in the form that holds its whole request."""

    row: FileRow
    new_row: FileRow
    size: int
    new_size: int
    length: int
    """How many messages its request has."""
    is_ours: bool
    """Whether its name is one that this program gives, so that the way back leads to it."""


class _Wholes:
    """All recordings of a store in the form that holds their whole requests. Their bytes are not kept."""

    def __init__(self, source: DirectorySource, index: Index, layout: Layout) -> None:
        self.links: Final = Links.of(index, partial(read_listed, source))
        self.progress: Progress | None = None
        self._source = source
        self._index = index
        self._layout = layout
        self._done = 0
        self._items: dict[str, _Whole] = {}
        """By the path in this form."""

    def look(self, progress: Progress | None) -> None:
        """Look at every recording once."""
        by_path: dict[str, FileRow] = {row.path: row for row in self._index.scoped if row.is_fixture}
        by_path |= {row.path: row for row in self._index.fixtures}
        rows = sort_by_links(by_path.values())
        for count, row in enumerate(rows, start=1):
            item = self._look_at(by_path[row.path])
            self._items[item.new_row.path] = item
            if progress and count % _PROGRESS_STEP == 0:
                progress(count, len(rows))

    def _look_at(self, row: FileRow) -> _Whole:
        data, fixture = self._read(row)
        new_row, whole = row, data
        if fixture.link is not None:
            fixture = self.links.complete(row, fixture)
            whole = render_fixture(fixture)
            if len(whole) <= MAX_FIXTURE_BYTES:  # else no reader takes it
                digest = blake3_hex(whole)
                path = fixture_path(self._layout, fixture.key, digest, is_apart=is_apart(row.path))
                new_row = row._replace(path=path, blake3=digest, continues=None)
        ours = fixture_path(self._layout, fixture.key, new_row.blake3, is_apart=is_apart(row.path))
        length = 0 if fixture.request is None else len(fixture.request.messages)
        is_ours = new_row.path == ours and new_row.prompt_hash is not None and new_row.continues is None
        return _Whole(row, new_row, len(data), len(whole), length, is_ours)

    def _read(self, row: FileRow) -> tuple[bytes, Fixture]:
        try:
            data = read_listed(self._source, row)
            return data, trust_content(row, data)
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None

    def index(self) -> Index:
        """The index of the store in this form. It has no parts."""
        moved = {item.row.path: item.new_row for item in self._items.values()}
        rows: list[Row] = []
        for row in self._index.rows:
            now = moved.get(row.path)
            if now is not None and isinstance(row, FixtureRow | ScopedRow):
                rows.append(row._replace(path=now.path, blake3=now.blake3, continues=now.continues))
            elif not isinstance(row, PartRow):
                rows.append(row)
        return Index.of(rows, self._index.header)

    def additions(self) -> list[Add]:
        """The recordings that may be shortened, as if they came with a commit."""
        return [
            Add(FixtureRow(*item.new_row[:4]), Said((), (), ""), length=item.length)
            for item in self._items.values()
            if item.is_ours
        ]

    def size_of(self, row: Row) -> int:
        """How large a file is that is there."""
        return len(read_listed(self._source, row))

    def item(self, path: str) -> _Whole:
        """The recording whose file has this path in this form."""
        return self._items[path]

    def items(self) -> Iterable[_Whole]:
        """All recordings."""
        return self._items.values()

    def read(self, file: NamedFile) -> bytes:
        """The bytes of a recording in this form, or of a file that is there."""
        self._done += 1
        if self.progress and self._done % _PROGRESS_STEP == 0:
            self.progress(min(self._done, len(self._items)), len(self._items))
        item = self._items.get(file.path)
        if item is None or item.row == item.new_row:
            return read_listed(self._source, file)
        return render_fixture(self.links.complete(item.row, self._read(item.row)[1]))


class _Forms(Mapping[str, bytes]):
    """The files that come, by path. Those that hold whole requests are made one at a time."""

    def __init__(self, paths: AbstractSet[str], short: Mapping[str, bytes], wholes: _Wholes) -> None:
        self._paths = paths
        self._short = short
        self._wholes = wholes

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._paths))

    def __getitem__(self, path: str) -> bytes:
        if path not in self._paths:
            raise KeyError(path)
        return (
            self._short[path] if path in self._short else self._wholes.read(self._wholes.item(path).new_row)
        )

    def among(self, paths: AbstractSet[str]) -> _Forms:
        """Some of them."""
        return _Forms(self._paths & paths, self._short, self._wholes)

    def size(self, path: str) -> int:
        """How large a file is."""
        return len(self._short[path]) if path in self._short else self._wholes.item(path).new_size


def _size_of_index(index: Index) -> int:
    return len(render_index(replace(index, shards=[])).encode())  # of shards, too, about this


def _plan(report: CheckReport, old_index: bytes, now: Index, forms: _Forms, wholes: _Wholes) -> RepackPlan:
    by_key = {row_key(row): row.path for row in now.rows if any(row_key(row))}
    moves = [
        (item.row.path, by_key.get(row_key(item.row), item.row.path), item.size) for item in wholes.items()
    ]
    rewritten = [
        Rewrite(path, new_path, size, forms.size(new_path))
        for path, new_path, size in sorted(moves)
        if path != new_path
    ]
    before, after = set(report.index.parts), set(now.parts)
    freed = sum(item.size for item in rewritten) + sum(map(wholes.size_of, before - after))
    taken = sum(map(forms.size, forms)) + _size_of_index(now) - _size_of_index(report.index)
    size = report.bytes_checked + _size_of_index(report.index)
    return RepackPlan(
        report.layout,
        old_index,
        now,
        forms,
        {item.row.path: item.row for item in wholes.items()},
        rewritten,
        len(moves) - len(rewritten),
        sorted(after - before),
        sorted(before - after),
        size,
        size - freed + taken,
    )
