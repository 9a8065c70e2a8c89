"""The store on disk, read-only: the one module of this package that touches the file system.

Every component of a path is opened relative to the folder above it, without following links and
without blocking, so that neither a link nor a named pipe that appears between two steps can lead
a reader astray. Where the platform cannot do that (Windows), links are looked for first.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Self

from cortex_replay.errors import Finding, StoreIo
from cortex_replay.store.paths import is_fixture_name, shown
from cortex_replay.store.source import Listing

__all__ = ["DirectorySource"]

_CAN_OPEN_BELOW: Final = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_FILE_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_FOLDER_FLAGS: Final = _FILE_FLAGS | getattr(os, "O_DIRECTORY", 0)
_NOT_OURS: Final = frozenset({".git", ".cortex-replay"})
"""At the root of a flat store, what belongs to git and to writers is no part of it."""
_FIRST_READ: Final = 32 * 1024
_MAX_FOLDER_DEPTH: Final = 64


class DirectorySource:
    """A store's root folder."""

    def __init__(self, root: Path) -> None:
        try:
            self.root = root.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise StoreIo(f"the store {root} cannot be opened: {_reason(error)}") from None
        if not self.root.is_dir():
            raise StoreIo(f"the store {root} is not a folder")

    def has_folder(self, name: str) -> bool:
        """Whether a real folder of this name stands at the root."""
        try:
            return stat.S_ISDIR(os.lstat(self.root / name).st_mode)
        except OSError:
            return False

    def list_files(self, folder: str) -> Listing:
        """Every plain file below ``folder``, hidden ones too."""
        listing = Listing()
        try:
            with _Folder.open(self.root, folder) as opened:
                _walk(opened, f"{folder}/" if folder else "", listing, 0)
        except FileNotFoundError:
            pass  # then each listed file is missing, and is reported as such
        except OSError as error:
            listing.findings.append(_unreadable(folder, error))
        return listing

    def read(self, path: str, max_bytes: int) -> bytes | Finding:
        """The whole content of one file, read until its end."""
        folder, _, name = path.rpartition("/")
        try:
            with _Folder.open(self.root, folder) as opened:
                return _read_to_the_end(opened.open_file(name), path, max_bytes)
        except (OSError, UnicodeError) as error:
            return _unreadable(path, error)

    def read_many(self, paths: Iterable[str], max_bytes: int) -> Iterator[tuple[str, bytes | Finding]]:
        """The content of many files, one system call each where they are small.

        A small file comes whole with the first read on every local file system. If it ever does
        not, its hash is wrong and the caller asks :meth:`read`.
        """
        opened: _Folder | None = None
        current: str | None = None
        try:
            for path in paths:
                folder, _, name = path.rpartition("/")
                try:
                    if opened is None or folder != current:
                        if opened is not None:
                            opened.close()
                        opened, current = None, folder
                        opened = _Folder.open(self.root, folder)
                    descriptor = opened.open_file(name)
                    try:
                        data = os.read(descriptor, _FIRST_READ)
                    finally:
                        os.close(descriptor)
                except (OSError, UnicodeError) as error:
                    yield path, _unreadable(path, error)
                    continue
                yield path, data if len(data) < _FIRST_READ else self.read(path, max_bytes)
        finally:
            if opened is not None:
                opened.close()


class _Folder:
    """An open folder, through which its children are reached without following a link."""

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path = path
        self.descriptor = descriptor

    @classmethod
    def open(cls, root: Path, below: str) -> _Folder:
        """The folder ``below`` the root, one component after the other."""
        path = os.fspath(root)
        folder = cls(path, os.open(path, _FOLDER_FLAGS) if _CAN_OPEN_BELOW else None)
        for name in below.split("/") if below else ():
            parent = folder
            try:
                folder = parent.open_folder(name)
            finally:
                parent.close()
        return folder

    def open_folder(self, name: str) -> _Folder:
        """The child folder ``name``."""
        path = f"{self.path}{os.sep}{name}"
        if self.descriptor is None:
            _refuse_link(path)
            return _Folder(path, None)
        return _Folder(path, os.open(name, _FOLDER_FLAGS, dir_fd=self.descriptor))

    def open_file(self, name: str) -> int:
        """A descriptor of the child file ``name``."""
        if self.descriptor is None:
            path = f"{self.path}{os.sep}{name}"
            _refuse_link(path)
            return os.open(path, _FILE_FLAGS)
        return os.open(name, _FILE_FLAGS, dir_fd=self.descriptor)

    def entries(self) -> list[os.DirEntry[str]]:
        """What stands in the folder."""
        with os.scandir(self.path if self.descriptor is None else self.descriptor) as found:
            return list(found)

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_link(path: str) -> None:
    if stat.S_ISLNK(os.lstat(path).st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _walk(folder: _Folder, prefix: str, listing: Listing, depth: int) -> None:
    files, findings = listing.files, listing.findings
    for entry in folder.entries():
        path = prefix + entry.name
        if path in _NOT_OURS:
            continue
        if entry.is_file(follow_symlinks=False):
            if entry.name.isascii() or _is_text(entry.name):
                files.add(path)
            elif is_fixture_name(entry.name):
                findings.append(
                    Finding("unlisted", shown(path), "its name is not UTF-8, so nothing can list it")
                )
        elif not entry.is_dir(follow_symlinks=False):
            kind = "a link" if entry.is_symlink() else "neither a file nor a folder"
            findings.append(Finding("not-a-file", shown(path), f"is {kind}; only plain files may stand here"))
        elif is_fixture_name(entry.name):
            findings.append(Finding("not-a-file", shown(path), "is a folder with the name of a fixture"))
        elif depth == _MAX_FOLDER_DEPTH:
            findings.append(Finding("not-a-file", shown(path), f"folders are nested deeper than {depth}"))
        else:
            try:
                with folder.open_folder(entry.name) as child:
                    _walk(child, f"{path}/", listing, depth + 1)
            except OSError as error:
                findings.append(_unreadable(path, error))


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _read_to_the_end(descriptor: int, path: str, max_bytes: int) -> bytes | Finding:
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Finding("not-a-file", shown(path), "is not a plain file")
        if status.st_size > max_bytes:
            return Finding("too-large", shown(path), f"larger than {max_bytes} bytes")
        blocks = []
        left = max_bytes + 1  # it may grow while it is read
        while left > 0 and (block := os.read(descriptor, min(left, 2**20))):
            blocks.append(block)
            left -= len(block)
        return b"".join(blocks)
    finally:
        os.close(descriptor)


def _unreadable(path: str, error: OSError | UnicodeError) -> Finding:
    if isinstance(error, UnicodeError):  # a locale that cannot spell it
        return Finding("unreadable", shown(path), "has a name that the locale's encoding cannot spell")
    if error.errno == errno.ENOENT:
        return Finding("missing", shown(path), "is not there")
    if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR):
        return Finding(
            "not-a-file", shown(path), "is a link, a folder or a special file, or stands below one"
        )
    return Finding("unreadable", shown(path), f"cannot be read: {_reason(error)}")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
