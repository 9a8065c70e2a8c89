"""A store that is open to be read: every lookup, and nothing that changes it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple, Self, cast

from cortex_replay.config.key_rules import KeyRules, key_rules_for
from cortex_replay.errors import Finding, FixtureIntegrityFailed, NoFixture
from cortex_replay.hashing import blake3_hex
from cortex_replay.redact.clearance import clearance_for
from cortex_replay.redact.sensitivity import Sensitivity
from cortex_replay.store.check import (
    CheckReport,
    Progress,
    check_listing,
    check_store,
    read_exchange,
    read_fixture,
)
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.fixture_json import parse_fixture
from cortex_replay.store.gc_pause import pause_gc
from cortex_replay.store.index import ExchangeRow, FixtureRow, Index, Row, ScopedRow
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, Layout, Untrusted, trust_exchange
from cortex_replay.types import LlmRequest

__all__ = ["StoreReader", "StoredExchange", "StoredFixture", "Verify"]

Verify = Literal["full", "on-read"]


class StoredFixture(NamedTuple):
    """A fixture's place in the store."""

    model: str
    prompt_hash: str
    path: str
    blake3: str
    scope: str = ""
    """Whose answers they are, where others get other ones."""


class StoredExchange(NamedTuple):
    """The place of an opaque exchange in the store."""

    key: str
    path: str
    blake3: str
    scope: str = ""
    """Whose it is, where others get another one."""


class _Own(NamedTuple):
    """What a scope has of its own under one key."""

    fixture: ScopedRow | None
    failures: list[ScopedRow]


_Place = tuple[str, str | None, str | None]
"""A scope, and a key in it: that of a fixture, or ``None`` and that of an opaque exchange."""


class StoreReader:
    """A trusted set of fixtures.

    It is a class because trust is a property of the set: a fixture is only handed out by a store
    whose index and listing were whole when it was opened, and only from bytes whose hash is the
    index's. With ``verify="full"`` those bytes are read at opening and kept, so nothing that
    happens on disk later can change an answer.
    """

    def __init__(self, source: DirectorySource, report: CheckReport) -> None:
        self.root: Path = source.root
        """Where ``INDEX.toml`` stands."""
        self.layout: Layout = report.layout
        """Where the files stand."""
        self._source = source
        self._contents = report.contents
        self._rows = report.kept or _rows_by_key(report.index)
        self._fixtures: dict[str, Fixture] = {}
        """By path: those of scopes may be the shared ones."""
        self._failures = _failures_by_key(report.index)
        self._opaque = _opaque_by_key(report.index)
        self._own = _own_by_place(report.index)
        self._scopes = frozenset(row.scope for row in report.index.scoped)
        self._exchanges: dict[tuple[str, str], Exchange] = {}
        """By path and hash."""
        self._key_rules: KeyRules | None = None
        self._clearance: Sensitivity | None = None

    @classmethod
    @pause_gc()
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        verify: Verify = "full",
        progress: Progress | None = None,
    ) -> Self:
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
            # There are few; from here on the disk has no say.
            rows: list[ExchangeRow | ScopedRow] = [*report.index.exchanges, *report.index.scoped]
            for row in rows:
                if row.n is not None:
                    store._read_exchange(row)
        return store

    def key(self, request: LlmRequest) -> FixtureKey:
        """What ``request`` is looked up by. Every lookup goes through here."""
        return FixtureKey(request.model, self.normalise(request)[0].prompt_hash())

    def normalise(self, request: LlmRequest) -> tuple[LlmRequest, Sequence[str]]:
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

    @property
    def clearance(self) -> Sensitivity:
        """The highest label of a text that may be recorded here."""
        if self._clearance is None:
            self._clearance = clearance_for(self.root)
        return self._clearance

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that have answers of their own."""
        return self._scopes

    def has_own(self, model: str, prompt_hash: str, scope: str) -> bool:
        """Whether a scope has answers of its own to a key, failures among them."""
        return self._own_of(model, prompt_hash, scope) is not None

    def _own_of(self, model: str, prompt_hash: str, scope: str) -> _Own | None:
        return self._own.get((scope, model, prompt_hash)) if scope in self._scopes else None

    def get(self, model: str, prompt_hash: str, scope: str = "") -> Fixture:
        """The trusted fixture of a key: that of a scope where it has answers of its own, else the shared one.

        Raises:
            NoFixture: Nothing is recorded under it.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        row = self._row(model, prompt_hash, scope)
        fixture = self._fixtures.get(row.path)
        if fixture is None:
            row, fixture, _ = self._read(row, scope)
            self._fixtures[row.path] = fixture
        return fixture

    def content(self, model: str, prompt_hash: str, scope: str = "") -> bytes:
        """The trusted bytes of a key's file, exactly as they are stored.

        Raises:
            NoFixture: Nothing is recorded under it.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        return self._read(self._row(model, prompt_hash, scope), scope)[2]

    def contents(self, wanted: Iterable[StoredFixture]) -> Iterator[tuple[StoredFixture, bytes]]:
        """The bytes of many fixtures, at a fraction of what :meth:`content` takes for each: they are those
        that the index vouches for, but what they say is not checked.

        Raises:
            FixtureIntegrityFailed: A file is no longer what the index vouches for.
        """
        by_path = {stored.path: stored for stored in wanted}
        for path, read in self._source.read_many(by_path, MAX_FIXTURE_BYTES):
            stored = by_path[path]
            if isinstance(read, bytes) and blake3_hex(read) == stored.blake3:
                yield stored, read
            else:  # which says what is wrong, if it is
                yield stored, self.content(stored.model, stored.prompt_hash, stored.scope)

    def has_any(self, key: FixtureKey, scope: str = "") -> bool:
        """Whether anything is recorded under a key, for calls in a scope: an answer, or a failure."""
        if key in self._rows or key in self._failures:
            return True
        return scope in self._scopes and (scope, *key) in self._own

    def has_fixture(self, model: str, prompt_hash: str, scope: str = "") -> bool:
        """Whether there is a good answer to a key, for calls in a scope."""
        own = self._own_of(model, prompt_hash, scope)
        return (model, prompt_hash) in self._rows if own is None else own.fixture is not None

    def rows(self, model: str, prompt_hash: str, scope: str = "") -> tuple[Row, ...]:
        """The rows of what a scope gets under a key: of its fixture, and of the failures."""
        own = self._own_of(model, prompt_hash, scope)
        if own is not None:
            return tuple(row for row in (own.fixture, *own.failures) if row is not None)
        shared = self._rows.get(FixtureKey(model, prompt_hash))
        # One by crtx-llm does not say what it is about.
        known = [] if shared is None else [FixtureRow(*shared[:2], model, prompt_hash)]
        return (*known, *self._failures.get((model, prompt_hash), ()))

    def _row(self, model: str, prompt_hash: str, scope: str) -> FixtureRow | ScopedRow:
        own = self._own_of(model, prompt_hash, scope)
        row = self._rows.get(FixtureKey(model, prompt_hash)) if own is None else own.fixture
        if row is None:
            raise NoFixture(model, prompt_hash)
        return row

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

    def scan_exchanges(self, scope: str = "") -> Iterator[tuple[tuple[str, str], bytes]]:
        """As :meth:`scan`, of the opaque exchanges, shared or a scope's own: the place, the key, the file."""
        keys = {path: key for key, path in self.exchange_keys(scope).items()}
        for path, data in self._source.read_many(keys, MAX_FIXTURE_BYTES):
            if not isinstance(data, Finding):
                yield (path, keys[path]), data

    def path(self, model: str, prompt_hash: str, scope: str = "") -> str:
        """Where the fixture of a key stands, below the root.

        Raises:
            NoFixture: Nothing is recorded under it.
        """
        return self._row(model, prompt_hash, scope).path

    def list(self, *, scoped: bool = False) -> list[StoredFixture]:
        """Every shared fixture's key and place, sorted by path; with ``scoped``, those of scopes, too."""
        found = [StoredFixture(*key, row.path, row.blake3) for key, row in self._rows.items()]
        if scoped:
            found += [
                StoredFixture(model or "", prompt_hash or "", own.fixture.path, own.fixture.blake3, scope)
                for (scope, model, prompt_hash), own in self._own.items()
                if own.fixture is not None and own.fixture.key is None
            ]
        return sorted(found, key=lambda stored: (stored.path, stored.scope))

    def sole_fixture(self, key: FixtureKey, scope: str = "") -> Fixture | None:
        """The trusted fixture of a key where every call gets the same: it has one answer, and no failure.

        Raises:
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        if scope in self._scopes and (own := self._own.get((scope, *key))) is not None:
            if own.failures or own.fixture is None:
                return None
            fixture = self.get(*key, scope)
        else:
            row = self._rows.get(key)
            if row is None or key in self._failures:
                return None
            fixture = self._fixtures.get(row.path) or self.get(*key)
        return fixture if len(fixture.answers) == 1 else None

    def has_failures(self, model: str, prompt_hash: str, scope: str = "") -> bool:
        """Whether an answer to a key was a failure."""
        own = self._own_of(model, prompt_hash, scope)
        return (model, prompt_hash) in self._failures if own is None else bool(own.failures)

    def failures(self, model: str, prompt_hash: str, scope: str = "") -> dict[int, Exchange]:
        """The recorded failures of a key: which answer each was, counted from 1.

        Raises:
            FixtureIntegrityFailed: A file is no longer what the index vouches for.
        """
        own = self._own_of(model, prompt_hash, scope)
        rows = self._failures.get((model, prompt_hash), ()) if own is None else own.failures
        found = [self._read_exchange(row) for row in rows]
        if None in found:  # somebody committed another one in its place
            return self.failures(model, prompt_hash, scope)
        return {exchange.n: exchange for exchange in found if exchange is not None and exchange.n is not None}

    def count_failures(self) -> int:
        """How many answers were failures, of all keys."""
        return sum(map(len, self._failures.values()))

    def count_scoped(self) -> int:
        """How many sequences are those of single scopes."""
        return len(self._own)

    def exchange(self, key: str, scope: str = "") -> Exchange | None:
        """The trusted opaque exchange of a key, that of a scope before the shared one, if there is one.

        Raises:
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        row = self.exchange_row(key, scope)
        if row is None:
            return None
        found = self._read_exchange(row)
        return self.exchange(key, scope) if found is None else found

    def exchange_row(self, key: str, scope: str = "") -> ExchangeRow | ScopedRow | None:
        """The row of what a scope gets for an opaque call."""
        own = self._own.get((scope, None, key)) if scope in self._scopes else None
        return self._opaque.get(key) if own is None else own.fixture

    def exchange_keys(self, scope: str = "") -> dict[str, str]:
        """The keys of all opaque exchanges that are shared or a scope's own, and their paths."""
        shared = {key: row.path for key, row in self._opaque.items()}
        if scope not in self._scopes:
            return shared
        rows = (own.fixture for own in self._own.values() if own.fixture is not None)
        return shared | {row.key: row.path for row in rows if row.scope == scope and row.key is not None}

    def list_exchanges(self) -> Sequence[StoredExchange]:
        """Every opaque exchange's key and place, those of scopes, too, sorted by path."""
        rows = [row for own in self._own.values() if (row := own.fixture) is not None and row.key is not None]
        found = [StoredExchange(key, row.path, row.blake3) for key, row in self._opaque.items()]
        found += [StoredExchange(row.key or "", row.path, row.blake3, row.scope) for row in rows]
        return sorted(found, key=lambda stored: (stored.path, stored.scope))

    def exchange_content(self, stored: StoredExchange) -> bytes:
        """The bytes of an exchange's file, exactly as they are stored.

        Raises:
            FixtureIntegrityFailed: It is no longer what the index vouches for.
        """
        read = self._source.read(stored.path, MAX_FIXTURE_BYTES)
        if isinstance(read, Finding):
            raise FixtureIntegrityFailed([read])
        try:
            trust_exchange(ExchangeRow(stored.path, stored.blake3, key=stored.key), read)
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None
        return read

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def _read(self, row: FixtureRow | ScopedRow, scope: str) -> tuple[FixtureRow | ScopedRow, Fixture, bytes]:
        """The fixture of a row and its bytes; or those of the row that has taken its place, if one has."""
        if (data := self._contents.get(row.path)) is not None:
            return row, parse_fixture(data), data
        try:
            return row, *read_fixture(self._source, row)
        except Untrusted as error:
            if error.finding.code != "missing":
                raise FixtureIntegrityFailed([error.finding]) from None
            finding = error.finding
        self._reload()
        now = self._row(row.model or "", row.prompt_hash or "", scope)
        if now == row:
            raise FixtureIntegrityFailed([finding])
        return self._read(now, scope)

    def _read_exchange(self, row: ExchangeRow | ScopedRow) -> Exchange | None:
        """The trusted exchange of a row; ``None`` if the row is no longer there."""
        file = row[:2]
        if file not in self._exchanges:
            try:
                self._exchanges[file] = read_exchange(self._source, row)
            except Untrusted as error:
                if error.finding.code != "missing" or not self._has_gone(row):
                    raise FixtureIntegrityFailed([error.finding]) from None
                return None
        return self._exchanges[file]

    def _has_gone(self, row: ExchangeRow | ScopedRow) -> bool:
        """Whether a file is gone because somebody committed another answer, or none, in its place."""
        self._reload()
        scope = row.scope if isinstance(row, ScopedRow) else ""
        if row.key is not None:
            return self.exchange_row(row.key, scope) != row
        return row not in self.rows(row.model or "", row.prompt_hash or "", scope)

    def _reload(self) -> None:
        report = check_listing(self._source)
        if not report.is_trusted:
            raise FixtureIntegrityFailed(report.findings)
        self._follow(report.index)

    def _follow(self, index: Index) -> None:
        """Follow an index that somebody committed; what was parsed from other files is forgotten."""
        listed = {row.path: row.blake3 for row in self._rows.values()} | {
            own.fixture.path: own.fixture.blake3 for own in self._own.values() if own.fixture is not None
        }
        self._rows = _rows_by_key(index)
        self._failures = _failures_by_key(index)
        self._opaque = _opaque_by_key(index)
        self._own = _own_by_place(index)
        self._scopes = frozenset(row.scope for row in index.scoped)
        now = {row.path: row.blake3 for row in index.rows if row.path in self._fixtures}
        self._fixtures = {
            path: fixture
            for path, fixture in self._fixtures.items()
            if path in now and now[path] == listed.get(path)
        }


def _own_by_place(index: Index) -> dict[_Place, _Own]:
    own: dict[_Place, _Own] = {}
    for row in index.scoped:
        place: _Place = (
            (row.scope, row.model, row.prompt_hash) if row.key is None else (row.scope, None, row.key)
        )
        if row.n is None:
            own[place] = _Own(row, own[place].failures if place in own else [])
        else:
            own.setdefault(place, _Own(None, [])).failures.append(row)
    return own


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
