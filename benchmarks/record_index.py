"""How often an index is written, as the kernel sees it: a writer's own word would not do."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cortex_replay.store.paths import INDEX_NAME

__all__ = ["IndexChanges", "index_changes"]

# From <sys/inotify.h>. Equal events in a row become one, so opening is asked for as well: a writer reads
# the index before it replaces it, and that keeps its writes apart.
_IN_CLOSE_WRITE, _IN_OPEN, _IN_MOVED_TO = 0x8, 0x20, 0x80
_IN_Q_OVERFLOW = 0x4000
_WRITTEN = _IN_CLOSE_WRITE | _IN_MOVED_TO
_HEAD = struct.Struct("iIII")


@dataclass
class IndexChanges:
    """What happened to an index."""

    count: int | None = None
    """``None`` where there is no inotify to tell."""


@contextlib.contextmanager
def index_changes(root: Path) -> Iterator[IndexChanges]:
    """Count how often the index of a store is written or replaced; the count is there afterwards."""
    changes = IndexChanges()
    if sys.platform != "linux":
        yield changes
        return
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        wanted = _WRITTEN | _IN_OPEN
        if descriptor < 0 or libc.inotify_add_watch(descriptor, os.fsencode(root), wanted) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        yield changes
        changes.count = sum(
            name == INDEX_NAME and bool(mask & _WRITTEN) for name, mask in _events(descriptor)
        )
    finally:
        os.close(descriptor)


def _events(descriptor: int) -> Iterator[tuple[str, int]]:
    """What each event is about, and what happened to it."""
    with contextlib.suppress(BlockingIOError):
        while data := os.read(descriptor, 2**16):
            while data:
                _, mask, _, length = _HEAD.unpack_from(data)
                end = _HEAD.size + length
                name = os.fsdecode(data[_HEAD.size : end].rstrip(b"\0"))
                if mask & _IN_Q_OVERFLOW:
                    raise RuntimeError("too much happened in the store's folder to be counted")
                yield name, mask
                data = data[end:]
