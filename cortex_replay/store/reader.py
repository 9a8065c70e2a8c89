"""A store that is open to be read: every lookup, and nothing that changes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self

from cortex_replay.config.key_rules import KeyRules, key_rules_for
from cortex_replay.errors import Finding, FixtureIntegrityFailed, NoFixture
from cortex_replay.gc_pause import pause_gc
from cortex_replay.hashing import blake3_hex
from cortex_replay.progress import Progress
from cortex_replay.redact.clearance import clearance_for
from cortex_replay.redact.sensitivity import Sensitivity
from cortex_replay.store.check import (
    CheckReport,
    check_opening,
    check_store,
    read_exchange,
    read_fixture,
    read_listed,
)
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.fixture_json import is_short, parse_fixture, render_fixture
from cortex_replay.store.index.index import (
    ExchangeRow,
    FixtureRow,
    Index,
    Row,
    ScopedRow,
    content_key,
    continued_by,
)
from cortex_replay.store.index.named_file import NamedFile
from cortex_replay.store.index.rows import Own, Rows
from cortex_replay.store.index.sharded_rows import ShardedRows
from cortex_replay.store.index.shards import shard_of
from cortex_replay.store.paths import INDEX_NAME, escape
from cortex_replay.store.read_ahead import ReadAhead
from cortex_replay.store.requests.links import Links
from cortex_replay.store.requests.request_bytes import WholeRequests
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, Layout, Untrusted, trust_exchange, trust_part
from cortex_replay.types import JsonValue, LlmRequest

__all__ = ["StoreReader", "StoredExchange", "StoredFixture", "Verify"]

Verify = Literal["full", "on-read"]
_MOST_PARSED: Final = 32_768
"""How many fixtures are kept as they were parsed."""
_MOST_SCANNED: Final = 4096
"""How many rows a scan holds at once."""


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


_Read = Callable[[Iterable[FixtureRow], int], Iterator[tuple[FixtureRow, bytes | Finding]]]


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
        rows = report.index.rows if report.elsewhere else ()
        self._ahead = ReadAhead(source.elsewhere, (row for row in rows if row.path in report.elsewhere))
        self._seen_shards: set[str] = set()
        self._rows = self._index_rows(report)
        self._links = self._link()
        self._fixtures: dict[str, Fixture] = {}
        """By the hash of the file: those of scopes may be the shared ones."""
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
                served, and opens a large store much faster. Of an index with shards it checks the root
                now, and each shard when it is first needed. An index without keys, as ``crtx-llm``
                writes it, can only be opened in full.
            progress: Called now and then with the number of files checked so far, and of all.

        Raises:
            FixtureIntegrityFailed: The store is not what its index says.
            StoreIo: There is no such folder.
        """
        if verify not in ("full", "on-read"):
            raise ValueError(f'verify is "full" or "on-read", not {verify!r}')
        source = DirectorySource(Path(path))
        report = check_opening(source) if verify == "on-read" else None
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
        return self._rows.scopes

    def has_own(self, model: str, prompt_hash: str, scope: str) -> bool:
        """Whether a scope has answers of its own to a key, failures among them."""
        return self._own_of(model, prompt_hash, scope) is not None

    def _own_of(self, model: str, prompt_hash: str, scope: str) -> Own | None:
        return self._rows.own(FixtureKey(model, prompt_hash), scope) if scope else None

    def get(self, model: str, prompt_hash: str, scope: str = "") -> Fixture:
        """The trusted fixture of a key: that of a scope where it has answers of its own, else the shared one.

        Raises:
            NoFixture: Nothing is recorded under it.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        row = self._row(model, prompt_hash, scope)
        fixture = self._fixtures.get(row.blake3)
        if fixture is None:
            row, fixture, _ = self._read(row, scope)
            if len(self._fixtures) >= _MOST_PARSED:
                del self._fixtures[next(iter(self._fixtures))]
            self._fixtures[row.blake3] = fixture
        return fixture

    def read(self, model: str, prompt_hash: str, scope: str = "") -> tuple[Fixture, bytes]:
        """As :meth:`get`, with the bytes of its file; nothing of it is kept, for who reads a whole store."""
        return self._read(self._row(model, prompt_hash, scope), scope)[1:]

    def content(self, model: str, prompt_hash: str, scope: str = "") -> bytes:
        """The trusted bytes of a key's file, exactly as they are stored.

        Raises:
            NoFixture: Nothing is recorded under it.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        return self._read(self._row(model, prompt_hash, scope), scope)[2]

    def whole_content(self, model: str, prompt_hash: str, scope: str = "") -> bytes:
        """The trusted bytes of a key's file, as they are where its request stands in it whole.

        Raises:
            NoFixture: Nothing is recorded under it.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        _, fixture, data = self._read(self._row(model, prompt_hash, scope), scope)
        return render_fixture(fixture) if is_short(data) else data

    def part(self, digest: str) -> Mapping[str, JsonValue]:
        """What the part with a hash has, trusted: a field of requests, and its value.

        Raises:
            FixtureIntegrityFailed: There is none, or its file is not what the index vouches for.
        """
        row = self._rows.part(digest)
        try:
            if row is None:
                raise Untrusted(Finding("link-broken", INDEX_NAME, f"a part {digest[:16]} is not listed"))
            return trust_part(row, self._read_bytes(row))
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None

    def contents(
        self, wanted: Iterable[StoredFixture], damaged: list[Finding] | None = None
    ) -> Iterator[tuple[StoredFixture, bytes]]:
        """The bytes of many fixtures, at a fraction of what :meth:`content` takes for each: they are those
        that the index vouches for, but what they say is not checked.

        Args:
            wanted: Whose.
            damaged: Gets what is wrong with files that are not what the index says, which are left out then.

        Raises:
            FixtureIntegrityFailed: A file is no longer what the index vouches for.
        """
        by_path = {stored.path: stored for stored in wanted}
        for stored, read in self._source.read_many(by_path.values(), MAX_FIXTURE_BYTES):
            if isinstance(read, bytes) and blake3_hex(read) == stored.blake3:
                yield stored, read
                continue
            try:  # which says what is wrong, if it is
                content = self.content(stored.model, stored.prompt_hash, stored.scope)
            except FixtureIntegrityFailed as error:
                if damaged is None:
                    raise
                damaged += error.issues
            else:
                yield stored, content

    def has_any(self, key: FixtureKey, scope: str = "") -> bool:
        """Whether anything is recorded under a key, for calls in a scope: an answer, or a failure."""
        if self._rows.fixture(key) is not None or self._rows.failures(key):
            return True
        return bool(scope) and self._rows.own(key, scope) is not None

    def has_fixture(self, model: str, prompt_hash: str, scope: str = "") -> bool:
        """Whether there is a good answer to a key, for calls in a scope."""
        own = self._own_of(model, prompt_hash, scope)
        shared = self._rows.fixture(FixtureKey(model, prompt_hash))
        return (shared if own is None else own.fixture) is not None

    def rows(self, model: str, prompt_hash: str, scope: str = "") -> tuple[Row, ...]:
        """The rows of what a scope gets under a key: of its fixture, and of the failures."""
        own = self._own_of(model, prompt_hash, scope)
        if own is not None:
            return tuple(row for row in (own.fixture, *own.failures) if row is not None)
        key = FixtureKey(model, prompt_hash)
        shared = self._rows.fixture(key)
        # One by crtx-llm does not say what it is about.
        known = [] if shared is None else [shared._replace(model=model, prompt_hash=prompt_hash)]
        return (*known, *self._rows.failures(key))

    def _row(self, model: str, prompt_hash: str, scope: str) -> FixtureRow | ScopedRow:
        own = self._own_of(model, prompt_hash, scope)
        row = self._rows.fixture(FixtureKey(model, prompt_hash)) if own is None else own.fixture
        if row is None:
            raise NoFixture(model, prompt_hash)
        return row

    def scan(self, *, first: str = "") -> Iterator[tuple[tuple[str, str], bytes]]:
        """Every key and its file as it is on disk, **unchecked**: to look for something, never to be shown.

        What is not there, or cannot be read, or had to be fetched, is empty: who looks for a time only must
        hear of it, too. The model ``first`` comes first.
        """
        if self._contents:
            yield from self._scan(self._source.read_near, first)
            return
        rows = self._rows.fixtures(first)
        while batch := list(islice(rows, _MOST_SCANNED)):
            read = self._source.read_near([row for _, row in batch], MAX_FIXTURE_BYTES)
            for (key, _), (_, data) in zip(batch, read, strict=True):  # which come in this order
                yield key, data if isinstance(data, bytes) else b""

    def _scan(self, read: _Read, first: str) -> Iterator[tuple[tuple[str, str], bytes]]:
        rows = self._rows.fixtures(first)
        while by_row := {row: key for key, row in islice(rows, _MOST_SCANNED)}:
            kept = [row for row in by_row if row.path in self._contents]
            for row in kept:
                yield by_row.pop(row), self._contents[row.path]
            for row, data in read(by_row, MAX_FIXTURE_BYTES):
                yield by_row[row], data if isinstance(data, bytes) else b""

    def scan_model(self, model: str, scope: str = "") -> Iterator[tuple[FixtureKey, bytes]]:
        """As :meth:`scan`, what a scope gets under each key of one model. What is elsewhere is fetched: an
        answer may be found by it."""
        own = {
            row: FixtureKey(model, row.prompt_hash or "")
            for place, (row, _) in self._rows.owns()
            if row is not None and place[:2] == (scope, model) and row.prompt_hash is not None
        }
        for row, data in self._source.read_many(own, MAX_FIXTURE_BYTES):
            yield own[row], data if isinstance(data, bytes) else b""
        mine = frozenset(own.values())
        for key, data in self._scan(self._source.read_many, model):
            if key[0] != model:
                return
            if key not in mine:
                yield FixtureKey(*key), data

    def scan_requests(self, *, first: str = "") -> Iterator[tuple[tuple[str, str], bytes | None]]:
        """As :meth:`scan`, every key and its whole request, if it has one that can be put together."""
        whole = WholeRequests(
            lambda key: self._scan_file(self._rows.parent(key)),
            lambda digest: self._scan_file(self._rows.part(digest)),
        )
        for key, data in self.scan(first=first):
            yield key, whole.bytes_of(*key, data)

    def _scan_file(self, row: Row | None) -> bytes | None:
        if row is None or row.path in self._contents:
            return None if row is None else self._contents[row.path]
        data = next(self._source.read_near([row], MAX_FIXTURE_BYTES))[1]
        return data if isinstance(data, bytes) else None

    def scan_exchanges(self, scope: str = "") -> Iterator[tuple[tuple[str, str], bytes]]:
        """As :meth:`scan`, of the opaque exchanges, shared or a scope's own: the place, the key, the file.
        What is elsewhere is fetched."""
        rows = self._exchange_rows(scope)
        for row, data in self._source.read_many(rows.values(), MAX_FIXTURE_BYTES):
            if not isinstance(data, Finding):
                yield (row.path, row.key or ""), data

    def prepare_remote(self) -> None:
        """Find the credentials for files that are elsewhere now, before somebody changes the environment."""
        elsewhere = self._source.elsewhere
        if self.is_sharded and elsewhere.remote is not None:  # what is missing is not known
            elsewhere.remote.prepare()
        elif files := self._ahead.files:
            elsewhere.prepare(files)

    def is_near(self, path: str) -> bool:
        """Whether a listed file was here when the store was opened, or has been fetched since."""
        return path not in self._ahead

    def path(self, model: str, prompt_hash: str, scope: str = "") -> str:
        """Where the fixture of a key stands, below the root.

        Raises:
            NoFixture: Nothing is recorded under it.
        """
        return self._row(model, prompt_hash, scope).path

    def list(self, *, scoped: bool = False) -> list[StoredFixture]:
        """Every shared fixture's key and place, sorted by path; with ``scoped``, those of scopes, too."""
        found = [StoredFixture(*key, row.path, row.blake3) for key, row in self._rows.fixtures()]
        if scoped:
            found += [
                StoredFixture(model or "", prompt_hash or "", own.fixture.path, own.fixture.blake3, scope)
                for (scope, model, prompt_hash), own in self._rows.owns()
                if own.fixture is not None and own.fixture.key is None
            ]
        return sorted(found, key=lambda stored: (stored.path, stored.scope))

    def sole_fixture(self, key: FixtureKey, scope: str = "") -> Fixture | None:
        """The trusted fixture of a key where every call gets the same: it has one answer, and no failure.

        Raises:
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        if scope and (own := self._rows.own(key, scope)) is not None:
            if own.failures or own.fixture is None:
                return None
            fixture = self.get(*key, scope)
        else:
            row = self._rows.fixture(key)
            if row is None or self._rows.failures(key):
                return None
            fixture = self._fixtures.get(row.blake3) or self.get(*key)
        return fixture if len(fixture.answers) == 1 else None

    def has_failures(self, model: str, prompt_hash: str, scope: str = "") -> bool:
        """Whether an answer to a key was a failure."""
        own = self._own_of(model, prompt_hash, scope)
        return bool(self._rows.failures(FixtureKey(model, prompt_hash)) if own is None else own.failures)

    def failures(self, model: str, prompt_hash: str, scope: str = "") -> dict[int, Exchange]:
        """The recorded failures of a key: which answer each was, counted from 1.

        Raises:
            FixtureIntegrityFailed: A file is no longer what the index vouches for.
        """
        own = self._own_of(model, prompt_hash, scope)
        rows = self._rows.failures(FixtureKey(model, prompt_hash)) if own is None else own.failures
        found = [self._read_exchange(row) for row in rows]
        if None in found:  # somebody committed another one in its place
            return self.failures(model, prompt_hash, scope)
        return {exchange.n: exchange for exchange in found if exchange is not None and exchange.n is not None}

    def list_failures(self) -> Sequence[ExchangeRow | ScopedRow]:
        """The row of every failure, those of scopes, too, sorted by path."""
        own = (row for _, one in self._rows.owns() for row in one.failures)
        return sorted([*self._rows.all_failures(), *own], key=lambda row: row.path)

    def count_failures(self) -> int:
        """How many answers were failures, of all keys."""
        return self._rows.count_failures()

    def count_scoped(self) -> int:
        """How many sequences are those of single scopes."""
        return self._rows.count_own()

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
        own = self._rows.own_opaque(key, scope) if scope else None
        return self._rows.opaque(key) if own is None else own

    def has_exchanges(self, scope: str = "") -> bool:
        """Whether there is any opaque exchange that is shared or a scope's own."""
        if next(self._rows.opaques(), None) is not None:
            return True
        return bool(scope) and any(place[:2] == (scope, None) for place, _ in self._rows.owns())

    def exchange_keys(self, scope: str = "") -> dict[str, str]:
        """The keys of all opaque exchanges that are shared or a scope's own, and their paths."""
        return {key: row.path for key, row in self._exchange_rows(scope).items()}

    def _exchange_rows(self, scope: str) -> dict[str, ExchangeRow | ScopedRow]:
        shared: dict[str, ExchangeRow | ScopedRow] = dict(self._rows.opaques())
        if not scope:
            return shared
        rows = (own.fixture for _, own in self._rows.owns() if own.fixture is not None)
        return shared | {row.key: row for row in rows if row.scope == scope and row.key is not None}

    def list_exchanges(self) -> Sequence[StoredExchange]:
        """Every opaque exchange's key and place, those of scopes, too, sorted by path."""
        rows = [
            row for _, own in self._rows.owns() if (row := own.fixture) is not None and row.key is not None
        ]
        found = [StoredExchange(key, row.path, row.blake3) for key, row in self._rows.opaques()]
        found += [StoredExchange(row.key or "", row.path, row.blake3, row.scope) for row in rows]
        return sorted(found, key=lambda stored: (stored.path, stored.scope))

    def exchange_content(self, stored: StoredExchange) -> bytes:
        """The bytes of an exchange's file, exactly as they are stored.

        Raises:
            FixtureIntegrityFailed: It is no longer what the index vouches for.
        """
        self._ahead.prepare(stored)
        read = self._source.read_listed(stored, MAX_FIXTURE_BYTES)
        if isinstance(read, Finding):
            raise FixtureIntegrityFailed([read])
        try:
            trust_exchange(ExchangeRow(stored.path, stored.blake3, key=stored.key), read)
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None
        return read

    def listed_content(self, file: NamedFile) -> bytes:
        """The bytes of any file that a row names: those that it vouches for. What they say is not checked.

        Raises:
            FixtureIntegrityFailed: They are others now, or cannot be had.
        """
        try:
            data = self._read_bytes(file)
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None
        if blake3_hex(data) != file.blake3:
            reason = f"is not the file that {INDEX_NAME} lists"
            raise FixtureIntegrityFailed([Finding("mismatch", escape(file.path), reason)])
        return data

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and self._rows.fixture(FixtureKey(*key)) is not None

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def has_fixtures(self) -> bool:
        """Whether anything that is shared is recorded; quick, where counting it is not."""
        return next(self._rows.fixtures(), None) is not None

    @property
    def is_sharded(self) -> bool:
        """Whether the index stands in many files: then what is asked of all rows takes a while."""
        return isinstance(self._rows, ShardedRows)

    def _read(
        self, row: FixtureRow | ScopedRow, scope: str, earlier: Finding | None = None
    ) -> tuple[FixtureRow | ScopedRow, Fixture, bytes]:
        """The fixture of a row and its bytes; or those of the row that has taken its place, if one has.

        What is missing may be what it continues: then its own row may have stayed.
        """
        try:
            if (data := self._contents.get(row.path)) is not None:
                return row, self._links.complete(row, parse_fixture(data)), data
            self._prepare(row)
            return row, *read_fixture(self._source, row, self._links.complete)
        except Untrusted as error:
            if error.finding.code != "missing" or error.finding == earlier:
                raise FixtureIntegrityFailed([error.finding]) from None
            finding = error.finding
        self._reload()
        return self._read(self._row(row.model or "", row.prompt_hash or "", scope), scope, finding)

    def _prepare(self, row: FixtureRow | ExchangeRow | ScopedRow) -> None:
        """Have the file of a row here or in the cache, and all that it continues, by one look at a bucket."""
        if isinstance(self._rows, ShardedRows):
            self._look_around(self._rows, row)
        if row.path in self._ahead:
            self._ahead.prepare(row, self._ancestors(row))

    def _look_around(self, rows: ShardedRows, row: Row) -> None:
        """Note what is missing of a shard, once the first of its files is neither here nor in the cache."""
        if self._is_here(row) or (shard := shard_of(row)) in self._seen_shards:
            return
        elsewhere = self._source.elsewhere
        if elsewhere and not elsewhere.is_cached(row):
            self._seen_shards.add(shard)
            self._ahead.add(one for one in rows.beside(row) if not self._is_here(one))

    def _is_here(self, row: Row) -> bool:
        return os.path.lexists(self.root / row.path)

    def _ancestors(self, row: Row) -> Iterator[Row]:
        """The rows whose requests one continues, the nearest first."""
        seen: set[str] = set()
        while (continued := continued_by(row)) is not None and continued not in seen:
            seen.add(continued)
            parent = self._rows.parent(FixtureKey(content_key(row)[0] or "", continued))
            if parent is None:
                return
            if isinstance(self._rows, ShardedRows) and not self._is_here(parent):
                self._ahead.add([parent])
            yield parent
            row = parent

    def _index_rows(self, report: CheckReport) -> Rows | ShardedRows:
        """The rows of a report; those of shards that were not read yet, when they are asked for."""
        if report.index.shards and not report.index.rows:
            return ShardedRows(report.index, self._source)
        return Rows(report.index, report.kept)

    def _link(self) -> Links:
        """How requests are put together from what the present rows name."""
        return Links(self._rows.parent, self._rows.part, self._read_bytes)

    def _read_bytes(self, file: NamedFile) -> bytes:
        if (data := self._contents.get(file.path)) is not None:
            return data
        self._ahead.prepare(file)
        return read_listed(self._source, file)

    def _read_exchange(self, row: ExchangeRow | ScopedRow) -> Exchange | None:
        """The trusted exchange of a row; ``None`` if the row is no longer there."""
        file = row[:2]
        if file not in self._exchanges:
            self._prepare(row)
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
        report = check_opening(self._source)
        if not report.is_trusted:
            raise FixtureIntegrityFailed(report.findings)
        self._follow(report.index)

    @pause_gc()
    def _follow(self, index: Index) -> None:
        """Follow an index that somebody committed; what was parsed from other files is forgotten."""
        if index.shards:
            before = self._rows if isinstance(self._rows, ShardedRows) else None
            self._rows = ShardedRows(index, self._source, before)
        else:
            self._rows = Rows(index)
            listed = {row.blake3 for row in index.rows} if self._fixtures else frozenset()
            self._fixtures = {digest: one for digest, one in self._fixtures.items() if digest in listed}
        self._links = self._link()
