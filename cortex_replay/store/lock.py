"""A store whose lock we hold: the steps that a commit is made of, and the recovery of one that was cut short.

* A commit: the journal, naming every file that will come or go; the files, each durable before it gets its
  name; the index, which is the moment of the commit; then the files that nobody lists any more go; then the
  journal is closed. Each step is durable before the next.
* Whoever takes the lock next and finds the journal open finishes that commit if its index is in place, and
  otherwise undoes it: the answers go back to staging, so even those are not lost.
* Nothing is ever deleted that the present index names: somebody may have checked out another one. Nothing is
  touched that is no fixture, or that no journal of this user's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from cortex_replay.disk import PRIVATE
from cortex_replay.errors import StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import trust
from cortex_replay.store.check import read_index
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.files import FixtureFiles, is_fixture_path, name_of
from cortex_replay.store.git_attributes import complete_attributes
from cortex_replay.store.journal import (
    JOURNAL_NAME,
    MAX_JOURNAL_BYTES,
    Journal,
    parse_journal,
    render_journal,
)
from cortex_replay.store.marks import user_marker
from cortex_replay.store.paths import EXCHANGES_FOLDER, INDEX_NAME
from cortex_replay.store.staging import Session, Staging
from cortex_replay.store.state import State, describe_foreign_journal, is_foreign, lock_state, refusal_of
from cortex_replay.store.trust import Layout, Untrusted

__all__ = ["LockedStore", "lock_store", "staged_kind"]


class LockedStore:
    """What may be done while nobody else may."""

    def __init__(self, state: State, source: DirectorySource, layout: Layout) -> None:
        self.state = state.folder
        self._root = state.root
        self._source = source
        self._layout = layout
        self._marker = user_marker()

    def open_session(self) -> Session:
        """A folder of our own in staging, in place of those of the dead that had nothing to lose."""
        self.clean_staging()
        return Session.create(self.state, self._marker)

    def clean_staging(self) -> None:
        """Remove the folders of runs that died with nothing to lose."""
        staging = Staging.of(self.state, self._marker)
        if staging is not None:
            with staging:
                staging.clean()

    def read_index(self) -> bytes | None:
        """The index, or ``None`` if there is none. What cannot be read is not absent."""
        data = self._source.read(INDEX_NAME, trust.MAX_INDEX_BYTES)
        if isinstance(data, bytes):
            return data
        if data.code == "missing":
            return None
        raise refusal_of(data)

    def put_index(self, data: bytes) -> None:
        """Put another index in place: all of it, at one instant."""
        self._root.replace(INDEX_NAME, data, "index.tmp", via=self.state)

    def complete_attributes(self) -> None:
        """Tell git what it must know of a store."""
        complete_attributes(self._root)

    def put_file(self, path: str, data: bytes) -> None:
        """Put a file in place, with these bytes."""
        with FixtureFiles(self._root) as files:
            files.folder_of(path, make=True).replace(name_of(path), data, "file.tmp", via=self.state)

    def sync_files(self, paths: Iterable[str]) -> None:
        """Make files durable, whoever wrote them, and their names."""
        paths = sorted(paths)
        with FixtureFiles(self._root) as files:
            for path in paths:
                files.folder_of(path).sync_file(name_of(path))
            files.sync_folders(paths)

    def place_files(self, session: Session, staged: Mapping[str, str]) -> None:
        """Give staged files their names: by path, what each is called in staging."""
        with FixtureFiles(self._root) as files:
            for path in sorted(staged):
                session.folder.rename(staged[path], files.folder_of(path, make=True), name_of(path))
            files.sync_folders(staged)

    def journal(self) -> Journal:
        """The journal, if it is this user's.

        Raises:
            StoreIo: Somebody else left one open, and nobody can tell what it is about.
        """
        try:
            journal = parse_journal(self.state.read(JOURNAL_NAME, MAX_JOURNAL_BYTES))
        except FileNotFoundError:
            return Journal()
        if is_foreign(journal, self._marker):
            raise StoreIo(describe_foreign_journal(self.state.path))
        return journal if journal.is_marked_by(self._marker) else Journal()

    def open_journal(self, journal: Journal) -> Journal:
        """Say what is about to happen; gives the journal as it is now."""
        journal = replace(journal, counter=self.journal().counter + 1, is_open=True)
        self._write_journal(journal)
        return journal

    def close_journal(self, journal: Journal) -> None:
        """Say that it has happened."""
        self._write_journal(replace(journal, counter=journal.counter + 1, is_open=False))

    def _write_journal(self, journal: Journal) -> None:
        data = render_journal(journal, self._marker)
        self.state.replace(JOURNAL_NAME, data, f"{JOURNAL_NAME}.tmp", mode=PRIVATE)

    def finish(self, journal: Journal) -> None:
        """The index of this commit is in place: what it dropped may go."""
        if journal.removed:
            listed = {row.path for row in read_index(self._source)[0].rows}
            self._clear([path for path in journal.removed if path not in listed])
        self.close_journal(journal)

    def take_back(
        self, journal: Journal, session: Session | None, staged: Mapping[str, str], old_index: bytes
    ) -> None:
        """Make a commit of ours undone that failed before it was durable; its answers stay staged."""
        present = self.read_index()
        if present is not None and blake3_hex(present) == journal.new_index:
            self.put_index(old_index)
        if session is not None:  # else nothing came, and something was to go
            with FixtureFiles(self._root) as files:
                moved = [path for path in sorted(journal.added) if not session.folder.has_file(staged[path])]
                for path in moved:
                    files.folder_of(path).rename(name_of(path), session.folder, staged[path])
                files.sync_folders(moved)
        self.close_journal(journal)

    def recover(self) -> None:
        """Bring a commit that was cut short to one of its two ends."""
        journal = self.journal()
        if not journal.is_open:
            return
        # What is read here may be what a dead writer did and never made durable. Nothing may be built
        # on it before it is, or a loss of power could take back what a decision was based on.
        self.state.sync()
        self._root.sync()
        with FixtureFiles(self._root) as files:
            files.sync_folders(
                path for path in (*journal.added, *journal.removed) if is_fixture_path(path, self._layout)
            )
        data = self.read_index()
        if data is not None and blake3_hex(data) == journal.new_index:
            self.finish(journal)
            return
        journal = self.open_journal(journal)
        self._undo(journal, data)
        self.close_journal(journal)

    def _undo(self, journal: Journal, index: bytes | None) -> None:
        """Take back the files that came, unless the present index, whatever it is, names them."""
        listed: set[str] = set()
        if index is not None:
            with suppress(Untrusted):
                listed = {row.path for row in trust.trust_index(index).rows}
        with FixtureFiles(self._root) as files:
            unlisted = [path for path in sorted(journal.added) if path not in listed]
            present = [path for path in unlisted if is_fixture_path(path, self._layout) and files.has(path)]
            if not present:
                return
            session = Session.create(self.state, self._marker)
            try:
                for path in present:
                    kind = staged_kind(path, self._layout, path in journal.overwriting)
                    session.take(files.folder_of(path), name_of(path), kind)
                session.folder.sync()
                files.sync_folders(present)
            finally:
                session.abandon()

    def _clear(self, paths: Iterable[str]) -> None:
        paths = sorted(path for path in paths if is_fixture_path(path, self._layout))
        with FixtureFiles(self._root) as files:
            for path in paths:
                files.remove(path)
            files.sync_folders(paths)  # gone for good before the journal stops excusing them
            files.remove_empty_folders(paths)


@contextmanager
def lock_store(source: DirectorySource, layout: Layout) -> Iterator[LockedStore]:
    """A store that nobody else changes meanwhile."""
    with lock_state(source) as state:
        yield LockedStore(state, source, layout)


def staged_kind(path: str, layout: Layout, overwrite: bool) -> str:
    """How a staged file is to be taken, as the end of its name."""
    kind = "replace" if overwrite else "add"
    is_exchange = path.startswith(f"{layout.folder}/{EXCHANGES_FOLDER}/".removeprefix("/"))
    return f"{kind}-exchange" if is_exchange else kind
