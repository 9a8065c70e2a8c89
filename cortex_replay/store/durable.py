"""Writes that survive a crash: the few steps that every durable change is made of.

Each of them is one or two system calls, in the order that the caller writes them down; nothing is
buffered, retried or swallowed here. An ``fsync`` that fails is final: the page may be gone, and a
second call would report success.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["create", "make_folder", "replace_durably", "sync", "sync_folder"]

_CREATE: Final = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
)


def create(path: Path | str, data: bytes, *, durable: bool = False) -> None:
    """Write a new file, whole or not at all as far as this process can see."""
    descriptor = os.open(path, _CREATE, 0o644)
    try:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            Path(path).unlink()
        raise


def sync(path: Path | str) -> None:
    """Make a file's content durable, whoever wrote it."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    sync(path)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, each durable in its parent.

    Also when it is there: whoever made it may have died before it was durable.
    """
    if not path.is_dir():
        make_folder(path.parent)
        with suppress(FileExistsError):
            path.mkdir()
    sync_folder(path.parent)


def replace_durably(path: Path, data: bytes, temporary: Path) -> None:
    """Put ``data`` in the place of ``path``: at every instant the old bytes or the new ones."""
    with suppress(FileNotFoundError):
        temporary.unlink()  # of a writer that died; the caller holds the lock
    create(temporary, data, durable=True)
    try:
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)
