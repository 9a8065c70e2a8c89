"""The state folder of a store, which is a writer's alone: lock, journal, staging.

A repository may bring a folder of that name along. So it is opened from the store's root without following
a link, and refused unless it is a real folder that belongs to this user and that git knows nothing of.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final

from cortex_replay.disk import PRIVATE, PRIVATE_FOLDER, Folder, fcntl
from cortex_replay.errors import Finding, FixtureIntegrityFailed, StoreIo
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.git.repository import is_tracked
from cortex_replay.store.journal import JOURNAL_NAME, STATE_FOLDER, Journal, parse_journal
from cortex_replay.store.marks import Marker, known_marker
from cortex_replay.store.trust import Untrusted

__all__ = [
    "OBSTACLES",
    "State",
    "create_store",
    "describe_foreign_journal",
    "is_foreign",
    "lock_state",
    "open_root",
    "open_run",
    "open_state",
    "refusal_of",
    "state_problem",
    "translate_errors",
]

OBSTACLES: Final = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.EMLINK, errno.ENXIO)
"""What the system says when something else is there than should be."""
_TRACKED: dict[str, bool] = {}


@dataclass(frozen=True, slots=True)
class State:
    """A store that is open to be written: its root, and the state folder in it."""

    root: Folder
    folder: Folder


def refusal_of(finding: Finding) -> FixtureIntegrityFailed | StoreIo:
    """What a writer says of a file: a disk that fails is no sign of a changed store."""
    if finding.code == "unreadable":
        return StoreIo(f"{finding.path} {finding.reason}")
    return FixtureIntegrityFailed([finding])


@contextmanager
def translate_errors() -> Iterator[None]:
    """What the system refuses, in words and as our error; so is what a rule of trust refuses."""
    try:
        yield
    except Untrusted as error:
        raise refusal_of(error.finding) from None
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        advice = ""
        if error.errno in OBSTACLES:
            advice = ". A link or something else is in the way: look at it, then remove it"
        raise StoreIo(f"the store cannot be written: {error.strerror or error}{where}{advice}") from error


@contextmanager
def open_root(source: DirectorySource) -> Iterator[Folder]:
    """The root of a store, to be written.

    Raises:
        StoreIo: The way there leads through a link of the repository's.
    """
    try:
        root = Folder.reach(source.path, anchor=source.anchor)
    except OSError as error:
        if error.errno not in OBSTACLES:
            raise
        raise StoreIo(
            f"the store {source.path} is behind a link, so it can be read but not written; "
            f"if you trust the link, name the folder itself: {source.root}"
        ) from None
    with root:
        yield root


@contextmanager
def open_state(source: DirectorySource) -> Iterator[State]:
    """The state folder of a store, made where there is none; so is the store itself.

    Raises:
        StoreIo: What is there is not ours. Nothing was written.
    """
    if source.is_new:
        with suppress(FileExistsError):  # somebody was faster
            create_store(source)
        source.is_new = False
    with _open_state(source) as state:
        yield state


def create_store(source: DirectorySource) -> None:
    """Make an empty store where there is none, in the steps of a commit.

    Raises:
        FileExistsError: There is one.
        StoreIo: What is there is not ours. Nothing was written.
    """
    from cortex_replay.store.creation import make_store, refuse_index  # noqa: PLC0415 - most stores are there

    with Folder.reach(source.path, make=True, anchor=source.anchor) as root:
        refuse_index(root)  # before a state folder is made for nothing
    with _open_state(source) as state, _lock(state.folder):
        make_store(state.root, state.folder)


def _lock(state: Folder) -> AbstractContextManager[None]:
    """One at a time. Without locks (on Windows) nobody records, so two who make a store make the same one."""
    return nullcontext() if os.name == "nt" else state.lock("lock")


@contextmanager
def _open_state(source: DirectorySource) -> Iterator[State]:
    with open_root(source) as root:
        if problem := _problem_in(root, source):
            raise StoreIo(problem)
        _TRACKED.setdefault(root.path, False)  # from here on it is one that we made
        with root.make_folder(STATE_FOLDER, PRIVATE_FOLDER) as folder:
            folder.make_private()
            if folder.status(".gitignore") is None:
                # It ignores itself, so that nobody can commit it by accident.
                with _lock(folder):
                    folder.replace(".gitignore", b"*\n", "gitignore.tmp", mode=PRIVATE)
            yield State(root, folder)


def open_run(source: DirectorySource, name: str) -> Folder:
    """A folder in which the processes of one run meet."""
    with (
        translate_errors(),
        open_state(source) as state,
        state.folder.make_folder("runs", PRIVATE_FOLDER) as runs,
    ):
        return runs.make_folder(name, PRIVATE_FOLDER)


@contextmanager
def lock_state(source: DirectorySource) -> Iterator[State]:
    """One writer at a time."""
    if fcntl is None:
        raise StoreIo("recording needs Linux or macOS; on Windows a store can be read and verified")
    with open_state(source) as state, _lock(state.folder):
        yield state


def state_problem(source: DirectorySource) -> str | None:
    """Why nobody can write to the store as it is, if its state is why; for a reader."""
    try:
        with Folder.at(source.root) as root:
            problem = _problem_in(root, source)
    except OSError:
        return None
    if problem is None and is_foreign(parse_journal(source.read_journal()), known_marker()):
        return describe_foreign_journal(f"{source.root}{os.sep}{STATE_FOLDER}")
    return problem


def is_foreign(journal: Journal, marker: Marker | None) -> bool:
    """Whether somebody else says that a commit was cut short."""
    return journal.is_open and not journal.is_marked_by(marker)


def describe_foreign_journal(folder: str) -> str:
    """What there is to say of such a journal in a state folder."""
    return (
        f"{folder}{os.sep}{JOURNAL_NAME} tells of a commit that was cut short, but not of one of yours on "
        "this machine, so nobody acts on it: look at it, then remove it"
    )


def _problem_in(root: Folder, source: DirectorySource) -> str | None:
    status = root.status(STATE_FOLDER)
    if status is None:
        return None
    path = f"{source.root}{os.sep}{STATE_FOLDER}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is a link or no folder; it must be a real folder of yours: look at it, then remove it"
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return f"{path} belongs to another user; it must be yours: look at it, then remove it"
    if root.path not in _TRACKED:
        _TRACKED[root.path] = is_tracked(source.root, STATE_FOLDER)
    if _TRACKED[root.path]:
        return f"git tracks files in {path}, so they came with the repository: look at them, then remove them"
    return None
