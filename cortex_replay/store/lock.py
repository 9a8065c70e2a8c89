"""A store whose lock we hold: the steps that a commit is made of, and the recovery of one that was cut short.

* A commit: the journal, naming every file that will come or go; the files, each durable before it gets its
  name; the index, which is the moment of the commit; then the files that nobody lists any more go; then the
  journal is closed. Each step is durable before the next.
* Shards cannot be replaced at one instant with the root. So the new ones wait in the state folder before the
  root names them, and are put in their places after it: a reader finds them here or there.
* Whoever takes the lock next and finds the journal open finishes that commit if its index is in place, and
  otherwise undoes it: the answers go back to staging, so even those are not lost. Of an answer that was
  written in another form, the staged file stays where it is until the commit is made.
* Nothing is ever deleted that the present index names: somebody may have checked out another one. Nothing is
  touched that is no fixture, or that no journal of this user's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import replace

from cortex_replay.disk import PRIVATE, PRIVATE_FOLDER
from cortex_replay.errors import StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import trust
from cortex_replay.store.creation import put_index
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.files import FixtureFiles, is_fixture_path, name_of
from cortex_replay.store.git.attributes import complete_attributes
from cortex_replay.store.index.shard_reading import read_root, read_shard, read_shards
from cortex_replay.store.index.shards import SHARD_NAMES, IndexFiles
from cortex_replay.store.journal import (
    JOURNAL_NAME,
    MAX_JOURNAL_BYTES,
    WAITING_FOLDER,
    Journal,
    parse_journal,
    render_journal,
)
from cortex_replay.store.marks import user_marker
from cortex_replay.store.paths import EXCHANGES_FOLDER, INDEX_NAME, SHARDS_FOLDER
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

    def put_index(self, files: IndexFiles) -> None:
        """Put another index in place: all of it, at one instant. Its shards get their places when the commit
        is finished."""
        new = {digest: files.shards[name] for name, digest in files.digests.items() if digest}
        if new:
            self._root.make_folder(SHARDS_FOLDER).close()  # what is in the way stops us now, not later
            with self.state.make_folder(WAITING_FOLDER, PRIVATE_FOLDER) as waiting:
                for digest, data in new.items():
                    waiting.unlink(digest)
                    waiting.create(digest, data, durable=True)
                waiting.sync()
        put_index(self._root, self.state, files.root)

    def has_place_for_shards(self) -> bool:
        """Whether the folder of the shards is free: a project may have another one of that name."""
        try:
            with self._root.folder(SHARDS_FOLDER) as folder:
                return not folder.entries()
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def present_shards(self) -> dict[str, str]:
        """By name, the hashes of what stands in the places of shards."""
        found: dict[str, str] = {}
        with suppress(FileNotFoundError), self._root.folder(SHARDS_FOLDER) as folder:
            for entry in folder.entries():
                name = entry.name.removesuffix(".toml")
                if name in SHARD_NAMES and name != entry.name and entry.is_file(follow_symlinks=False):
                    found[name] = blake3_hex(folder.read(entry.name, trust.MAX_INDEX_BYTES + 1))
        return found

    def complete_attributes(self, *, has_shards: bool = False, is_signed: bool = False) -> None:
        """Tell git what it must know of a store."""
        complete_attributes(self._root, self.state, has_shards=has_shards, is_signed=is_signed)

    def put_file(self, path: str, data: bytes) -> None:
        """Put a file in place, with these bytes."""
        with FixtureFiles(self._root) as files:
            files.folder_of(path, make=True).replace(name_of(path), data, "file.tmp", via=self.state)

    def put_beside(self, files: Mapping[str, bytes]) -> None:
        """Put files in place that stand beside the index."""
        for name, data in files.items():
            self._root.replace(name, data, "beside.tmp", via=self.state)

    def sync_files(self, paths: Iterable[str]) -> None:
        """Make files and their names durable, also those of others; what is kept elsewhere is so already."""
        paths = sorted(paths)
        with FixtureFiles(self._root) as files:
            if any(not files.has(path) for path in paths) and self._source.elsewhere:
                paths = [path for path in paths if files.has(path)]
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
        """Say that it has happened. What it was is of no use any more, and every reader would read it."""
        self._write_journal(Journal(journal.counter + 1))

    def _write_journal(self, journal: Journal) -> None:
        data = render_journal(journal, self._marker)
        self.state.replace(JOURNAL_NAME, data, f"{JOURNAL_NAME}.tmp", mode=PRIVATE)

    def finish(self, journal: Journal) -> None:
        """The index of this commit is in place: its shards get their places, and what it dropped may go."""
        if journal.shards:
            self._place_shards(journal)
        if journal.removed:
            listed = self._listed_paths(journal)
            self.remove_files([path for path in journal.removed if path not in listed])
        staging = Staging.of(self.state, self._marker) if journal.spent else None
        if staging is not None:
            with staging:
                staging.spend(journal.spent)
        self.close_journal(journal)
        self._clear_waiting()

    def _place_shards(self, journal: Journal) -> None:
        with self._root.make_folder(SHARDS_FOLDER) as folder:
            for name, digest in sorted(journal.shards.items()):
                file = f"{name}.toml"
                if name not in SHARD_NAMES:
                    continue
                if not digest:
                    folder.unlink(file)
                elif (data := self._source.read_waiting(digest)) and blake3_hex(data) == digest:
                    folder.replace(file, data, "index.tmp", via=self.state, durable=False)
            for name, digest in journal.shards.items():
                if digest and folder.has_file(f"{name}.toml"):
                    folder.sync_file(f"{name}.toml")
            folder.sync()
        if "" in journal.shards.values():
            with suppress(OSError):  # there are others
                self._root.remove_folder(SHARDS_FOLDER)

    def _listed_paths(self, journal: Journal) -> set[str]:
        """The files that the present index names; of the one that a commit made, as far as it touched any."""
        root, data = read_root(self._source)
        shards = root.shards
        if blake3_hex(data) == journal.new_index:
            # Rows that name one file stand in one shard, so no other shard names what this commit dropped.
            shards = [shard for shard in shards if shard.name in journal.shards]
        return {row.path for index in (root, *read_shards(self._source, shards)) for row in index.rows}

    def _clear_waiting(self) -> None:
        """Remove the shards that wait for nothing any more; those of a commit that died, too."""
        with suppress(FileNotFoundError):
            with self.state.folder(WAITING_FOLDER) as waiting:
                for entry in waiting.entries():
                    waiting.unlink(entry.name)
            self.state.remove_folder(WAITING_FOLDER)

    def take_back(
        self, journal: Journal, session: Session | None, staged: Mapping[str, str], old_index: bytes
    ) -> None:
        """Make a commit of ours undone that failed before it was durable; its answers stay staged."""
        present = self.read_index()
        if present is not None and blake3_hex(present) == journal.new_index:
            put_index(self._root, self.state, old_index)
        if session is not None:  # else nothing came, and something was to go
            with FixtureFiles(self._root) as files:
                moved = [path for path in sorted(journal.added) if not session.folder.has_file(staged[path])]
                for path in moved:
                    files.folder_of(path).rename(name_of(path), session.folder, staged[path])
                files.sync_folders(moved)
        self.close_journal(journal)
        self._clear_waiting()

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
        self._clear_waiting()

    def _undo(self, journal: Journal, index: bytes | None) -> None:
        """Take back the files that came, unless the present index, whatever it is, names them."""
        listed = self._named_by(index, frozenset(journal.added)) if index is not None else set()
        with FixtureFiles(self._root) as files:
            unlisted = [path for path in sorted(journal.added) if path not in listed]
            present = [path for path in unlisted if is_fixture_path(path, self._layout) and files.has(path)]
            all_derived = frozenset(journal.derived)
            derived = [path for path in present if path in all_derived]
            for path in derived:  # what they were made of is still there
                files.remove(path)
            files.sync_folders(derived)
            present = [path for path in present if path not in all_derived]
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

    def _named_by(self, index: bytes, paths: AbstractSet[str]) -> set[str]:
        """Those of ``paths`` that an index names, as far as it can be read."""
        found: set[str] = set()
        with suppress(Untrusted):
            root = trust.trust_index(index)
            found = {row.path for row in root.rows} & paths
            for shard in root.shards:
                with suppress(Untrusted):
                    found |= {row.path for row in read_shard(self._source, shard).rows} & paths
        return found

    def remove_files(self, paths: Iterable[str]) -> None:
        """Remove plain files of the store for good, and folders with nothing left in them."""
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
