"""The store as the rest of the package sees it."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cortex_replay.config.key_rules import Further, KeyRules
from cortex_replay.disk import Folder, absolute_path
from cortex_replay.errors import FixtureIntegrityFailed, NoFixture, StoreIo
from cortex_replay.gc_pause import pause_gc
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.changes import Add, Changes, Pin, Remove, new_exchange, new_fixture
from cortex_replay.store.check import CheckReport, check_place_of_new
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange, render_exchange
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.fixture_json import RenderedFixture
from cortex_replay.store.index.index import ScopedRow
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.reader import StoredFixture, StoreReader, Verify
from cortex_replay.store.state import create_store, open_run, translate_errors

if TYPE_CHECKING:
    from cortex_replay.store.growing import Growing
    from cortex_replay.store.staging import Abandoned
    from cortex_replay.store.witness import Witness
    from cortex_replay.store.writer import CommitSummary, StoreWriter

__all__ = ["Store", "StoredFixture", "Verify"]


class Store(StoreReader):
    """A trusted set of fixtures, and the way to change it.

    :meth:`add`, :meth:`replace` and :meth:`remove` stage a change; :meth:`commit` makes all of them
    at once. Until then nobody sees them, this store's own readers included.
    """

    witness: Witness | None = None
    """Who is told of what is staged."""

    def __init__(self, source: DirectorySource, report: CheckReport) -> None:
        super().__init__(source, report)
        self._start_writing()

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """Make an empty store, and the folders it needs; what is there already stays.

        Raises:
            FixtureIntegrityFailed: There are files that would have to be listed in it, or the path is one.
            StoreIo: There is a store already, or it cannot be written.
        """
        source = DirectorySource(Path(path), is_new=True)
        _refuse_strays(source)
        with translate_errors():
            try:
                create_store(source)
            except FileExistsError:
                raise StoreIo(f"there is a store already: {Path(path) / INDEX_NAME}") from None
        return cls.open(path)

    @classmethod
    def open_or_create(cls, path: str | os.PathLike[str], *, verify: Verify = "full") -> Self:
        """Open the store in ``path``; where there is none yet, an empty one that the first change makes.

        A run that ends before it records anything leaves nothing behind.

        Raises:
            FixtureIntegrityFailed: The store is not what its index says, or the path is a file; or there is
                no store, but files that would have to be listed in one.
            StoreIo: No store could be made there.
        """
        root = Path(path)
        if os.path.lexists(absolute_path(root) / INDEX_NAME):
            return cls.open(path, verify=verify)
        from cortex_replay.store.writer import check_place  # noqa: PLC0415 - as in _writer

        source = DirectorySource(root, is_new=True)
        check_place(root)
        _refuse_strays(source)
        return cls(source, CheckReport())

    def with_normalisers(self, further: Further) -> Store:
        """This very store, seen with further normalisers, as for one test.

        Only :meth:`key` and :meth:`normalise` differ: what is staged or committed through one is there
        for the other.

        Args:
            further: Names of built-in normalisers such as ``builtin:uuid``, or patterns by name.

        Raises:
            InvalidRequest: One is not sound, or does not agree with another.
        """
        return _NormalisedView(self, self.key_rules.with_normalisers(further))

    def add(
        self,
        fixture: Fixture | RenderedFixture,
        *,
        keep_existing: bool = False,
        scope: str = "",
        is_exact: bool = False,
    ) -> str:
        """Stage a new fixture; gives the path of its file, if it needs one, and one that is whole.

        The same answers again, or fewer of them, are a no-op when they are committed, and more of them
        take the place of the fewer. Another answer to a call that has one is a
        :class:`FixtureConflict` then; with ``keep_existing`` the recorded one stays and this one is dropped.

        What a scope adds is compared with what that scope has. It is stored for the scope alone where others
        have something else under the key (`docs/store-format.md`).

        Args:
            fixture: What to add.
            keep_existing: Whether to give way to another answer.
            scope: Who recorded it: the id of a test, the name of a client; "" for nobody in particular.
            is_exact: Whether answers that differ in ids, usage or bytes only are different ones.

        Raises:
            FixtureIntegrityFailed: The fixture would not be trusted once it is written.
            StoreIo: It cannot be written.
        """
        return self._add(fixture, keep_existing=keep_existing, scope=scope, is_exact=is_exact)[0]

    def begin(
        self,
        fixture: RenderedFixture,
        *,
        overwrite: bool = False,
        keep_existing: bool = False,
        scope: str = "",
        is_exact: bool = False,
        instead_of: Growing | None = None,
    ) -> Growing:
        """Stage a fixture to which more answers may come (:meth:`grow`); see :meth:`add`, :meth:`replace`.

        What else was begun, and says no more than this, is dropped for it.
        """
        staged = self._add(
            fixture, overwrite=overwrite, keep_existing=keep_existing, scope=scope, is_exact=is_exact
        )[1]
        if instead_of is not None:
            with self._writing:
                self._writer.withdraw(instead_of, staged)
        return staged

    def grow(self, staged: Growing, place: int, answer: RenderedFixture) -> bool:
        """Stage one more answer of a fixture, which becomes a part of it at the commit.

        What was staged before is not written again, so that a long sequence takes no longer for each answer.

        Args:
            staged: What :meth:`begin` gave.
            place: Which answer it is, counted from 1. It comes after all others, or takes the place of one.
            answer: A fixture with this answer alone, and no request.

        Returns:
            Whether it is staged. It is not where the fixture was committed, dropped or removed meanwhile:
            stage all of it again.

        Raises:
            FixtureIntegrityFailed: The answer would not be trusted once it is written.
            StoreIo: It cannot be written.
        """
        with translate_errors():
            new_fixture(self.layout, answer.fixture.key, answer.data)  # whatever is written is trusted
        with self._writing:
            return self._writer.grow(staged, place, answer.data)

    def is_staged(self, staged: Growing) -> bool:
        """Whether something that :meth:`begin` gave still waits for a commit of this store."""
        with self._writing:
            return self._writer.is_staged(staged)

    def replace(self, fixture: Fixture | RenderedFixture, *, scope: str = "", is_exact: bool = False) -> str:
        """Stage a fixture that takes the place of whatever its key has in a scope; gives its path.

        If that says the same already (text, parsed JSON, tool calls, finish reason), the stored file
        stays as it is, whatever usage, times, ids and the rest say: a diff shows real changes only.
        """
        return self._add(fixture, overwrite=True, scope=scope, is_exact=is_exact)[0]

    def remove(self, model: str, prompt_hash: str, scope: str = "") -> None:
        """Stage the removal of what a scope has under a key; the shared answers, where none is named.

        Raises:
            NoFixture: Nothing is recorded under it.
        """
        key = FixtureKey(model, prompt_hash)
        if not self.rows(*key, scope):
            raise NoFixture(*key)
        self.stage(Remove((*key, None, None), scope))

    def add_exchange(
        self,
        exchange: Exchange,
        *,
        overwrite: bool = False,
        keep_existing: bool = False,
        scope: str = "",
        is_exact: bool = False,
    ) -> str:
        """Stage an exchange; gives the path it will have. See :meth:`add` for the rest."""
        data = render_exchange(exchange)
        with translate_errors():
            change = new_exchange(
                self.layout,
                exchange,
                data,
                overwrite=overwrite,
                keep_existing=keep_existing,
                scope=scope,
                is_exact=is_exact,
            )
        return self._stage(change, data)[0]

    def remove_failure(self, model: str, prompt_hash: str, n: int, scope: str = "") -> None:
        """Stage the removal of the failure that was answer ``n`` to a key: an answer takes its place."""
        self.stage(Remove((model, prompt_hash, str(n), None), scope, is_kept=True))

    def remove_exchange(self, key: str, scope: str = "") -> None:
        """Stage the removal of an opaque exchange."""
        self.stage(Remove((None, None, None, key), scope))

    def pin(self, scope: str, model: str, prompt_hash: str) -> None:
        """Stage that what a scope gets under a key is its own from now on, whatever others record.

        No file is copied. Nothing happens where the scope has its own answers, or recorded the shared ones.
        """
        if not self.has_own(model, prompt_hash, scope) and (rows := self.rows(model, prompt_hash)):
            self.stage(Pin(rows, scope))

    def pin_exchange(self, scope: str, key: str) -> None:
        """The same for an opaque exchange."""
        row = self.exchange_row(key, scope)
        if row is not None and not isinstance(row, ScopedRow):
            self.stage(Pin((row,), scope))

    def plan(self, changes: Iterable[Add | Remove | Pin]) -> Changes:
        """What a commit of these changes alone would do, as things are now. Nothing is staged.

        Raises:
            FixtureConflict: A key has other answers already.
            FixtureIntegrityFailed: The store is not what its index says.
        """
        with translate_errors():
            return self._writer.plan(changes)

    @pause_gc()
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
            self._follow(summary.index)
        return summary

    def discard(self) -> None:
        """Drop what this store staged and did not commit."""
        with self._writing:
            if self._has_writer:
                self._writer.discard()

    def abandon(self) -> None:
        """Leave what this store staged to whoever adopts it (:meth:`adopt_abandoned`), without a commit."""
        with self._writing:
            if self._has_writer:
                self._writer.abandon()

    def attest(self, witness: Witness) -> None:
        """Tell a witness of every change that this store and its later branches stage, from now on."""
        with self._writing:
            self.witness = witness
            if self._has_writer:
                self._writer.witness = witness

    def stage(self, change: Add | Remove | Pin, data: bytes = b"") -> Growing:
        """Stage a change that another process made.

        Args:
            change: As :mod:`.changes` makes it from bytes that it trusts.
            data: The recording that it adds.

        Returns:
            What more answers may come to.
        """
        with self._writing:
            return self._writer.stage(change, data)

    def branch(self) -> Store:
        """The same store, with changes of its own to stage, commit or discard."""
        other = copy.copy(self)
        other._start_writing()  # noqa: SLF001 - its own
        return other

    def abandoned(self) -> Abandoned:
        """What runs that died before they committed abandoned."""
        from cortex_replay.store.staging import find_abandoned  # noqa: PLC0415 - as in _writer

        return find_abandoned(self._source)

    def adopt_abandoned(self) -> int:
        """Stage what runs that died had staged, as if it were added here; gives the number."""
        with self._writing:
            return self._writer.adopt_abandoned()

    def run_folder(self, run: str) -> Folder:
        """Where the processes of one run meet, made and open.

        Raises:
            StoreIo: It cannot be made, or something is in the way.
        """
        return open_run(self._source, blake3_hex(run.encode())[:32])

    def __repr__(self) -> str:
        size = "sharded" if self.is_sharded else f"{len(self)} fixtures"
        return f"Store({os.fspath(self.root)!r}, {size})"

    def _start_writing(self) -> None:
        self._writers: dict[str, StoreWriter] = {}
        """The one writer, once there is one."""
        self._writing = threading.Lock()

    @property
    def _has_writer(self) -> bool:
        return bool(self._writers)

    @property
    def _writer(self) -> StoreWriter:
        """What stages and commits, made with the first change: replay makes none."""
        if not self._writers:
            # In one step: of two threads that come here first, both get the same.
            self._writers.setdefault("", self._new_writer())
        return self._writers[""]

    def _new_writer(self) -> StoreWriter:
        from cortex_replay.store.writer import StoreWriter  # noqa: PLC0415 - a fifth of the store's modules

        return StoreWriter(self._source, self.layout, self.witness)

    def _add(
        self,
        fixture: Fixture | RenderedFixture,
        *,
        overwrite: bool = False,
        keep_existing: bool = False,
        scope: str,
        is_exact: bool,
    ) -> tuple[str, Growing]:
        rendered = RenderedFixture.of(fixture) if isinstance(fixture, Fixture) else fixture
        key, data = rendered.fixture.key, rendered.data
        with translate_errors():
            change = new_fixture(
                self.layout,
                key,
                data,
                overwrite=overwrite,
                keep_existing=keep_existing,
                scope=scope,
                is_exact=is_exact,
            )
        return self._stage(change, data)

    def _stage(self, change: Add, data: bytes) -> tuple[str, Growing]:
        return change.row.path, self.stage(change, data)


class _NormalisedView(Store):
    """A store with key rules of its own, and everything else shared with another."""

    __slots__ = ("_own_rules",)

    def __init__(self, store: Store, rules: KeyRules) -> None:
        self.__dict__ = store.__dict__  # the same state, also when either follows a new index
        self._own_rules = rules

    @property
    def key_rules(self) -> KeyRules:
        return self._own_rules


def _refuse_strays(source: DirectorySource) -> None:
    """Refuse to begin a store among files that nobody could read it with."""
    report = check_place_of_new(source)
    if report.findings and not os.path.lexists(source.root / INDEX_NAME):  # else somebody was faster
        raise FixtureIntegrityFailed(report.findings)
