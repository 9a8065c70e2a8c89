"""The store as the rest of the package sees it."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple, cast

from cortex_replay.config.key_rules import Further, KeyRules, key_rules_for
from cortex_replay.disk import Folder, absolute_path
from cortex_replay.errors import Finding, FixtureIntegrityFailed, NoFixture, StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.changes import (
    Add,
    Remove,
    essence_of,
    essence_of_exchange,
    new_exchange_row,
    new_row,
)
from cortex_replay.store.check import (
    CheckReport,
    Progress,
    check_listing,
    check_store,
    read_exchange,
    read_fixture,
)
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange, render_exchange
from cortex_replay.store.fixture import Fixture, FixtureKey, parse_fixture, render_fixture
from cortex_replay.store.gc_pause import pause_gc
from cortex_replay.store.index import ExchangeRow, FixtureRow, Index
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, Layout, Untrusted, trust_exchange, trust_fixture
from cortex_replay.store.writer import Abandoned, CommitSummary, StoreWriter, create_store
from cortex_replay.types import LlmRequest

__all__ = ["Store", "StoredFixture", "Verify"]

Verify = Literal["full", "on-read"]


class StoredFixture(NamedTuple):
    """A fixture's place in the store."""

    model: str
    prompt_hash: str
    path: str
    blake3: str


class Store:
    """A trusted set of fixtures, and the way to change it.

    It is a class because trust is a property of the set: a fixture is only handed out by a store
    whose index and listing were whole when it was opened, and only from bytes whose hash is the
    index's. With ``verify="full"`` those bytes are read at opening and kept, so nothing that
    happens on disk later can change an answer.

    :meth:`add`, :meth:`replace` and :meth:`remove` stage a change; :meth:`commit` makes all of them
    at once. Until then nobody sees them, this store's own readers included.
    """

    def __init__(self, source: DirectorySource, report: CheckReport) -> None:
        self.root: Path = source.root
        """Where ``INDEX.toml`` stands."""
        self.layout: Layout = report.layout
        """Where the files stand."""
        self._source = source
        self._contents = {row.path: data for row, data in report.kept.values()}
        self._rows = {key: row for key, (row, _) in report.kept.items()} or _rows_by_key(report.index)
        self._parsed: dict[FixtureKey, Fixture] = {}
        self._failures = _failures_by_key(report.index)
        self._opaque = _opaque_by_key(report.index)
        self._exchanges: dict[ExchangeRow, Exchange] = {}
        self._start_writing()
        self._key_rules: KeyRules | None = None

    @classmethod
    @pause_gc()
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        verify: Verify = "full",
        progress: Progress | None = None,
    ) -> Store:
        """Open the store whose ``INDEX.toml`` stands in ``path``.

        Args:
            path: The store's root, in either layout.
            verify: ``"full"`` checks everything now. ``"on-read"`` checks the index and the
                listing now and each file when it is first served; it is as strict for what is
                served, and opens a large store much faster. An index without keys, as ``crtx-llm``
                writes it, can only be opened in full.
            progress: Called now and then with the number of files checked so far, and of all.

        Raises:
            FixtureIntegrityFailed: The store is not what its index says.
            StoreIo: There is no such folder.
        """
        if verify not in ("full", "on-read"):
            raise ValueError(f'verify is "full" or "on-read", not {verify!r}')
        source = DirectorySource(Path(path))
        report = check_listing(source) if verify == "on-read" else None
        if report is None or (report.is_trusted and not report.has_keys):
            report = check_store(source, keep=True, progress=progress)
        if not report.is_trusted:
            raise FixtureIntegrityFailed(report.findings)
        store = cls(source, report)
        if verify == "full":
            for key in store._failures:  # there are few; from here on the disk has no say
                store.failures(str(key[0]), str(key[1]))
        return store

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Store:
        """Make an empty store, and the folders it needs; what is there already stays.

        Raises:
            StoreIo: There is a store already, or it cannot be written.
        """
        create_store(Path(path))
        return cls.open(path)

    @classmethod
    def open_or_create(cls, path: str | os.PathLike[str], *, verify: Verify = "full") -> Store:
        """Open the store in ``path``, or make an empty one where there is none yet."""
        index = absolute_path(Path(path)) / INDEX_NAME
        if not os.path.lexists(index):
            try:
                return cls.create(path)
            except StoreIo:
                if not os.path.lexists(index):  # else somebody was faster
                    raise
        return cls.open(path, verify=verify)

    def key(self, request: LlmRequest) -> FixtureKey:
        """What ``request`` is looked up by. Every lookup goes through here."""
        return FixtureKey(request.model, self.normalised(request)[0].prompt_hash())

    def normalised(self, request: LlmRequest) -> tuple[LlmRequest, Sequence[str]]:
        """The request that is hashed and stored, and the names of the rules that changed it.

        The rules are configured where the store is, not where the program runs, so that recording and
        replay agree.
        """
        return self.key_rules.apply(request)

    @property
    def key_rules(self) -> KeyRules:
        """What happens to a request before it is hashed."""
        if self._key_rules is None:
            self._key_rules = key_rules_for(self.root)
        return self._key_rules

    def with_normalisers(self, further: Further) -> Store:
        """This very store, seen with further normalisers, as for one test.

        Only :meth:`key` and :meth:`normalised` differ: what is staged or committed through one is there
        for the other.

        Args:
            further: Names of built-in normalisers such as ``builtin:uuid``, or patterns by name.

        Raises:
            InvalidRequest: One is not sound, or does not agree with another.
        """
        return _NormalisedView.of(self, self.key_rules.with_normalisers(further))

    def run_folder(self, run: str) -> Folder:
        """Where the processes of one run meet, made and open.

        Raises:
            StoreIo: It cannot be made, or something is in the way.
        """
        return self._writer.open_run(blake3_hex(run.encode())[:32])

    def get(self, model: str, prompt_hash: str) -> Fixture:
        """The trusted fixture of a key.

        Raises:
            NoFixture: Nothing is recorded under it.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        key = FixtureKey(model, prompt_hash)
        fixture = self._parsed.get(key)
        if fixture is None:
            fixture = self._parsed[key] = self._trusted(key)[0]
        return fixture

    def content(self, model: str, prompt_hash: str) -> bytes:
        """The trusted bytes of a key's file, exactly as they are stored.

        Raises:
            NoFixture: Nothing is recorded under it.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        return self._trusted(FixtureKey(model, prompt_hash))[1]

    def scan(self, *, first: str = "") -> Iterator[tuple[tuple[str, str], bytes]]:
        """Every key and its file as it is on disk, **unchecked**: to look for something, never to be shown.

        What is not there, or cannot be read, is left out. The model ``first`` comes first.
        """
        by_path = {row.path: key for key, row in self._rows.items() if key[0] == first}
        by_path |= {row.path: key for key, row in self._rows.items() if key[0] != first}
        kept = [path for path in by_path if path in self._contents]
        for path in kept:
            yield by_path.pop(path), self._contents[path]
        for path, data in self._source.read_many(by_path, MAX_FIXTURE_BYTES):
            if not isinstance(data, Finding):
                yield by_path[path], data

    def path(self, model: str, prompt_hash: str) -> str:
        """Where the fixture of a key stands, below the root.

        Raises:
            NoFixture: Nothing is recorded under it.
        """
        row = self._rows.get(FixtureKey(model, prompt_hash))
        if row is None:
            raise NoFixture(model, prompt_hash)
        return row.path

    def list(self) -> list[StoredFixture]:
        """Every fixture's key and place, sorted by path."""
        return sorted(
            (StoredFixture(*key, row.path, row.blake3) for key, row in self._rows.items()),
            key=lambda stored: stored.path,
        )

    def has_failures(self, model: str, prompt_hash: str) -> bool:
        """Whether an answer to a key was a failure."""
        return (model, prompt_hash) in self._failures

    def failures(self, model: str, prompt_hash: str) -> dict[int, Exchange]:
        """The recorded failures of a key: which answer each was, counted from 1.

        Raises:
            FixtureIntegrityFailed: A file is no longer what the index vouches for.
        """
        found = [self._exchange(row) for row in self._failures.get((model, prompt_hash), ())]
        if None in found:  # somebody committed another one in its place
            return self.failures(model, prompt_hash)
        return {exchange.n: exchange for exchange in found if exchange is not None and exchange.n is not None}

    def exchange(self, key: str) -> Exchange | None:
        """The trusted opaque exchange of a key, if there is one.

        Raises:
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        row = self._opaque.get(key)
        if row is None:
            return None
        found = self._exchange(row)
        return self.exchange(key) if found is None else found

    def exchange_keys(self) -> dict[str, str]:
        """The keys of all opaque exchanges, and their paths."""
        return {key: row.path for key, row in self._opaque.items()}

    def _exchange(self, row: ExchangeRow) -> Exchange | None:
        """The trusted exchange of a row; ``None`` if the row is no longer there."""
        if row not in self._exchanges:
            try:
                self._exchanges[row] = read_exchange(self._source, row)
            except Untrusted as error:
                if error.finding.code != "missing" or not self._has_gone(row):
                    raise FixtureIntegrityFailed([error.finding]) from None
                return None
        return self._exchanges[row]

    def add_exchange(
        self, exchange: Exchange, *, overwrite: bool = False, keep_existing: bool = False
    ) -> str:
        """Stage an exchange; gives the path it will have. See :meth:`add` for the rest."""
        data = render_exchange(exchange)
        row = new_exchange_row(self.layout, exchange, data)
        try:
            essence = essence_of_exchange(trust_exchange(row, data))
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None
        with self._writing:
            self._writer.stage(Add(row, essence, overwrite, keep_existing), data)
        return row.path

    def remove_failure(self, model: str, prompt_hash: str, n: int) -> None:
        """Stage the removal of the failure that was answer ``n`` to a key."""
        with self._writing:
            self._writer.stage(Remove((model, prompt_hash, str(n), None)))

    def add(self, fixture: Fixture, *, keep_existing: bool = False) -> str:
        """Stage a new fixture; gives the path it will have.

        The same answers again, or fewer of them, are a no-op when they are committed, and more of them
        take the place of the fewer. Another answer to a call that has one is a
        :class:`FixtureConflict` then; with ``keep_existing`` the recorded one stays and this one is dropped.

        Raises:
            FixtureIntegrityFailed: The fixture would not be trusted once it is written.
            StoreIo: It cannot be written.
        """
        return self._stage(fixture, overwrite=False, keep_existing=keep_existing)

    def replace(self, fixture: Fixture) -> str:
        """Stage a fixture that takes the place of whatever its key has; gives its path.

        If that says the same already (text, parsed JSON, tool calls, finish reason), the stored file
        stays as it is, whatever usage, times, ids and the rest say: a diff shows real changes only.
        """
        return self._stage(fixture, overwrite=True)

    def remove(self, model: str, prompt_hash: str) -> None:
        """Stage the removal of a key.

        Raises:
            NoFixture: Nothing is recorded under it.
        """
        key = FixtureKey(model, prompt_hash)
        if key not in self._rows and not self.has_failures(*key):
            raise NoFixture(*key)
        with self._writing:
            self._writer.stage(Remove(key))

    def commit(self) -> CommitSummary:
        """Make every staged change, all or none, on top of whatever others committed meanwhile.

        When it returns, the changes survive a crash and a loss of power.

        Raises:
            FixtureConflict: A key has other answers already. Nothing was changed; what was staged
                stays staged.
            FixtureIntegrityFailed: The store was damaged in the meantime.
            StoreIo: The disk refused. Nothing was changed.
        """
        with self._writing:
            summary = self._writer.commit()
            self._take(summary.index)
        return summary

    def discard(self) -> None:
        """Drop what this store staged and did not commit."""
        with self._writing:
            self._writer.discard()

    def abandon(self) -> None:
        """Leave what this store staged to whoever adopts it (:meth:`adopt_abandoned`), without a commit."""
        with self._writing:
            self._writer.abandon()

    def branch(self) -> Store:
        """The same store, with changes of its own to stage, commit or discard."""
        other = copy.copy(self)
        other._start_writing()  # noqa: SLF001 - its own
        return other

    def _start_writing(self) -> None:
        self._writer = StoreWriter(self._source, self.layout)
        self._writing = threading.Lock()

    def abandoned(self) -> Abandoned:
        """What runs that died before they committed abandoned."""
        return self._writer.abandoned()

    def adopt_abandoned(self) -> int:
        """Stage what runs that died had staged, as if it were added here; gives the number."""
        with self._writing:
            return self._writer.adopt_abandoned()

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Store({os.fspath(self.root)!r}, {len(self)} fixtures)"

    def _stage(self, fixture: Fixture, *, overwrite: bool, keep_existing: bool = False) -> str:
        data = render_fixture(fixture)
        row = new_row(self.layout, fixture.key, data)
        try:
            # Whatever is written must be readable, by the same rules.
            essence = essence_of(trust_fixture(row, data))
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None
        with self._writing:
            self._writer.stage(Add(row, essence, overwrite, keep_existing), data)
        return row.path

    def _trusted(self, key: FixtureKey) -> tuple[Fixture, bytes]:
        row = self._rows.get(key)
        if row is None:
            raise NoFixture(*key)
        if (data := self._contents.get(row.path)) is not None:
            return parse_fixture(data), data
        try:
            return read_fixture(self._source, row)
        except Untrusted as error:
            if error.finding.code != "missing" or not self._has_moved(key, row):
                raise FixtureIntegrityFailed([error.finding]) from None
        return self._trusted(key)

    def _has_moved(self, key: FixtureKey, row: FixtureRow) -> bool:
        """Whether a file is gone because somebody committed another answer, or none, in its place."""
        self._reload()
        return self._rows.get(key) != row

    def _has_gone(self, row: ExchangeRow) -> bool:
        self._reload()
        if row.key is not None:
            return self._opaque.get(row.key) != row
        return row not in self._failures.get((row.model, row.prompt_hash), ())

    def _reload(self) -> None:
        report = check_listing(self._source)
        if not report.is_trusted:
            raise FixtureIntegrityFailed(report.findings)
        self._take(report.index)

    def _take(self, index: Index) -> None:
        """Follow an index that somebody committed; what was parsed from other files is forgotten."""
        rows = _rows_by_key(index)
        self._parsed = {
            key: value for key, value in self._parsed.items() if rows.get(key) == self._rows.get(key)
        }
        self._rows = rows
        self._failures = _failures_by_key(index)
        self._opaque = _opaque_by_key(index)


class _NormalisedView(Store):
    """A store with key rules of its own, and everything else shared with another."""

    __slots__ = ("_own_rules",)

    _own_rules: KeyRules

    @classmethod
    def of(cls, store: Store, rules: KeyRules) -> _NormalisedView:
        seen = cls.__new__(cls)
        seen.__dict__ = store.__dict__  # the same state, also when either follows a new index
        seen._own_rules = rules  # noqa: SLF001 - its own
        return seen

    @property
    def key_rules(self) -> KeyRules:
        return self._own_rules


def _opaque_by_key(index: Index) -> dict[str, ExchangeRow]:
    return {row.key: row for row in index.exchanges if row.key is not None}


def _failures_by_key(index: Index) -> dict[tuple[str | None, ...], list[ExchangeRow]]:
    failures: dict[tuple[str | None, ...], list[ExchangeRow]] = {}
    for row in index.exchanges:
        if row.n is not None:
            failures.setdefault((row.model, row.prompt_hash), []).append(row)
    return failures


def _rows_by_key(index: Index) -> dict[FixtureKey, FixtureRow]:
    """Every row has its key here. A plain pair finds what a :class:`FixtureKey` would."""
    pairs = cast("Iterable[FixtureKey]", map(itemgetter(2, 3), index.fixtures))
    return dict(zip(pairs, index.fixtures, strict=True))
