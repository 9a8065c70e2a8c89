"""A bucket that is a folder of this machine: ``file://``.

It is written through :mod:`cortex_replay.disk`, so no link leads a write elsewhere: a repository may have
named the folder. For the same reason it must be a folder of its own. A version is the hash of the bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cortex_replay.disk import Folder, fcntl
from cortex_replay.hashing import blake3_hex
from cortex_replay.remote.objects import (
    MAX_OBJECT_BYTES,
    BucketDenied,
    BucketError,
    Entry,
    ObjectTooLarge,
    Stamped,
)

__all__ = ["FolderObjects"]

_OWN: Final = frozenset(["b3", "runs", "probe", "clock", ".lock"])
"""What may stand at the top of such a folder."""
_LOCK: Final = ".lock"
_TEMPORARY: Final = ".tmp-"


class FolderObjects:
    """Objects as files.

    Args:
        path: The folder; it is made by the first put.
        url: As the user wrote it.
    """

    def __init__(self, path: Path, url: str) -> None:
        self._path = path
        self.url = url

    def fetch(self, name: str) -> Stamped | None:
        with self._errors(), self._folder_of(name) as found:
            if found is None:
                return None
            folder, last = found
            try:
                data = folder.read(last, MAX_OBJECT_BYTES + 1)
            except FileNotFoundError:
                return None
            if len(data) > MAX_OBJECT_BYTES:
                raise ObjectTooLarge(f"{self.url}: {name} is larger than {MAX_OBJECT_BYTES:,} bytes")
            return Stamped(data, blake3_hex(data))

    def measure(self, name: str) -> int | None:
        with self._errors(), self._folder_of(name) as found:
            status = None if found is None else found[0].status(found[1])
            return status.st_size if status is not None and stat.S_ISREG(status.st_mode) else None

    def entries(self, prefix: str) -> Sequence[Entry]:
        with self._errors():
            try:
                with Folder.reach(self._path) as top, top.below(prefix.strip("/")) as start:
                    return [*_walk(start, prefix.strip("/"))]
            except FileNotFoundError:
                return []

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            with self._errors(), self._folder_of(name) as found:
                if found is not None:
                    found[0].unlink(found[1])

    def put(self, name: str, data: bytes, version: str | None) -> bool:
        """Put an object over a version, or where there is none; whether that was so."""
        if fcntl is None:
            raise BucketError(f"{self.url} cannot be written on a system without locks of files")
        parent, _, last = name.rpartition("/")
        with self._errors(), _made(self._path) as top:
            self._refuse_others(top)
            with top.lock(_LOCK), _made_below(top, parent) as folder:
                is_right = folder.status(last) is None if version is None else _has(folder, last, version)
                if is_right:
                    folder.replace(last, data, f"{_TEMPORARY}{os.getpid()}", durable=False)
                return is_right

    def _refuse_others(self, top: Folder) -> None:
        """Refuse a folder that holds other things, such as a home: a repository may have named it."""
        others = [entry.name for entry in top.entries() if entry.name not in _OWN]
        if others:
            reason = "it holds other things; name a new folder, or an empty one"
            raise BucketError(f"{self.url} is no bucket to write to: {reason}")

    @contextmanager
    def _folder_of(self, name: str) -> Iterator[tuple[Folder, str] | None]:
        parent, _, last = name.rpartition("/")
        try:
            with Folder.reach(self._path) as top:
                folder = top.below(parent)
        except FileNotFoundError:
            yield None
            return
        with folder:
            yield folder, last

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise BucketDenied(f"{self.url} refuses ({error.strerror})") from None
        except OSError as error:
            raise BucketError(f"{self.url} cannot be used: {error.strerror or error}") from None


def _made(path: Path) -> Folder:
    try:
        return Folder.reach(path)
    except FileNotFoundError:
        return Folder.reach(path, make=True)


def _made_below(folder: Folder, path: str) -> Folder:
    try:
        return folder.below(path)  # without a sync, as nearly always
    except FileNotFoundError:
        return folder.below(path, make=True)


def _has(folder: Folder, name: str, version: str) -> bool:
    with suppress(FileNotFoundError):
        return blake3_hex(folder.read(name)) == version
    return False


def _walk(folder: Folder, above: str) -> Iterator[Entry]:
    for entry in folder.entries():
        path = f"{above}/{entry.name}" if above else entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            if not above and entry.name not in _OWN:
                continue  # it may be anything: a repository names the folder, and may name a home
            with folder.folder(entry.name) as inner:
                yield from _walk(inner, path)
        elif entry.is_file(follow_symlinks=False):
            status = entry.stat(follow_symlinks=False)
            yield Entry(path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))
