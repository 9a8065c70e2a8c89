"""Making a store where there is none."""

from __future__ import annotations

import errno
import os

from cortex_replay.disk import Folder
from cortex_replay.store.git.attributes import complete_attributes
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import Index
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER

__all__ = ["make_store", "put_index", "refuse_index"]


def make_store(root: Folder, state: Folder) -> None:
    """Put an empty store in the nested layout in place, and what git must know of it.

    Each step is durable before the next, as in a commit, and each file gets its name when it is whole. The
    index comes last: a folder without one is no store, so half a store is never taken for a whole one.

    Args:
        root: Where it comes to be.
        state: The state folder in it, whose lock the caller holds.

    Raises:
        FileExistsError: There is an index already.
        OSError: The disk refuses, or something is in the way.
    """
    refuse_index(root)
    root.make_folder(NESTED_FOLDER).close()
    complete_attributes(root, state)
    put_index(root, state, render_index(Index()).encode())


def refuse_index(root: Folder) -> None:
    """Look that there is no index.

    Raises:
        FileExistsError: There is one, or a link of that name.
    """
    if root.status(INDEX_NAME) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), f"{root.path}{os.sep}{INDEX_NAME}")


def put_index(root: Folder, state: Folder, data: bytes) -> None:
    """Put an index in place, or the root of one: at every instant there is the old one or the new one."""
    root.replace(INDEX_NAME, data, "index.tmp", via=state)
