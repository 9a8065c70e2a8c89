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
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cortex_replay.disk import Folder, absolute_path, anchor_of
from cortex_replay.errors import FixtureIntegrityFailed, StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import trust
from cortex_replay.store.changes import Add, Changes, Pin, Remove, Said, said_by, said_by_exchange
from cortex_replay.store.check import read_exchange, read_fixture, read_index
from cortex_replay.store.creation import make_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.gc_pause import pause_gc
from cortex_replay.store.grid import render_index
from cortex_replay.store.index import ExchangeRow, FixtureRow, Index, Row
from cortex_replay.store.journal import STATE_FOLDER, Journal
from cortex_replay.store.lock import LockedStore, lock_store
from cortex_replay.store.paths import INDEX_NAME
from cortex_replay.store.pending import PendingChanges
from cortex_replay.store.planning import plan_changes
from cortex_replay.store.state import translate_errors
from cortex_replay.store.trust import Layout, Untrusted

__all__ = ["CommitSummary", "StoreWriter", "check_place", "create_store"]

_DIGEST: Final = re.compile(rb"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """What a commit did."""

    index: Index
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


def create_store(root: Path) -> None:
    """Write the index of an empty store in the nested layout, and what git must know of it.

    Raises:
        StoreIo: There is an index already, or the disk refuses.
    """
    if os.path.lexists(absolute_path(root) / INDEX_NAME):
        raise StoreIo(f"there is a store already: {root / INDEX_NAME}")
    with translate_errors(), Folder.reach(root, make=True) as folder:
        make_store(folder)


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

    def __init__(self, source: DirectorySource, layout: Layout) -> None:
        self._source = source
        self._layout = layout
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._pending = PendingChanges(self._source, self._layout)
        self._retreat: _Retreat | None = None

    def _start_anew_after_fork(self) -> None:
        """What was staged before a fork is the parent's, in a folder of the parent's."""
        if self._pid != os.getpid():
            self._start()

    def stage(self, change: Add | Remove | Pin, data: bytes = b"") -> None:
        """Remember a change, and put the bytes of a new fixture where they survive this process."""
        self._start_anew_after_fork()
        with translate_errors():
            self._pending.stage(change, data)

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
        if self._retreat is not None:
            # If the disk still refuses, the next writer undoes it and keeps the answers, abandoned.
            with suppress(OSError, StoreIo), lock_store(self._source, self._layout) as store:
                self._resume_retreat(store, self._retreat)
            self._retreat = None
        self._pending.discard()

    def abandon(self) -> None:
        """Leave what is staged to whoever adopts it, as if this process had died."""
        self._start_anew_after_fork()
        self._retreat = None  # the next writer undoes it
        self._pending.abandon()

    @pause_gc()
    def commit(self) -> CommitSummary:
        """Make the staged changes; see :meth:`Store.commit`."""
        self._start_anew_after_fork()
        with translate_errors():
            if not self._pending:
                self.discard()
                return CommitSummary(Index() if self._source.is_new else self._read_index()[0])
            if self._retreat is not None:
                with lock_store(self._source, self._layout) as store:
                    self._resume_retreat(store, self._retreat)
            self._pending.sync()  # before the lock, so that nobody waits for our disk
            with lock_store(self._source, self._layout) as store:
                store.recover()
                store.clean_staging()
                index, index_bytes = self._read_index()
                changes = plan_changes(index, self._pending.changes, self._read_said, self._layout)
                if not changes.is_empty:
                    self._apply(store, changes, index_bytes)
            self.discard()
        return CommitSummary(
            changes.index,
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
    ) -> None:
        """Put another index in place over the same files, some of them with their bytes put right.

        Args:
            index: The new index; every file it names is there.
            expected: The index it was planned from, ``None`` for none.
            mended: Files to be written first, with the bytes that the index lists.
            removed: Files to be removed afterwards, none of which the index names.

        Raises:
            StoreIo: The index is another one by now, or the disk refused.
        """
        with translate_errors(), lock_store(self._source, self._layout) as store:
            store.recover()
            if store.read_index() != expected:
                raise StoreIo("the store changed in the meantime; look again and then repeat the command")
            if expected is None:
                store.complete_attributes()
            for path, data in mended.items():
                store.put_file(path, data)
            vouched = set(_DIGEST.findall(expected or b""))
            # Of files that nobody vouched for, nobody has promised yet that they are durable.
            store.sync_files(row.path for row in index.rows if row.blake3.encode() not in vouched)
            new_index = _index_bytes(index)
            if new_index == expected and not removed:
                return
            journal = store.open_journal(
                Journal(
                    old_index=blake3_hex(expected or b""),
                    new_index=blake3_hex(new_index),
                    removed=tuple(removed),
                )
            )
            store.put_index(new_index)
            store.finish(journal)

    def _apply(self, store: LockedStore, changes: Changes, old_index: bytes) -> None:
        new_index = _index_bytes(changes.index)
        names = self._pending.names
        staged = {change.row.path: names[change.row.path] for change in changes.added}
        journal = store.open_journal(
            Journal(
                old_index=blake3_hex(old_index),
                new_index=blake3_hex(new_index),
                added=tuple(staged),
                removed=tuple(row.path for row in changes.removed),
                overwriting=tuple(change.row.path for change in changes.added if change.overwrite),
            )
        )
        try:
            if self._pending.session is not None:
                store.place_files(self._pending.session, staged)
            store.put_index(new_index)
        except BaseException:
            # The old set, at once if the disk lets us, else when the next writer comes.
            self._retreat = _Retreat(journal, staged, old_index)
            with suppress(OSError, StoreIo):
                self._resume_retreat(store, self._retreat)
            raise
        # From here on it is committed. What cannot be cleaned up now, the next writer cleans up.
        with suppress(OSError, StoreIo, Untrusted):
            store.finish(journal)

    def _resume_retreat(self, store: LockedStore, retreat: _Retreat) -> None:
        """Take a failed commit back, or see that another writer has done so."""
        session = self._pending.session
        if store.journal() == retreat.journal:
            store.take_back(retreat.journal, session, retreat.staged, retreat.old_index)
        self._retreat = None
        if session is None:
            return
        gone = {name for name in retreat.staged.values() if not session.folder.has_file(name)}
        if gone:  # the other writer cannot know that we live, and left them to whoever adopts them
            self._pending.forget(gone)
            raise StoreIo("another writer undid the commit that failed; adopt_abandoned() has its answers")

    def _read_index(self) -> tuple[Index, bytes]:
        """The index as it is now. One by ``crtx-llm`` has no keys; the first commit gives it some."""
        index, data = read_index(self._source)
        if findings := trust.trust_rows(index, self._layout):
            raise FixtureIntegrityFailed(findings)
        if any(row.prompt_hash is None for row in index.fixtures):
            keys = [read_fixture(self._source, row)[0].key for row in index.fixtures]
            rows = [FixtureRow(*row[:2], *key) for row, key in zip(index.fixtures, keys, strict=True)]
            index = Index(rows, index.exchanges, index.header, index.scoped)
        return index, data

    def _read_said(self, row: Row) -> Said:
        if isinstance(row, ExchangeRow) or not (isinstance(row, FixtureRow) or row.is_fixture):
            return said_by_exchange(read_exchange(self._source, row))
        return said_by(read_fixture(self._source, row)[0])


def _index_bytes(index: Index) -> bytes:
    data = render_index(index).encode()
    if len(data) > trust.MAX_INDEX_BYTES:
        raise StoreIo(f"the index would be larger than {trust.MAX_INDEX_BYTES} bytes, which no reader takes")
    return data
