"""Making a store where there is none."""

from __future__ import annotations

from cortex_replay.disk import Folder
from cortex_replay.store.git.attributes import complete_attributes
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import Index
from cortex_replay.store.paths import INDEX_NAME, NESTED_FOLDER

__all__ = ["make_store"]


def make_store(root: Folder) -> None:
    """Write an empty store in the nested layout, and what git must know of it.

    Raises:
        FileExistsError: There is an index already.
        OSError: The disk refuses, or something is in the way.
    """
    root.make_folder(NESTED_FOLDER).close()
    complete_attributes(root)
    # Last: a folder without an index is no store, so half a store is never taken for a whole one.
    root.create(INDEX_NAME, render_index(Index()).encode(), durable=True)
    root.sync()
