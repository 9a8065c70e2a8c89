"""The one door to the disk: whatever this package writes, renames or removes passes here.

No step follows a link. A folder is opened one component after the other, each relative to the one above
it, and what stands in it is then reached through that handle, so that nothing put in the way between two
steps leads a write elsewhere. Where the platform has no such handles (Windows), links are looked for first.

Each step is one or two system calls, in the order that the caller writes them down; nothing is buffered,
retried or swallowed here. An ``fsync`` that fails is final: the page may be gone, and a second call would
report success.

`tests/security/test_disk_door.py` finds a write that goes around this module.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

try:
    import fcntl
except ImportError:  # Windows, where nothing is recorded
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "PRIVATE",
    "PRIVATE_FOLDER",
    "READ_FLAGS",
    "Closing",
    "Folder",
    "absolute_path",
    "anchor_of",
    "append_to",
    "fcntl",
    "guarded_scratch",
    "scratch_folder",
    "write_file",
]

PRIVATE: Final = 0o600
"""The mode of a file that is nobody else's business."""
PRIVATE_FOLDER: Final = 0o700

_HAS_HANDLES: Final = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_SAFE: Final = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)
READ_FLAGS: Final = os.O_RDONLY | _NONBLOCK | _SAFE
"""To open a file for reading: no link is followed, no pipe waited for."""
_FOLDER: Final = READ_FLAGS | getattr(os, "O_DIRECTORY", 0)
_GUARDED: Final = "cortex-replay-guarded-"
_GUARD: Final = "owner"
_TOPS: Final = (".git", "cortex-replay.toml", "pyproject.toml")
"""What stands at the top of a project."""


def anchor_of(path: Path) -> Path:
    """The folder from which ``path`` is reached without following a link.

    A repository may hold links, and its writer chose them; those above it are the user's own. So it is
    this folder where the path is below it, else the outermost folder on the path that looks like the top of
    a project (what a link leads to may be another one), else, for a relative path, the folder that it has
    in common with this one: an unpacked archive has no ``.git``. Else it is the parent.
    """
    absolute = absolute_path(path)
    with suppress(FileNotFoundError):  # this folder is gone
        here = Path.cwd()
        if absolute.is_relative_to(here) and here.parent != here:
            return here
    for folder in reversed(absolute.parents):
        if any(os.path.lexists(folder / name) for name in _TOPS):
            return folder
    above = absolute.parent
    common = above if path.is_absolute() else Path(os.path.commonpath([above, Path.cwd()]))
    return above if common.parent == common else common


class Closing:
    """What is closed at the end of a ``with`` block."""

    __slots__ = ()

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Folder(Closing):
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
        """A folder that no repository chose: only its last component must not be a link."""
        text = os.fspath(path)
        if _HAS_HANDLES:
            return cls(text, os.open(text, _FOLDER))
        _refuse_link(text)
        return cls(text, None)

    @classmethod
    def make_at(cls, path: Path) -> Folder:
        """As :meth:`at`, also through links, with those folders made that are missing."""
        missing: list[str] = []
        while not path.exists():
            missing.insert(0, path.name)
            path = path.parent
        with cls.at(path.resolve()) as start:
            return start.below("/".join(missing), make=True)

    @classmethod
    def reach(cls, path: Path, *, make: bool = False, anchor: Path | None = None) -> Folder:
        """The folder at ``path``, from its anchor on without following a link.

        Args:
            path: Relative to this folder, or absolute.
            make: Whether to make it, and those above it, durably.
            anchor: As :func:`anchor_of` gave it at an earlier moment, in perhaps another folder.
        """
        absolute = absolute_path(path)
        top = anchor = anchor or anchor_of(path)
        missing: list[str] = []
        while make and not top.exists():  # below nothing of a repository's
            missing.insert(0, top.name)
            top = top.parent
        with cls.at(top.resolve()) as start:
            below = "/".join([*missing, *absolute.relative_to(anchor).parts])
            return start.below(below, make=make)

    def below(self, path: str, *, make: bool = False) -> Folder:
        """The folder ``path`` below this one, one component after the other; this one for ``""``."""
        folder = self
        for name in path.split("/") if path else ():
            parent = folder
            try:
                folder = parent.make_folder(name) if make else parent.folder(name)
            finally:
                if parent is not self:
                    parent.close()
        if folder is not self:
            return folder
        return Folder(self.path, None if self._descriptor is None else os.dup(self._descriptor))

    def folder(self, name: str) -> Folder:
        """The child folder ``name``."""
        path = f"{self.path}{os.sep}{name}"
        if self._descriptor is None:
            _refuse_link(path)
            return Folder(path, None)
        try:
            return Folder(path, os.open(name, _FOLDER, dir_fd=self._descriptor))
        except OSError as error:
            error.filename = path  # the system names the child alone
            raise

    def make_folder(self, name: str, mode: int = 0o777) -> Folder:
        """The child folder ``name``, made where it is missing, and durable in this one.

        Also when it is there: whoever made it may have died before it was durable.
        """
        with suppress(FileExistsError):
            os.mkdir(self._at(name), mode, dir_fd=self._descriptor)
        made = self.folder(name)
        try:
            self.sync()
        except BaseException:
            made.close()
            raise
        return made

    def create_folder(self, name: str, mode: int = 0o777) -> Folder:
        """The child folder ``name``, which must be new; nobody needs it after a loss of power."""
        os.mkdir(self._at(name), mode, dir_fd=self._descriptor)
        return self.folder(name)

    def make_private(self) -> None:
        """Take from others what they may do in this folder, where the platform knows of others."""
        status = self.status()
        if self._descriptor is not None and status is not None and stat.S_IMODE(status.st_mode) & 0o077:
            os.fchmod(self._descriptor, PRIVATE_FOLDER)

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

    def open_file(self, name: str, flags: int = READ_FLAGS, mode: int = 0o644) -> int:
        """A descriptor of the child file ``name``, to read it by unless ``flags`` say more.

        It may be no plain file.
        """
        if self._descriptor is None:
            with suppress(FileNotFoundError):
                _refuse_link(self._at(name))
        try:
            return os.open(self._at(name), flags, mode, dir_fd=self._descriptor)
        except OSError as error:
            error.filename = f"{self.path}{os.sep}{name}"
            raise

    def open_plain(self, name: str, flags: int = READ_FLAGS, mode: int = 0o644) -> int:
        """As :meth:`open_file`, where nothing but a plain file will do."""
        descriptor = self.open_file(name, flags, mode)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "is not a plain file", f"{self.path}{os.sep}{name}")
        return descriptor

    def read(self, name: str, max_bytes: int = -1) -> bytes:
        """The whole of a plain file, or as much of it as is asked for."""
        descriptor = self.open_plain(name)
        try:
            blocks = []
            while max_bytes and (block := os.read(descriptor, 2**20 if max_bytes < 0 else max_bytes)):
                blocks.append(block)
                max_bytes -= len(block) if max_bytes > 0 else 0
            return b"".join(blocks)
        finally:
            os.close(descriptor)

    def read_start(self, name: str, size: int) -> bytes:
        """What one read of a file gives, in as few steps as possible: thousands are read so, one by one."""
        if self._descriptor is None:
            descriptor = self.open_file(name)
        else:
            descriptor = os.open(name, READ_FLAGS, dir_fd=self._descriptor)
        try:
            return os.read(descriptor, size)
        finally:
            os.close(descriptor)

    def open_private(self, name: str) -> int:
        """A descriptor of a private file to lock or to write over, made where it is missing.

        One that has another name elsewhere is refused: who writes here would write there.
        """
        descriptor = self.open_plain(name, os.O_RDWR | os.O_CREAT | _NONBLOCK | _SAFE, PRIVATE)
        if os.fstat(descriptor).st_nlink > 1:
            os.close(descriptor)
            raise OSError(errno.EMLINK, "is a hard link to another file", f"{self.path}{os.sep}{name}")
        return descriptor

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold a lock on a private file. The kernel drops it when a process dies; the file stays."""
        descriptor = self.open_private(name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def create(self, name: str, data: bytes, *, durable: bool = False, mode: int = 0o644) -> None:
        """Write a new file, whole or not at all as far as this process can see."""
        descriptor = self.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE, mode)
        try:
            _write(descriptor, data, durable=durable)
        except BaseException:
            with suppress(OSError):
                self.unlink(name)
            raise

    def create_link(self, name: str, target: str) -> None:
        """Make a symbolic link where nothing is; whether it may lead where it leads is for the caller."""
        os.symlink(target, self._at(name), dir_fd=self._descriptor)

    def read_link(self, name: str) -> str:
        """Where a symbolic link leads, as it says."""
        return os.readlink(self._at(name), dir_fd=self._descriptor)

    def append(self, name: str, data: bytes) -> None:
        """Write at the end of a plain file, made where it is missing."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NONBLOCK | _SAFE
        _write(self.open_plain(name, flags), data, durable=False)

    def replace(
        self,
        name: str,
        data: bytes,
        temporary: str,
        *,
        via: Folder | None = None,
        mode: int = 0o644,
        durable: bool = True,
    ) -> None:
        """Put ``data`` in the place of the child: at every instant the old bytes or the new ones.

        The temporary file may stand in another folder of the same file system, ``via``.
        """
        other = via or self
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

    def note_use(self, name: str) -> None:
        """Note that a child was used now, in its times."""
        os.utime(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)

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

    def sync_file(self, name: str, mode: int | None = None) -> None:
        """Make a child's content durable, whoever wrote it, and its mode, if one is given."""
        descriptor = self.open_file(name)
        try:
            if mode is not None:
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the handle; what was opened through it stays open."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _at(self, name: str) -> str:
        """What a child is called in a system call, which then takes the handle, too."""
        return name if self._descriptor is not None else f"{self.path}{os.sep}{name}"


def write_file(path: Path, data: bytes, *, mode: int = 0o644, make_folder: bool = False) -> None:
    """Put ``data`` at a path that the user named, in the place of a plain file that may be there.

    Who could not read that file cannot read this one.

    Raises:
        OSError: There is a link on the way from the path's anchor, or the path is one.
    """
    absolute = absolute_path(path)
    with Folder.reach(absolute.parent, make=make_folder) as folder:
        status = folder.status(absolute.name)
        if status is not None and not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ELOOP, "is a link or no plain file; nothing was written", os.fspath(path))
        if status is not None:
            mode &= status.st_mode | PRIVATE
        folder.replace(absolute.name, data, f".{absolute.name}.tmp-{os.getpid()}", mode=mode, durable=False)


def append_to(path: Path, data: bytes) -> None:
    """Write at the end of a file that the user named; see :func:`write_file`."""
    absolute = absolute_path(path)
    with Folder.reach(absolute.parent) as folder:
        folder.append(absolute.name, data)


@contextmanager
def scratch_folder(*, keeps: bool = False) -> Iterator[Path]:
    """A private folder in the system's place for such, which is gone afterwards, unless it is to be kept."""
    if keeps:
        yield Path(tempfile.mkdtemp())
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@contextmanager
def guarded_scratch() -> Iterator[Path]:
    """As :func:`scratch_folder`, for what holds secrets: where its process is killed, the next one to ask for
    such a folder removes it. A lock, which the kernel drops, tells that somebody still has it."""
    if not _HAS_HANDLES:
        with scratch_folder() as plain:
            yield plain
        return
    _remove_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_GUARDED) as path, Folder.at(path) as folder:
        descriptor = folder.open_private(f"{_GUARD}.new")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            folder.rename(f"{_GUARD}.new", folder, _GUARD)  # whoever finds it, finds it locked
            yield Path(path)
        finally:
            os.close(descriptor)


def _remove_abandoned(place: Path) -> None:
    """Remove the guarded folders of this user whose processes are gone."""
    for path in place.glob(f"{_GUARDED}*"):
        with suppress(OSError), Folder.at(path) as folder:  # somebody has it, or it is another user's
            descriptor = folder.open_plain(_GUARD)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(descriptor).st_uid == path.lstat().st_uid == os.geteuid():
                    shutil.rmtree(path)
            finally:
                os.close(descriptor)


def absolute_path(path: Path) -> Path:
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
