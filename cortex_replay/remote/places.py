"""Where a store has its objects."""

from __future__ import annotations

from pathlib import Path

from cortex_replay.remote.bucket import Bucket
from cortex_replay.remote.remote import remote_for

__all__ = ["bucket_for"]


def bucket_for(root: Path) -> Bucket | None:
    """The bucket of the store at ``root``; ``None`` if it has none.

    Raises:
        ConfigError: A setting of it cannot be.
        StoreIo: It cannot be opened.
    """
    remote = remote_for(root)
    return None if remote is None else remote.bucket
