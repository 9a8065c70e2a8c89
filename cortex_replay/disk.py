"""The one door to the disk: whatever this package writes, renames or removes passes here.

No step follows a link. A folder is opened one component after the other, each relative to the one above
it, and what stands in it is then reached through that handle, so that nothing put in the way between two
steps leads a write elsewhere. Where the platform has no such handles (Windows), links are looked for first.

Each step is one or two system calls, in the order that the caller writes them down; nothing is buffered,
retried or swallowed here. An ``fsync`` that fails is final: the page may be gone, and a second call would
report success.

`tests/security/test_doors.py` finds a write that goes around this module.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

__all__ = ["PRIVATE", "READ_FLAGS", "Folder", "anchor_of", "append_to", "write_whole"]

PRIVATE: Final = 0o600
"""The mode of a file that is nobody else's business."""

_HAS_HANDLES: Final = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_SAFE: Final = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFE
"""To open a file for reading: no link is followed, no pipe waited for."""
_FOLDER: Final = READ_FLAGS | getattr(os, "O_DIRECTORY", 0)


def anchor_of(path: Path) -> Path:
    """The folder from which ``path`` is reached without following a link.

    A repository may hold links, and its writer chose them; those above it are the user's own. So it is
    this folder where the path is below it, else the top of the path's git repository, else the parent.
    """
    absolute = _absolute(path)
    here = Path.cwd()
    if absolute.is_relative_to(here):
        return here
    for folder in absolute.parents:
        if os.path.lexists(folder / ".git"):
            return folder
    return absolute.parent


class Folder:
    """An open folder, through which its children are reached without following a link.

    Every method raises :class:`OSError` as the system does; a link where a folder or a file should be is
    ``ELOOP`` or ``ENOTDIR``.
    """

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def at(cls, path: Path | str) -> Self:
        """A folder that is none of the repository's choosing: only its last component must not be a link."""
        text = os.fspath(path)
        if _HAS_HANDLES:
            return cls(text, os.open(text, _FOLDER))
        _refuse_link(text)
        return cls(text, None)

    @classmethod
    def reach(cls, path: Path, *, make: bool = False) -> Folder:
        """The folder at ``path``, from its anchor on without following a link.

        Args:
            path: Relative to this folder, or absolute.
            make: Whether to make it, and those above it, durably.
        """
        absolute, anchor = _absolute(path), anchor_of(path)
        missing: list[str] = []
        while make and not anchor.exists():  # below nothing of a repository's
            missing.insert(0, anchor.name)
            anchor = anchor.parent
        with cls.at(anchor.resolve()) as start:
            below = "/".join([*missing, *absolute.relative_to(anchor_of(path)).parts])
            return start.below(below, make=make)

    def below(self, path: str, *, make: bool = False) -> Folder:
        """The folder ``path`` below this one, one component after the other; this one for ``""``."""
        folder = self._again()
        for name in path.split("/") if path else ():
            parent = folder
            try:
                folder = parent.make_folder(name) if make else parent.folder(name)
            finally:
                parent.close()
        return folder

    def folder(self, name: str) -> Folder:
        """The child folder ``name``."""
        path = f"{self.path}{os.sep}{name}"
        if self._descriptor is None:
            _refuse_link(path)
            return Folder(path, None)
        return Folder(path, os.open(name, _FOLDER, dir_fd=self._descriptor))

    def make_folder(self, name: str, mode: int = 0o777) -> Folder:
        """The child folder ``name``, made where it is missing, and durable in this one.

        Also when it is there: whoever made it may have died before it was durable.
        """
        with suppress(FileExistsError):
            os.mkdir(self._at(name), mode, dir_fd=self._descriptor)
        made = self.folder(name)
        self.sync()
        return made

    def entries(self) -> list[os.DirEntry[str]]:
        """What stands in the folder."""
        with os.scandir(self.path if self._descriptor is None else self._descriptor) as found:
            return list(found)

    def status(self, name: str = "") -> os.stat_result | None:
        """What the child is, or this folder for no name; ``None`` where nothing is. A link is a link."""
        if not name and self._descriptor is not None:
            return os.fstat(self._descriptor)
        try:
            return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def has_file(self, name: str) -> bool:
        """Whether the child is a plain file."""
        status = self.status(name)
        return status is not None and stat.S_ISREG(status.st_mode)

    @property
    def is_ours(self) -> bool:
        """Whether the folder belongs to this user; always where the platform says nothing about owners."""
        status = self.status()
        return not hasattr(os, "geteuid") or (status is not None and status.st_uid == os.geteuid())

    def open_file(self, name: str) -> int:
        """A descriptor to read the child file ``name`` by; it may be no plain file."""
        return self._open(name, READ_FLAGS)

    def read(self, name: str) -> bytes:
        """The whole of a plain file."""
        with os.fdopen(self._plain(name, READ_FLAGS), "rb") as file:
            return file.read()

    def open_lock(self, name: str) -> int:
        """A descriptor of a private file to lock, made where it is missing."""
        return self._plain(name, os.O_RDWR | os.O_CREAT | _SAFE, PRIVATE)

    def create(self, name: str, data: bytes, *, durable: bool = False, mode: int = 0o644) -> None:
        """Write a new file, whole or not at all as far as this process can see."""
        descriptor = self._open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, mode)
        try:
            _write(descriptor, data, durable=durable)
        except BaseException:
            with suppress(OSError):
                self.unlink(name)
            raise

    def append(self, name: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write at the end of a plain file, made where it is missing."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | _SAFE
        _write(self._plain(name, flags, mode), data, durable=False)

    def replace(
        self, name: str, data: bytes, temporary: str, *, mode: int = 0o644, durable: bool = True
    ) -> None:
        """Put ``data`` in the place of the child: at every instant the old bytes or the new ones."""
        self.replace_by(self, temporary, name, data, mode=mode, durable=durable)

    def replace_by(
        self,
        other: Folder,
        temporary: str,
        name: str,
        data: bytes,
        *,
        mode: int = 0o644,
        durable: bool = True,
    ) -> None:
        """As :meth:`replace`, with the temporary file in another folder of the same file system."""
        other.unlink(temporary)  # of a writer that died; the caller sees to it that no other lives
        other.create(temporary, data, durable=durable, mode=mode)
        try:
            other.rename(temporary, self, name)
        except BaseException:
            with suppress(OSError):
                other.unlink(temporary)
            raise
        if durable:
            self.sync()

    def rename(self, name: str, to: Folder, new_name: str) -> None:
        """Move a child to another open folder, in the place of what is there."""
        os.replace(self._at(name), to._at(new_name), src_dir_fd=self._descriptor, dst_dir_fd=to._descriptor)

    def unlink(self, name: str) -> None:
        """Remove a child that is no folder; a link itself, not what it leads to. Nothing there is fine."""
        with suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove an empty child folder."""
        os.rmdir(self._at(name), dir_fd=self._descriptor)

    def remove_tree(self, name: str) -> None:
        """Remove a child folder and all that is in it; links in it are removed, not followed."""
        shutil.rmtree(self._at(name), dir_fd=self._descriptor)

    def sync(self) -> None:
        """Make the names in this folder durable."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def sync_file(self, name: str) -> None:
        """Make a child's content durable, whoever wrote it."""
        descriptor = self._open(name, READ_FLAGS)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the handle; what was opened through it stays open."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _again(self) -> Folder:
        return Folder(self.path, None if self._descriptor is None else os.dup(self._descriptor))

    def _at(self, name: str) -> str:
        """What a child is called in a system call, which then takes the handle, too."""
        return name if self._descriptor is not None else f"{self.path}{os.sep}{name}"

    def _open(self, name: str, flags: int, mode: int = 0o644) -> int:
        if self._descriptor is None:
            with suppress(FileNotFoundError):
                _refuse_link(self._at(name))
        return os.open(self._at(name), flags, mode, dir_fd=self._descriptor)

    def _plain(self, name: str, flags: int, mode: int = 0o644) -> int:
        descriptor = self._open(name, flags, mode)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "is not a plain file", f"{self.path}{os.sep}{name}")
        return descriptor


def write_whole(path: Path, data: bytes, *, mode: int = 0o644, make_folder: bool = False) -> None:
    """Put ``data`` at a path that the user named, in the place of a plain file that may be there.

    Raises:
        OSError: There is a link on the way from the path's anchor, or the path is one.
    """
    absolute = _absolute(path)
    with Folder.reach(absolute.parent, make=make_folder) as folder:
        status = folder.status(absolute.name)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ELOOP, "is a link or no plain file; nothing was written", os.fspath(path))
        folder.replace(absolute.name, data, f".{absolute.name}.tmp-{os.getpid()}", mode=mode, durable=False)


def append_to(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write at the end of a file that the user named; see :func:`write_whole`."""
    absolute = _absolute(path)
    with Folder.reach(absolute.parent) as folder:
        folder.append(absolute.name, data, mode=mode)


def _absolute(path: Path) -> Path:
    """The path from the root, without dots; what ``..`` means behind a link is not asked."""
    return Path(os.path.normpath(path.absolute()))


def _write(descriptor: int, data: bytes, *, durable: bool) -> None:
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_link(path: str) -> None:
    if stat.S_ISLNK(os.lstat(path).st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
