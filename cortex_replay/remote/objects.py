"""What a bucket has, and what is wrong with one."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from cortex_replay.errors import StoreIo

__all__ = ["MAX_OBJECT_BYTES", "BucketDenied", "BucketError", "Entry", "ObjectTooLarge", "Stamped"]

MAX_OBJECT_BYTES: Final = 2**26
"""Larger ones are not read: no file of a store is."""


class Stamped(NamedTuple):
    """An object, and the version of it that was read."""

    data: bytes
    version: str
    """What :meth:`Bucket.put_over` wants, an ETag."""


class Entry(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    changed_at: datetime


class BucketError(StoreIo):
    """A bucket cannot be asked, or does not do what is asked of it."""


class BucketDenied(BucketError):
    """A bucket says no. Of an object that is not there, some say so to whom they do not tell more."""


class ObjectTooLarge(BucketError):
    """An object is larger than any file of a store."""
