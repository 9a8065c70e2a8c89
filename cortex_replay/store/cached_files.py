"""The files of a cache, read as fast as those of a work tree: they are not hashed here, but by who asks."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from typing import Final

from cortex_replay.disk import Folder
from cortex_replay.remote.cache import Cache, object_name
from cortex_replay.store.index.named_file import NamedFile

__all__ = ["read_cached"]

_FIRST_READ: Final = 32 * 1024
_HOUR: Final = 60 * 60


def read_cached(cache: Cache, files: Sequence[NamedFile]) -> Iterator[bytes | None]:
    """What a cache has of files, in order, **unchecked**.

    ``None`` where it has nothing, more than comes with one read, or what was used long ago: the cache itself
    is to be asked for those, and for what turns out to have another hash.
    """
    is_fit = bool(files) and cache.has(files[0].blake3)  # one that is not fit has none
    if cache.path is None or not is_fit:
        yield from (None for _ in files)
        return
    now = time.time()
    with Folder.at(cache.path) as folder:
        for file in files:
            yield _read(folder, object_name(file.blake3), now)


def _read(folder: Folder, name: str, now: float) -> bytes | None:
    try:
        descriptor = folder.open_file(name)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size >= _FIRST_READ or now - status.st_mtime > _HOUR:
            return None  # of what is used again after an hour, the cache takes note
        return os.read(descriptor, _FIRST_READ)
    except OSError:
        return None
    finally:
        os.close(descriptor)
