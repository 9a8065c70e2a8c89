"""Staging: where the answers of a run wait for its commit, and what runs that died have left there.

Each run has a folder of its own, whose name carries the user's mark, and so does the name of each answer in
it. What carries none was put there by somebody else: it is neither taken over nor removed.
"""

from __future__ import annotations

import errno
import os
import re
import weakref
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final, Self

from cortex_replay.disk import PRIVATE, PRIVATE_FOLDER, Closing, Folder, fcntl
from cortex_replay.hashing import blake3_hex
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.journal import STATE_FOLDER
from cortex_replay.store.marks import Marker, known_marker
from cortex_replay.store.state import OBSTACLES, state_problem, translate_errors
from cortex_replay.store.trust import MAX_FIXTURE_BYTES

__all__ = ["FORM", "Abandoned", "Session", "Staging", "find_abandoned"]

_STAGING: Final = "staging"
_OWNER: Final = "owner"
_SESSION: Final = re.compile(r"(\d{1,10}-\d{1,9})-([0-9a-f]{32})")
_NO_FILE: Final = (errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.EINVAL, errno.ENXIO)
_STAGED: Final = re.compile(
    r"(\d{1,9})\.([0-9a-f]{32})\.((?:add|replace)(?:-exchange)?|more-\d{1,9}-\d{1,9}|note)"
)
_NOTE: Final = ".note"
FORM: Final = "form"
"""The end of the name of a file that a commit makes of others: no answer, and nothing to be taken over."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """What runs that died before they committed abandoned in staging."""

    sessions: int = 0
    answers: int = 0
    notes: int = 0
    """What they did besides: answers of others that were given, removals."""
    unmarked: int = 0
    """What is there besides: it does not carry this user's mark, so nobody takes it over."""


class Session:
    """The staged files of one process, which holds a lock on one of them for as long as it lives."""

    def __init__(self, name: str, folder: Folder, staging: Folder, owner: int, marker: Marker) -> None:
        self.name = name
        self.folder = folder
        self._staging = staging
        self._marker = marker
        self._count = 0
        # A store that is dropped without a commit leaves its answers to whoever adopts them.
        self.abandon = weakref.finalize(self, _release, owner, folder, staging)

    @classmethod
    def create(cls, state: Folder, marker: Marker) -> Session:
        """A folder of our own; under the lock, so that nobody takes it for a dead one's."""
        with ExitStack() as undo:
            staging = undo.enter_context(state.make_folder(_STAGING, PRIVATE_FOLDER))
            name, folder = _new_folder(staging, marker)
            undo.callback(_remove, staging, name)
            undo.enter_context(folder)
            owner = folder.open_private(_OWNER)
            undo.callback(os.close, owner)
            fcntl.flock(owner, fcntl.LOCK_EX)
            undo.pop_all()
        return cls(name, folder, staging, owner, marker)

    def write(self, data: bytes, kind: str) -> str:
        """Put an answer where it survives this process; gives its name."""
        name = self._next_name(kind, data)
        self.folder.create(name, data, mode=PRIVATE)
        return name

    def take(self, folder: Folder, name: str, kind: str) -> None:
        """Move a file here that a commit had put in its place."""
        data = folder.read(name, MAX_FIXTURE_BYTES + 1)
        folder.rename(name, self.folder, self._next_name(kind, data))

    def close(self) -> None:
        """Remove everything; nothing of it is wanted any more."""
        _remove(self._staging, self.name)
        self.abandon()

    def _next_name(self, kind: str, data: bytes) -> str:
        self._count += 1
        mark = self._marker.mark("answer", self.name, f"{self._count}", kind, blake3_hex(data))
        return f"{self._count}.{mark}.{kind}"


class Staging(Closing):
    """What all runs have staged, as far as one can see from outside of them."""

    def __init__(self, folder: Folder, marker: Marker | None) -> None:
        self._folder = folder
        self._marker = marker

    @classmethod
    def of(cls, state: Folder, marker: Marker | None) -> Self | None:
        """That of a state folder, if nobody has to make it first."""
        try:
            return cls(state.folder(_STAGING), marker)
        except FileNotFoundError:
            return None

    def abandoned(self) -> Abandoned:
        """What dead sessions hold."""
        marked = self._sessions()
        dead = [self._answers_of_dead(name) or [] for name in marked]
        counts = [count for names in dead if (count := sum(not name.endswith(_NOTE) for name in names))]
        notes = sum(map(len, dead)) - sum(counts)
        unmarked = [entry.name for entry in self._folder.entries() if entry.name not in marked]
        return Abandoned(len(counts), sum(counts), notes, sum(not self._is_alive(name) for name in unmarked))

    def clean(self) -> None:
        """Remove the folders of runs that died with nothing to lose."""
        for name in self._sessions():
            if self._answers_of_dead(name) == []:
                _remove(self._folder, name)

    def dead_sessions(self) -> list[str]:
        """The sessions that nobody will commit any more."""
        return [name for name in self._sessions() if self._answers_of_dead(name) is not None]

    def answers(self, session: str) -> Iterator[tuple[str, str, bytes]]:
        """What a session has staged, whole and with the mark of this user: number, how to take it, bytes."""
        with self._folder.folder(session) as folder:
            for name in _answer_names(folder):
                number, mark, kind = name.split(".")
                try:
                    data = folder.read(name, MAX_FIXTURE_BYTES + 1)
                except OSError as error:
                    if error.errno not in _NO_FILE:
                        raise
                    continue
                # One without its mark was cut short when it was written, or put there by somebody else.
                if self._knows(mark, "answer", session, number, kind, blake3_hex(data)):
                    yield number, kind, data

    def spend(self, names: Iterable[str]) -> None:
        """Remove staged answers (session/name), for good."""
        by_session: defaultdict[str, list[str]] = defaultdict(list)
        for name in names:
            session, _, answer = name.partition("/")
            if _SESSION.fullmatch(session) and _STAGED.fullmatch(answer):
                by_session[session].append(answer)
        for session, answers in by_session.items():
            with suppress(FileNotFoundError), self._folder.folder(session) as folder:
                for answer in answers:
                    with suppress(FileNotFoundError):
                        folder.unlink(answer)
                folder.sync()

    def remove(self, session: str) -> None:
        """Remove a session of ours, with all that is in it."""
        self._folder.remove_tree(session)

    def close(self) -> None:
        """Close the handle."""
        self._folder.close()

    def _sessions(self) -> list[str]:
        """The folders that carry the mark of this user."""
        found = [(entry.name, _SESSION.fullmatch(entry.name)) for entry in self._folder.entries()]
        marked = [name for name, match in found if match and self._knows(match[2], "session", match[1])]
        # In the order in which one process made them: the first to record an answer owns it.
        return sorted(marked, key=lambda name: tuple(map(int, name.split("-")[:2])))

    def _knows(self, mark: str, *parts: str) -> bool:
        return self._marker is not None and self._marker.knows(mark, *parts)

    def _answers_of_dead(self, session: str) -> list[str] | None:
        """The names of the answers in a session; ``None`` if its process lives."""
        try:
            with self._folder.folder(session) as folder:
                return None if _is_owned(folder) else _answer_names(folder)
        except FileNotFoundError:
            return []

    def _is_alive(self, name: str) -> bool:
        with suppress(OSError), self._folder.folder(name) as folder:
            return _is_owned(folder)
        return False


def find_abandoned(source: DirectorySource) -> Abandoned:
    """What runs that died abandoned in a store; takes no lock and changes nothing."""
    if source.is_new and not source.has_folder(STATE_FOLDER):
        return Abandoned()
    if state_problem(source):
        return Abandoned(unmarked=1)
    with translate_errors(), Folder.at(source.root) as root:
        try:
            with root.folder(STATE_FOLDER) as state:
                staging = Staging.of(state, known_marker())
        except FileNotFoundError:
            return Abandoned()
        except OSError as error:
            if error.errno not in OBSTACLES:
                raise
            return Abandoned(unmarked=1)
        if staging is None:
            return Abandoned()
        with staging:
            return staging.abandoned()


def _new_folder(staging: Folder, marker: Marker) -> tuple[str, Folder]:
    number = 0
    while True:
        plain = f"{os.getpid()}-{number}"
        name = f"{plain}-{marker.mark('session', plain)}"
        try:
            return name, staging.create_folder(name, PRIVATE_FOLDER)
        except FileExistsError:
            number += 1


def _answer_names(folder: Folder) -> list[str]:
    found = [entry.name for entry in folder.entries() if _STAGED.fullmatch(entry.name)]
    return sorted(found, key=lambda name: int(name.partition(".")[0]))


def _is_owned(folder: Folder) -> bool:
    try:
        owner = folder.open_plain(_OWNER)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(owner, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except AttributeError:  # pragma: no cover - Windows, where nobody stages anything
        return False
    finally:
        os.close(owner)
    return False


def _remove(staging: Folder, name: str) -> None:
    """Remove a session of ours; what cannot be removed now, a later writer removes."""
    with suppress(OSError):
        staging.remove_tree(name)


def _release(owner: int, folder: Folder, staging: Folder) -> None:
    os.close(owner)
    folder.close()
    staging.close()
