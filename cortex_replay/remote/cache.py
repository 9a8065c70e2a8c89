"""What was fetched, kept on this machine for all work trees of one user: files by their BLAKE3.

Any number of processes may use it at once. A file is made under another name and renamed, so that none is
ever there in part; it is hashed at each read, so that a damaged one is never served; and it may go at any
time, since it can be fetched again. Nothing that goes wrong here is an error of who asks: without a cache, it
is slower.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from cortex_replay.disk import PRIVATE, PRIVATE_FOLDER, Folder, fcntl
from cortex_replay.hashing import blake3_hex, is_digest
from cortex_replay.redact.logs import logger_of
from cortex_replay.remote.objects import MAX_OBJECT_BYTES

__all__ = ["Cache", "Usage", "object_name"]

logger = logger_of(__name__)

_OBJECTS: Final = "b3"
_USAGE: Final = "usage"
_LOCK: Final = "lock"
_TEMPORARY: Final = ".tmp-"
_DAY: Final = 24 * 60 * 60
_HOUR: Final = 60 * 60
_COUNTED: Final = 2**22
"""After how many bytes a process says what it wrote."""
_ROOM: Final = 0.9
"""How full a cache is left that was too full."""


def object_name(digest: str) -> str:
    """What an object is called, here and in a bucket.

    Raises:
        ValueError: That is no digest, and would be a path.
    """
    if not is_digest(digest):
        raise ValueError("no digest: an object is called by the 64 hex digits of its BLAKE3")
    return f"{_OBJECTS}/{digest[:2]}/{digest}"


class Usage(NamedTuple):
    """How much there is."""

    files: int
    size: int


class _Found(NamedTuple):
    used_at: float
    size: int
    name: str


class Cache:
    """A folder of this user's.

    Args:
        path: Where it is, or is to be; ``None`` for no cache.
        limit: How many bytes it may hold.
    """

    def __init__(self, path: Path | None, limit: int) -> None:
        self.path = path
        self.limit = limit
        self._uncounted = 0
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._notes: set[str] = set()

    @cached_property
    def _folder(self) -> Folder | None:
        """The folder, open, if it is there and fit for use; it is made by the first write."""
        return self._open(make=False)

    def get(self, digest: str) -> bytes | None:
        """A file, if it is there and has the bytes that it is called by."""
        folder = self._folder
        if folder is None:
            return None
        name = object_name(digest)
        try:
            data = folder.read(name, MAX_OBJECT_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._note(
                "damaged", "what is cached in %s cannot be read: %s", self.path, error.strerror or error
            )
            return None
        if blake3_hex(data) != digest:
            self._note("damaged", "a file in the cache %s was damaged; it is fetched again", self.path)
            with suppress(OSError):
                folder.unlink(name)
            return None
        self._touch(folder, name)
        return data

    def has(self, digest: str) -> bool:
        """Whether a file is there; its bytes are not looked at."""
        return self._folder is not None and self._folder.has_file(object_name(digest))

    def put(self, digest: str, data: bytes) -> bool:
        """Keep bytes that have this hash; whether they are kept."""
        if len(data) > self.limit:
            return False
        folder = self._folder
        if folder is None:
            self.__dict__.pop("_folder", None)
            folder = self.__dict__["_folder"] = self._open(make=True)
            if folder is None:
                return False
        try:
            self._write(folder, digest, data)
        except OSError as error:
            self._note("full", "the cache %s cannot be written: %s", self.path, error.strerror or error)
            return False
        with self._lock:
            self._uncounted += len(data)
        if self._uncounted >= min(_COUNTED, self.limit // 16):
            self.count()
        return True

    def count(self) -> None:
        """Say what was written so far, and make room if there is too much; to be called after many writes."""
        folder = self._folder
        with self._lock:
            written, self._uncounted = self._uncounted, 0
        if folder is None or not written or fcntl is None:
            return
        with suppress(OSError), folder.lock(_LOCK):
            known = self._known_usage(folder)
            if known is None or known + written > self.limit:
                self._write_usage(folder, self._make_room(folder))
            else:
                self._write_usage(folder, known + written, keep_time=True)

    def usage(self) -> Usage:
        """How much there is, by looking at all of it."""
        found = [] if self._folder is None else [*_files(self._folder)]
        return Usage(len(found), sum(one.size for one in found))

    def lacking(self, digests: Iterable[str]) -> set[str]:
        """Those of which there is no file."""
        return {digest for digest in digests if not self.has(digest)}

    def _open(self, *, make: bool) -> Folder | None:
        if self.path is None:
            self._note("none", "there is no folder for a cache; CORTEX_REPLAY_CACHE names one")
            return None
        try:
            _refuse_planted(self.path)
            if not make and not self.path.exists():
                return None
            folder = Folder.make_at(self.path)
        except OSError as error:
            self._note("unfit", "the cache %s is not used: %s", self.path, error.strerror or error)
            return None
        try:
            if not folder.is_ours:
                raise PermissionError(
                    errno.EPERM, "it belongs to another user; CORTEX_REPLAY_CACHE names one"
                )
            folder.make_private()
        except OSError as error:
            folder.close()
            self._note("unfit", "the cache %s is not used: %s", self.path, error.strerror or error)
            return None
        return folder

    def _write(self, folder: Folder, digest: str, data: bytes) -> None:
        # The folder is private, so what stands below it is ours, and one step reaches it.
        name = object_name(digest)
        temporary = f"{_OBJECTS}/{digest[:2]}/{_TEMPORARY}{os.getpid()}-{id(self)}-{next(self._numbers)}"
        try:
            folder.create(temporary, data, mode=PRIVATE)
        except FileNotFoundError:
            for made in (_OBJECTS, f"{_OBJECTS}/{digest[:2]}"):
                with suppress(FileExistsError):
                    folder.create_folder(made, PRIVATE_FOLDER).close()
            folder.create(temporary, data, mode=PRIVATE)
        try:
            folder.rename(temporary, folder, name)
        except BaseException:
            with suppress(OSError):
                folder.unlink(temporary)
            raise

    def _touch(self, folder: Folder, name: str) -> None:
        """Note when a file was last used, to the hour: a replay reads thousands."""
        with suppress(OSError):
            status = folder.status(name)
            if status is not None and time.time() - status.st_mtime > _HOUR:
                folder.note_use(name)

    def _known_usage(self, folder: Folder) -> int | None:
        """What was counted, if that was done within the last day: who was killed has not counted."""
        try:
            size, at = folder.read(_USAGE, 100).split()
            is_recent = abs(time.time() - int(at)) < _DAY
            return int(size) if is_recent else None
        except (OSError, ValueError):
            return None

    def _write_usage(self, folder: Folder, size: int, *, keep_time: bool = False) -> None:
        at = int(time.time())
        if keep_time:
            at = int(folder.read(_USAGE, 100).split()[1])
        folder.replace(
            _USAGE, f"{size} {at}\n".encode(), f"{_TEMPORARY}{_USAGE}", mode=PRIVATE, durable=False
        )

    def _make_room(self, folder: Folder) -> int:
        """Remove what was not used for longest, and what writers left that died; how much is there then."""
        found = sorted(_files(folder))
        size = sum(one.size for one in found)
        wanted = self.limit if size <= self.limit else int(self.limit * _ROOM)
        old = time.time() - _DAY
        for one in found:
            is_left = _TEMPORARY in one.name and one.used_at < old
            if size > wanted or is_left:
                with suppress(OSError):
                    folder.unlink(one.name)
                    size -= one.size
        return size

    def _note(self, kind: str, text: str, *parts: object) -> None:
        if kind not in self._notes:
            self._notes.add(kind)
            logger.warning(text, *parts)


def _refuse_planted(path: Path) -> None:
    """Refuse a link that another user put there."""
    with suppress(FileNotFoundError):
        status = path.lstat()
        is_ours = not hasattr(os, "geteuid") or status.st_uid in (os.geteuid(), 0)
        if stat.S_ISLNK(status.st_mode) and not is_ours:
            raise OSError(errno.ELOOP, "it is a link of another user")


def _files(folder: Folder) -> Iterator[_Found]:
    with suppress(FileNotFoundError), folder.folder(_OBJECTS) as objects:
        for entry in objects.entries():
            if entry.is_dir(follow_symlinks=False):
                with suppress(OSError), objects.folder(entry.name) as inner:
                    for file in inner.entries():
                        with suppress(OSError):
                            status = file.stat(follow_symlinks=False)
                            name = f"{_OBJECTS}/{entry.name}/{file.name}"
                            yield _Found(status.st_mtime, status.st_size, name)
