"""Whether git carries something that no repository should bring along."""

from __future__ import annotations

from pathlib import Path

from cortex_replay.errors import StoreIo
from cortex_replay.store.git import Repository

__all__ = ["is_tracked"]


def is_tracked(root: Path, name: str) -> bool:
    """Whether git tracks ``name`` in the folder ``root``, anything below it, or something in its way.

    Where there is no repository, or no git, nothing is tracked. Letter case does not count: on some file
    systems another spelling is the same folder.
    """
    try:
        repository = Repository(root)
        return repository.tracks(f"{repository.prefix}{name}")
    except StoreIo:
        return False
