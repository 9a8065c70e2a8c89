"""Changing a store: staging, the lock, the commit, and the recovery of one that was cut short.

What holds at every instant, also after ``kill -9`` and after a loss of power: a reader opens the
set from before the commit or the set from after it, and what was committed is never lost.

* Staged fixtures wait in a folder of this process, outside ``fixtures/`` and outside git.
* A commit, under ``flock``: the journal, naming every file that will come or go; the files, each
  durable before it gets its name; the index, which is the moment of the commit; then the files
  that nobody lists any more go; then the journal is closed. Each step is durable before the next.
* Whoever takes the lock next and finds the journal open finishes that commit if its index is in
  place, and otherwise undoes it: the answers go back to staging, so even those are not lost.
* Nothing is ever deleted that the present index names: somebody may have checked out another one.
"""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from cortex_replay.errors import Finding, FixtureIntegrityFailed, StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import durable, trusted
from cortex_replay.store.changes import (
    Add,
    Changes,
    Essence,
    Remove,
    essence_of,
    essence_of_exchange,
    new_exchange_row,
    new_row,
    plan_changes,
)
from cortex_replay.store.check import read_exchange, read_fixture
from cortex_replay.store.collector import without_collector
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import parse_exchange
from cortex_replay.store.fixture import Fixture, FixtureError
from cortex_replay.store.index import FixtureRow, Index, Row, render_index
from cortex_replay.store.journal import (
    JOURNAL_PATH,
    MAX_JOURNAL_BYTES,
    STATE_FOLDER,
    Journal,
    parse_journal,
    render_journal,
)
from cortex_replay.store.paths import EXCHANGES_FOLDER, INDEX_NAME, NESTED_FOLDER, path_problem
from cortex_replay.store.trusted import Layout, Untrusted

try:
    import fcntl
except ImportError:  # Windows: reading works, writing says that it does not
    fcntl = None  # type: ignore[assignment]

__all__ = ["CommitSummary", "Leftovers", "StoreWriter", "create_store"]

_OWNER: Final = "owner"
_DIGEST: Final = re.compile(rb"[0-9a-f]{64}")
_STAGED: Final = re.compile(r"\d+\.(?:add|replace)(?:-exchange)?")


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """What a commit did."""

    index: Index
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    yielded: int = 0
    """How many answers gave way to others that are recorded under the same key."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What runs that died before they committed have left in staging."""

    sessions: int = 0
    answers: int = 0


def create_store(root: Path) -> None:
    """Write the index of an empty store in the nested layout.

    Raises:
        StoreIo: There is an index already, or the disk refuses.
    """
    if (root / INDEX_NAME).exists() or (root / INDEX_NAME).is_symlink():
        raise StoreIo(f"there is a store already: {root / INDEX_NAME}")
    with _told():
        durable.make_folder(root.absolute() / NESTED_FOLDER)
        durable.create(root / INDEX_NAME, render_index(Index()).encode(), durable=True)
        durable.sync_folder(root)


class StoreWriter:
    """The writing half of one open store. Makes nothing on disk before the first change."""

    def __init__(self, source: DirectorySource, layout: Layout) -> None:
        self._source = source
        self._root = source.root
        self._layout = layout
        self._state = source.root / STATE_FOLDER
        self._pid = os.getpid()
        self._session: _Session | None = None
        self._retreat: tuple[Journal, dict[str, str], bytes] | None = None
        """A commit of ours that failed and could not be taken back yet."""
        self._doubtful: set[str] = set()
        """Staged files whose last ``fsync`` is not known to have succeeded."""
        self._wanted: list[tuple[Add | Remove, str]] = []

    def stage(self, change: Add | Remove, data: bytes = b"") -> None:
        """Remember a change, and put the bytes of a new fixture where they survive this process."""
        self._start_anew_after_fork()
        with _told():
            staged = ""
            if isinstance(change, Add):
                if self._session is None:
                    with self._locked():
                        self._session = self._open_session()
                staged = self._session.write(data, _kind(change.row.path, self._layout, change.overwrite))
            self._wanted.append((change, staged))

    @without_collector()
    def commit(self) -> CommitSummary:
        """Make the staged changes; see :meth:`Store.commit`."""
        self._start_anew_after_fork()
        if not self._wanted:
            self.discard()
            return CommitSummary(self._present_index()[0])
        with _told():
            if self._retreat is not None:
                with self._locked():
                    self._resume_retreat(*self._retreat)
            self._sync_staged()  # before the lock, so that nobody waits for our disk
            with self._locked():
                self._recover()
                self._clean_staging()
                index, index_bytes = self._present_index()
                changes = plan_changes(index, [change for change, _ in self._wanted], self._essence)
                if not changes.is_empty:
                    self._apply(changes, index_bytes)
            self.discard()
        return CommitSummary(
            changes.index,
            [change.row.path for change in changes.added],
            [row.path for row in changes.removed],
            len(changes.yielded),
        )

    def _sync_staged(self) -> None:
        """Make every staged file durable.

        A file whose ``fsync`` failed is written anew at the next attempt: the system may have dropped
        its pages and would call a second ``fsync`` of it a success.
        """
        for position, (change, staged) in enumerate(self._wanted):
            if not isinstance(change, Add):
                continue
            if staged in self._doubtful:
                staged = self._written_anew(change, staged)  # noqa: PLW2901
                self._wanted[position] = (change, staged)
            self._doubtful.add(staged)
            durable.sync(staged)
            self._doubtful.discard(staged)

    def _written_anew(self, change: Add, staged: str) -> str:
        data = Path(staged).read_bytes()
        if self._session is None or blake3_hex(data) != change.row.blake3:
            raise StoreIo("the disk lost a staged answer; record it again")
        path = self._session.write(data, Path(staged).suffix[1:])
        Path(staged).unlink()
        self._doubtful.discard(staged)
        return path

    def put_index(self, index: Index, expected: bytes | None, mended: Mapping[str, bytes]) -> None:
        """Put another index in place over the same files, some of them with their bytes put right.

        Args:
            index: The new index; every file it names is there.
            expected: The index it was planned from, ``None`` for none.
            mended: Files to be rewritten first, with the bytes that the index lists.

        Raises:
            StoreIo: The index is another one by now, or the disk refused.
        """
        with _told(), self._locked():
            self._recover()
            if self._read(INDEX_NAME, trusted.MAX_INDEX_BYTES) != expected:
                raise StoreIo("the store changed in the meantime; look again and then repeat the command")
            for path, data in mended.items():
                durable.replace_durably(self._root / path, data, self._state / "file.tmp")
            vouched = set(_DIGEST.findall(expected or b""))
            # Of files that nobody vouched for, nobody has promised yet that they are durable.
            new = [self._root / row.path for row in index.rows if row.blake3.encode() not in vouched]
            for file in new:
                durable.sync(file)
            for folder in {file.parent for file in new}:
                durable.sync_folder(folder)
            new_index = _within_bounds(render_index(index).encode())
            if new_index == expected:
                return
            journal = Journal(
                self._journal().counter + 1, True, blake3_hex(expected or b""), blake3_hex(new_index)
            )
            self._write_journal(journal)
            durable.replace_durably(self._root / INDEX_NAME, new_index, self._state / "index.tmp")
            self._close_journal(journal)

    def discard(self) -> None:
        """Forget the staged changes and remove their files."""
        self._start_anew_after_fork()
        if self._retreat is not None:
            # If the disk still refuses, the next writer undoes it and keeps the answers as leftovers.
            with suppress(OSError, StoreIo), self._locked():
                self._resume_retreat(*self._retreat)
            self._retreat = None
        self._doubtful.clear()
        self._wanted.clear()
        if self._session is not None:
            self._session.close()
            self._session = None

    def leave(self) -> None:
        """Leave what is staged to whoever adopts it, as if this process had died."""
        self._start_anew_after_fork()
        self._doubtful.clear()
        self._wanted.clear()
        if self._session is not None:
            self._session.abandon()
            self._session = None

    def _start_anew_after_fork(self) -> None:
        """What was staged before a fork is the parent's, in a folder of the parent's."""
        if self._pid != os.getpid():
            self._pid, self._session, self._wanted, self._retreat = os.getpid(), None, [], None
            self._doubtful = set()

    def leftovers(self) -> Leftovers:
        """What dead sessions hold; takes no lock and changes nothing."""
        with _told():
            dead = [session for session in self._sessions() if not _is_alive(session)]
            counts = [len(_staged_files(session)) for session in dead]
        return Leftovers(sum(map(bool, counts)), sum(counts))

    def adopt_leftovers(self) -> int:
        """Stage what dead sessions hold, and clean up after them."""
        self._start_anew_after_fork()
        adopted = 0
        with _told(), self._locked():
            self._recover()
            self._clean_staging()
            dead = [session for session in self._sessions() if not _is_alive(session)]
            if dead and self._session is None:
                self._session = self._open_session()
            for session in dead:
                for path in _staged_files(session):
                    self._adopt(path)
                    adopted += 1
                shutil.rmtree(session)
        return adopted

    def _adopt(self, path: Path) -> None:
        data = path.read_bytes()
        row: Row
        try:
            if path.suffix.endswith("-exchange"):
                exchange = parse_exchange(data)
                row, essence = new_exchange_row(self._layout, exchange, data), essence_of_exchange(exchange)
            else:
                fixture = trusted.trust_fixture(FixtureRow(path.name, blake3_hex(data)), data)
                row, essence = new_row(self._layout, fixture.key, data), essence_of(fixture)
        except (Untrusted, FixtureError):
            return  # a write that was cut short
        # Whatever was committed since then has been seen by somebody; this has not.
        self.stage(Add(row, essence, path.suffix.startswith(".replace"), yields=True), data)

    # The commit and its recovery, all under the lock.

    def _apply(self, changes: Changes, old_index: bytes) -> None:
        new_index = _within_bounds(render_index(changes.index).encode())
        journal = Journal(
            self._journal().counter + 1,
            True,
            blake3_hex(old_index),
            blake3_hex(new_index),
            tuple(change.row.path for change in changes.added),
            tuple(row.path for row in changes.removed),
            tuple(change.row.path for change in changes.added if change.overwrite),
        )
        staged = {change.row.path: path for change, path in self._wanted if isinstance(change, Add)}
        self._write_journal(journal)
        try:
            folders: set[Path] = set()
            for change in changes.added:
                path = change.row.path
                folder = self._root / path.rpartition("/")[0]
                if folder not in folders:
                    durable.make_folder(folder)
                    folders.add(folder)
                os.replace(staged[path], f"{self._root}{os.sep}{path}")  # noqa: PTH105 - thousands of times
            for folder in folders:
                durable.sync_folder(folder)
            durable.replace_durably(self._root / INDEX_NAME, new_index, self._state / "index.tmp")
        except BaseException:
            # The old set, at once if the disk lets us, else when the next writer comes.
            self._retreat = (journal, staged, old_index)
            with suppress(OSError, StoreIo):
                self._resume_retreat(*self._retreat)
            raise
        # From here on it is committed. What cannot be cleaned up now, the next writer cleans up.
        with suppress(OSError, StoreIo):
            self._finish(journal)

    def _resume_retreat(self, journal: Journal, staged: dict[str, str], old_index: bytes) -> None:
        """Take a failed commit back, or see that another writer has done so."""
        if self._journal() == journal:
            self._take_back(journal, staged, old_index)
        self._retreat = None
        gone = {path for path in staged.values() if not Path(path).exists()}
        if gone:  # the other writer cannot know that we live, and left them to whoever adopts them
            self._wanted = [(change, path) for change, path in self._wanted if path not in gone]
            raise StoreIo("another writer undid the commit that failed; adopt_leftovers() has its answers")

    def _take_back(self, journal: Journal, staged: dict[str, str], old_index: bytes) -> None:
        """Make a commit undone that failed before it was durable; its answers stay staged here."""
        present = self._read(INDEX_NAME, trusted.MAX_INDEX_BYTES)
        if present is not None and blake3_hex(present) == journal.new_index:
            durable.replace_durably(self._root / INDEX_NAME, old_index, self._state / "index.tmp")
        folders: set[Path] = set()
        for path in journal.added:
            if not Path(staged[path]).exists():
                (self._root / path).replace(staged[path])
                folders.add((self._root / path).parent)
        for folder in folders:
            durable.sync_folder(folder)
        self._close_journal(journal)

    def _finish(self, journal: Journal) -> None:
        """The index of this commit is in place: what it dropped may go."""
        if journal.removed:
            listed = {row.path for row in self._present_index()[0].rows}
            self._clear(path for path in journal.removed if path not in listed)
        self._close_journal(journal)

    def _recover(self) -> None:
        """Bring a commit that was cut short to one of its two ends."""
        journal = self._journal()
        if not journal.is_open:
            return
        # What is read here may be what a dead writer did and never made durable. Nothing may be built
        # on it before it is, or a loss of power could take back what a decision was based on.
        durable.sync_folder(self._state)
        durable.sync_folder(self._root)
        paths = [path for path in (*journal.added, *journal.removed) if path_problem(path) is None]
        for folder in {(self._root / path).parent for path in paths}:
            if folder.is_dir():
                durable.sync_folder(folder)
        data = self._read(INDEX_NAME, trusted.MAX_INDEX_BYTES)
        if data is not None and blake3_hex(data) == journal.new_index:
            self._finish(journal)
            return
        journal = replace(journal, counter=journal.counter + 1)
        self._write_journal(journal)
        self._undo(journal, data)
        self._close_journal(journal)

    def _undo(self, journal: Journal, index: bytes | None) -> None:
        """Take back the files that came, unless the present index, whatever it is, names them."""
        listed: set[str] = set()
        if index is not None:
            with suppress(Untrusted):
                listed = {row.path for row in trusted.trust_index(index).rows}
        unlisted = [path for path in journal.added if path not in listed and path_problem(path) is None]
        present = [path for path in unlisted if (self._root / path).is_file()]
        if not present:
            return
        session = self._open_session()
        try:
            for path in present:
                session.take(self._root / path, _kind(path, self._layout, path in journal.overwriting))
            durable.sync_folder(session.folder)
            for folder in {(self._root / path).parent for path in present}:
                durable.sync_folder(folder)
        finally:
            session.abandon()

    def _clear(self, paths: Iterator[str]) -> None:
        folders: set[Path] = set()
        for path in paths:
            if path_problem(path) is None:
                with suppress(FileNotFoundError):
                    (self._root / path).unlink()
                folders.add((self._root / path).parent)
        for folder in folders:
            while not folder.is_dir():
                folder = folder.parent  # noqa: PLW2901 - an earlier attempt removed it when it was empty
            durable.sync_folder(folder)  # gone for good before the journal stops excusing them
        for folder in folders:
            if folder.name and folder.parent.name == "fixtures":
                with suppress(OSError):
                    folder.rmdir()  # only if it is empty

    def _close_journal(self, journal: Journal) -> None:
        self._write_journal(replace(journal, counter=journal.counter + 1, is_open=False))

    def _write_journal(self, journal: Journal) -> None:
        durable.replace_durably(
            self._root / JOURNAL_PATH, render_journal(journal), self._state / "journal.tmp"
        )

    def _read(self, path: str, max_bytes: int) -> bytes | None:
        """A file's content, or ``None`` if it is not there. What cannot be read is not absent."""
        data = self._source.read(path, max_bytes)
        if isinstance(data, bytes):
            return data
        if data.code == "missing":
            return None
        raise _refusal(data)

    def _journal(self) -> Journal:
        data = self._read(JOURNAL_PATH, MAX_JOURNAL_BYTES)
        return Journal() if data is None else parse_journal(data)

    def _present_index(self) -> tuple[Index, bytes]:
        data = self._source.read(INDEX_NAME, trusted.MAX_INDEX_BYTES)
        if isinstance(data, Finding):
            raise _refusal(data)
        try:
            index = trusted.trust_index(data)
        except Untrusted as error:
            raise FixtureIntegrityFailed([error.finding]) from None
        if findings := trusted.trust_rows(index, self._layout):
            raise FixtureIntegrityFailed(findings)
        return self._with_keys(index), data

    def _with_keys(self, index: Index) -> Index:
        """An index by ``crtx-llm`` has no keys; the first commit gives it some."""
        if all(row.prompt_hash is not None for row in index.fixtures):
            return index
        rows = [FixtureRow(row.path, row.blake3, *self._recorded(row).key) for row in index.fixtures]
        return Index(rows, index.exchanges, index.header)

    def _essence(self, row: Row) -> Essence:
        if isinstance(row, FixtureRow):
            return essence_of(self._recorded(row))
        try:
            return essence_of_exchange(read_exchange(self._source, row))
        except Untrusted as error:
            raise _refusal(error.finding) from None

    def _recorded(self, row: FixtureRow) -> Fixture:
        try:
            return read_fixture(self._source, row)[0]
        except Untrusted as error:
            raise _refusal(error.finding) from None

    # The lock and the sessions.

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time. The kernel drops the lock when a process dies; the file stays."""
        if fcntl is None:
            raise StoreIo("recording needs Linux or macOS; on Windows a store can be read and verified")
        durable.make_folder(self._state)
        with suppress(FileExistsError):
            # It ignores itself, so that nobody can commit it by accident.
            durable.create(self._state / ".gitignore", b"*\n")
        with (self._state / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _open_session(self) -> _Session:
        """A folder of our own in staging; under the lock, so that nobody takes it for a dead one's."""
        staging = self._state / "staging"
        durable.make_folder(staging)
        self._clean_staging()
        return _Session.create(staging)

    def _clean_staging(self) -> None:
        """Remove the folders of runs that died with nothing to lose."""
        for session in self._sessions():
            if not _is_alive(session) and not _staged_files(session):
                shutil.rmtree(session, ignore_errors=True)

    def _sessions(self) -> list[Path]:
        try:
            return sorted(path for path in (self._state / "staging").iterdir() if path.is_dir())
        except FileNotFoundError:
            return []


class _Session:
    """The staged files of one process, which holds a lock on one of them for as long as it lives."""

    def __init__(self, folder: Path, owner: int) -> None:
        self.folder = folder
        self._count = 0
        # A store that is dropped without a commit leaves its answers to whoever adopts them.
        self.abandon = weakref.finalize(self, os.close, owner)

    @classmethod
    def create(cls, staging: Path) -> _Session:
        number = 0
        while True:
            folder = staging / f"{os.getpid()}-{number}"
            try:
                folder.mkdir()
                break
            except FileExistsError:
                number += 1
        try:
            owner = os.open(folder / _OWNER, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(owner, fcntl.LOCK_EX)
            except BaseException:
                os.close(owner)
                raise
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(folder, owner)

    def write(self, data: bytes, kind: str) -> str:
        path = self._next(kind)
        durable.create(path, data)
        return path

    def take(self, path: Path, kind: str) -> None:
        path.replace(self._next(kind))

    def close(self) -> None:
        """Remove everything; nothing of it is wanted any more."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.abandon()

    def _next(self, kind: str) -> str:
        self._count += 1
        return f"{self.folder}{os.sep}{self._count}.{kind}"


def _refusal(finding: Finding) -> FixtureIntegrityFailed | StoreIo:
    """What a writer says of a file: a disk that fails is no sign of a changed store."""
    if finding.code == "unreadable":
        return StoreIo(f"{finding.path} {finding.reason}")
    return FixtureIntegrityFailed([finding])


def _kind(path: str, layout: Layout, overwrite: bool) -> str:
    """How a staged file is to be taken, as the end of its name."""
    kind = "replace" if overwrite else "add"
    is_exchange = path.startswith(f"{layout.folder}/{EXCHANGES_FOLDER}/".removeprefix("/"))
    return f"{kind}-exchange" if is_exchange else kind


def _within_bounds(index: bytes) -> bytes:
    if len(index) > trusted.MAX_INDEX_BYTES:
        raise StoreIo(
            f"the index would be larger than {trusted.MAX_INDEX_BYTES} bytes, which no reader takes"
        )
    return index


def _staged_files(session: Path) -> list[Path]:
    with suppress(FileNotFoundError):
        found = [path for path in session.iterdir() if _STAGED.fullmatch(path.name)]
        return sorted(found, key=lambda path: int(path.stem))
    return []


def _is_alive(session: Path) -> bool:
    try:
        with (session / _OWNER).open("rb") as owner:
            fcntl.flock(owner, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


@contextmanager
def _told() -> Iterator[None]:
    """What the system refuses, in words and as our error."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise StoreIo(f"the store cannot be written: {error.strerror or error}{where}") from error
