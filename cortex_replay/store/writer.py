"""Changing a store: the commit of all that is staged, and the way back from one that fails.

What holds at every instant, also after ``kill -9`` and after a loss of power: a reader opens the
set from before the commit or the set from after it, and what was committed is never lost.

* Staged fixtures wait in a folder of this process (:mod:`.pending`, :mod:`.staging`).
* A commit is made under ``flock`` (:mod:`.state`), in steps that are durable one after the other. One that
  was cut short is brought to one of its two ends by whoever takes the lock next (:mod:`.lock`).
* Nothing is taken over, moved or removed because a file says so that this user did not write
  (:mod:`.marks`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Mapping, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from cortex_replay.disk import Folder, absolute_path, anchor_of
from cortex_replay.errors import FixtureIntegrityFailed, StoreIo
from cortex_replay.gc_pause import pause_gc
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import trust
from cortex_replay.store.changes import (
    Add,
    Changes,
    Pin,
    Remove,
    Said,
    StoreChanged,
    said_by,
    said_by_exchange,
)
from cortex_replay.store.check import read_exchange, read_fixture, read_listed
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.growing import Growing
from cortex_replay.store.index.files import (
    Touched,
    read_touched,
    render_anew,
    render_commit,
    vouched_digests,
)
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, Row, ScopedRow
from cortex_replay.store.index.named_file import NamedFile
from cortex_replay.store.index.shard_reading import read_root
from cortex_replay.store.index.sharded_rows import ShardedRows
from cortex_replay.store.index.shards import IndexFiles
from cortex_replay.store.journal import STATE_FOLDER, Journal
from cortex_replay.store.lock import LockedStore, lock_store
from cortex_replay.store.pending import PendingChanges
from cortex_replay.store.planning import plan_changes
from cortex_replay.store.requests.links import Links
from cortex_replay.store.requests.packing import Beyond, Listed, Packing, pack
from cortex_replay.store.state import translate_errors
from cortex_replay.store.trust import Layout, Untrusted
from cortex_replay.store.witness import Testimony, Witness

__all__ = ["CommitSummary", "StoreWriter", "check_place"]


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """What a commit did."""

    index: Index
    """All rows, or the root of the shards that have them."""
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    dropped: int = 0
    """How many answers were dropped for others that are recorded under the same key."""


@dataclass(frozen=True, slots=True)
class _Retreat:
    """A commit of ours that failed and could not be taken back yet."""

    journal: Journal
    staged: dict[str, str]
    """By path, what each answer is called in staging."""
    old_index: bytes


class _Base(NamedTuple):
    """What a commit is planned on."""

    touched: AbstractSet[str]
    """The shards that were read."""
    rows: Index
    """Their rows, or all there are."""
    links: Links


def check_place(root: Path) -> None:
    """Look whether a store could be made in ``root``, before anything is asked that could not be kept.

    Raises:
        StoreIo: A link is in the way, or something that is no folder, or it must not be written.
    """
    place = absolute_path(root)
    anchor = anchor_of(root)
    while not os.path.lexists(place):
        place = place.parent
    with translate_errors():
        Folder.reach(place, anchor=min(anchor, place, key=lambda path: len(path.parts))).close()
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))


class StoreWriter:
    """The writing half of one open store. Makes nothing on disk before the first change."""

    def __init__(self, source: DirectorySource, layout: Layout, witness: Witness | None = None) -> None:
        self._source = source
        self._layout = layout
        self.witness = witness
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._pending = PendingChanges(self._source, self._layout)
        self._testimony: Testimony | None = None
        self._retreat: _Retreat | None = None
        self._rows: ShardedRows | None = None
        """Those of the last commit, for what stays in memory of them."""

    def _start_anew_after_fork(self) -> None:
        """What was staged before a fork is the parent's, in a folder of the parent's."""
        if self._pid != os.getpid():
            self._start()

    def stage(self, change: Add | Remove | Pin, data: bytes = b"") -> Growing:
        """Remember a change, and put the bytes of a new fixture where they survive this process."""
        self._start_anew_after_fork()
        with translate_errors():
            staged = self._pending.stage(change, data)
        if self.witness is not None:
            self._testimony = self._testimony or self.witness.open()
            self._testimony.stage(change, data)
        return staged

    def withdraw(self, staged: Growing, heir: Growing) -> None:
        """Drop something that was staged here, for what says all of it anew."""
        if self._retreat is None:  # else its files are on their way back
            self._pending.withdraw(staged, heir)

    def grow(self, staged: Growing, place: int, data: bytes) -> bool:
        """Add an answer to a fixture that was staged here; see :meth:`Store.grow`."""
        self._start_anew_after_fork()
        if self.witness is not None:
            return False  # it tells others of whole fixtures
        with translate_errors():
            return self._pending.grow(staged, place, data)

    def is_staged(self, staged: Growing) -> bool:
        """Whether something that was staged here waits for a commit, and no witness is to hear of more."""
        self._start_anew_after_fork()
        return self.witness is None and self._pending.has(staged)

    def adopt_abandoned(self) -> int:
        """Stage what dead sessions hold, and clean up after them."""
        self._start_anew_after_fork()
        if self._source.is_new and not self._source.has_folder(STATE_FOLDER):
            return 0  # nothing may be made for nothing
        with translate_errors(), lock_store(self._source, self._layout) as store:
            store.recover()
            store.clean_staging()
            return self._pending.adopt(store)

    def discard(self) -> None:
        """Forget the staged changes and remove their files."""
        self._start_anew_after_fork()
        if self._testimony is not None:
            self._testimony.withdraw()
        self._clear()

    def _clear(self) -> None:
        self._testimony = None
        if self._retreat is not None:
            # If the disk still refuses, the next writer undoes it and keeps the answers, abandoned.
            with suppress(OSError, StoreIo), lock_store(self._source, self._layout) as store:
                self._resume_retreat(store, self._retreat)
            self._retreat = None
        self._pending.discard()

    def abandon(self) -> None:
        """Leave what is staged to whoever adopts it, as if this process had died."""
        self._start_anew_after_fork()
        self._testimony = None
        self._retreat = None  # the next writer undoes it
        self._pending.abandon()

    def plan(self, wanted: Iterable[Add | Remove | Pin]) -> Changes:
        """What a commit of these changes would do; see :meth:`Store.plan`."""
        root = Index() if self._source.is_new else read_root(self._source)[0]
        return self._plan(root, list(wanted))[1]

    @pause_gc()
    def commit(self) -> CommitSummary:
        """Make the staged changes; see :meth:`Store.commit`."""
        self._start_anew_after_fork()
        with translate_errors():
            if not self._pending:
                self._clear()
                return CommitSummary(Index() if self._source.is_new else read_root(self._source)[0])
            if self._retreat is not None:
                with lock_store(self._source, self._layout) as store:
                    self._resume_retreat(store, self._retreat)
            self._pending.join()
            self._pending.sync()  # before the lock, so that nobody waits for our disk
            with lock_store(self._source, self._layout) as store:
                store.recover()
                store.clean_staging()
                root, index_bytes = read_root(self._source)
                (touched, index, links), changes = self._plan(root, self._pending.changes)
                if not changes.is_empty:
                    read = partial(self._read_bytes, self._pending.names)
                    beyond = None if self._rows is None else Beyond(self._rows, touched)
                    packing = pack(changes, Listed(index, beyond), links, read, self._layout)
                    changes = packing.changes
                    root = self._apply(store, root, touched, packing, index_bytes)
            self._clear()
        return CommitSummary(
            root,
            [change.row.path for change in changes.added],
            [row.path for row in changes.removed],
            len(changes.dropped),
        )

    def put_index(
        self,
        index: Index,
        expected: bytes | None,
        mended: Mapping[str, bytes],
        removed: Collection[str] = (),
        *,
        is_sharded: bool | None = None,
        forms: Mapping[str, bytes] = MappingProxyType({}),
        beside: Mapping[str, bytes] = MappingProxyType({}),
    ) -> bytes:
        """Put another index in place over the same files, some of them with their bytes put right; gives its
        bytes.

        Args:
            index: The new index, with all rows; every file it names is there, or among ``forms``.
            expected: The index it was planned from, ``None`` for none.
            mended: Files to be written first, with the bytes that the index lists.
            removed: Files to be removed afterwards, none of which the index names.
            is_sharded: Whether it is to have shards; as it has now, or as its size says, if nothing is said.
            forms: Files that come with it, made of others that are listed: they go again if it does not come.
            beside: Its signature and its chain, written once it is in place; without them it is unsigned.

        Raises:
            StoreChanged: The index is another one by now.
            StoreIo: The disk refused.
        """
        with translate_errors(), lock_store(self._source, self._layout) as store:
            store.recover()
            if store.read_index() != expected:
                raise StoreChanged
            if expected is None:
                store.complete_attributes()
            if beside:
                store.complete_attributes(is_signed=True)
            for path, data in mended.items():
                store.put_file(path, data)
            # Of files that nobody vouched for, nobody has promised yet that they are durable.
            vouched = vouched_digests(self._source, expected)
            unsure = (row.path for row in index.rows if row.blake3 not in vouched)
            store.sync_files(path for path in unsure if path not in forms)
            files = render_anew(store, self._layout, index, expected, is_sharded)
            if files.root == expected and not files.shards and not removed:
                store.put_beside(beside)
                return files.root
            if files.shards:
                store.complete_attributes(has_shards=True)
            try:
                names = self._pending.write_forms(store, forms)
                journal = store.open_journal(
                    Journal(
                        old_index=blake3_hex(expected or b""),
                        new_index=blake3_hex(files.root),
                        added=tuple(names),
                        removed=tuple(removed),
                        shards=files.digests,
                        derived=tuple(names),
                    )
                )
                self._put_in_place(store, journal, names, files, expected or b"")
                store.finish(journal)
                store.put_beside(beside)
            finally:
                self._pending.discard()
        return files.root

    def _put_in_place(
        self, store: LockedStore, journal: Journal, names: Mapping[str, str], files: IndexFiles, old: bytes
    ) -> None:
        """Give files their names and put the index in place, or take back what was done of that."""
        try:
            if self._pending.session is not None:
                store.place_files(self._pending.session, names)
            store.put_index(files)
        except BaseException:
            # The old set, at once if the disk lets us, else when the next writer comes.
            with suppress(OSError, StoreIo):
                store.take_back(journal, self._pending.session, names, old)
            raise

    def _apply(
        self,
        store: LockedStore,
        old: Index,
        touched: AbstractSet[str],
        packing: Packing,
        old_index: bytes,
    ) -> Index:
        """Make the changes; gives the new index, or its root."""
        changes = packing.changes
        new, files = render_commit(store, self._source, self._layout, old, touched, changes.index)
        if new.shards and not old.shards:
            store.complete_attributes(has_shards=True)
        names = self._pending.names
        whole = [change for change in changes.added if change.row.path in names]
        staged = {change.row.path: names[change.row.path] for change in whole}
        forms = self._pending.write_forms(store, packing.files)
        session = self._pending.session
        journal = store.open_journal(
            Journal(
                old_index=blake3_hex(old_index),
                new_index=blake3_hex(files.root),
                added=(*staged, *forms),
                removed=tuple(row.path for row in changes.removed),
                overwriting=tuple(change.row.path for change in whole if change.overwrite),
                shards=files.digests,
                derived=tuple(forms),
                spent=tuple(f"{session.name}/{names[path]}" for path in packing.spent if session is not None),
            )
        )
        try:
            if session is not None:
                store.place_files(session, staged | forms)
            store.put_index(files)
        except BaseException:
            # The old set, at once if the disk lets us, else when the next writer comes.
            self._retreat = _Retreat(journal, staged | forms, old_index)
            with suppress(OSError, StoreIo):
                self._resume_retreat(store, self._retreat)
            raise
        # From here on it is committed. What cannot be cleaned up now, the next writer cleans up.
        with suppress(OSError, StoreIo, Untrusted):
            store.finish(journal)
        return new

    def _resume_retreat(self, store: LockedStore, retreat: _Retreat) -> None:
        """Take a failed commit back, or see that another writer has done so."""
        session = self._pending.session
        if store.journal() == retreat.journal:
            store.take_back(retreat.journal, session, retreat.staged, retreat.old_index)
        self._retreat = None
        if session is None:
            return
        derived = frozenset(retreat.journal.derived)
        answers = (name for path, name in retreat.staged.items() if path not in derived)
        gone = {name for name in answers if not session.folder.has_file(name)}
        if gone:  # the other writer cannot know that we live, and left them to whoever adopts them
            self._pending.forget(gone)
            raise StoreIo("another writer undid the commit that failed; adopt_abandoned() has its answers")

    def _plan(self, root: Index, wanted: list[Add | Remove | Pin]) -> tuple[_Base, Changes]:
        self._rows = ShardedRows(root, self._source, self._rows) if root.shards else None
        touched, index = self._read_rows(root, wanted)
        links = self._link(index)
        changes = plan_changes(index, wanted, partial(self._read_said, links=links), self._layout)
        return _Base(touched, index, links), changes

    def _read_rows(self, root: Index, wanted: list[Add | Remove | Pin]) -> Touched:
        """The rows that changes may concern: those of the shards they touch, or all there are.

        An index by ``crtx-llm`` has no keys; the first commit gives it some.
        """
        touched, index = read_touched(self._source, root, self._rows, wanted)
        if findings := trust.trust_rows(index, self._layout):
            raise FixtureIntegrityFailed(findings)
        if None in map(attrgetter("prompt_hash"), index.fixtures):
            keys = [read_fixture(self._source, row)[0].key for row in index.fixtures]
            rows = [FixtureRow(*row[:2], *key) for row, key in zip(index.fixtures, keys, strict=True)]
            index = Index(rows, index.exchanges, index.header, index.scoped, index.parts)
        return Touched(touched, index)

    def _link(self, index: Index) -> Links:
        """How requests are put together from what is committed."""
        read = partial(read_listed, self._source)
        if self._rows is None:
            return Links.of(index, read)
        return Links(self._rows.parent, self._rows.part, read)  # what a request continues stands anywhere

    def _read_bytes(self, names: Mapping[str, str], file: NamedFile) -> bytes:
        """The bytes of a listed file, or of one that is staged to come there."""
        name, session = names.get(file.path), self._pending.session
        if name is None or session is None:
            return read_listed(self._source, file)
        return session.folder.read(name)

    def _read_said(self, row: Row, links: Links) -> Said:
        if isinstance(row, FixtureRow) or (isinstance(row, ScopedRow) and row.is_fixture):
            return said_by(read_fixture(self._source, row, links.complete)[0])
        if isinstance(row, PartRow):
            raise TypeError("a part answers nothing")
        return said_by_exchange(read_exchange(self._source, row))
