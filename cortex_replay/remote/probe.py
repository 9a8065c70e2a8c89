"""Whether a bucket keeps the conditions of a put. Some servers take them and put all the same; others look
first and put afterwards, so that of several that come at once more than one succeeds."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from cortex_replay.errors import StoreIo
from cortex_replay.remote import waiting
from cortex_replay.remote.bucket import Bucket
from cortex_replay.remote.objects import BucketError

__all__ = ["refuse_unconditional"]

_FOLDER: Final = "probe"
# Measured with s3s-fs, which looks first and puts afterwards: at least three of six such races were noticed
# in each of 40 tries; of races for one object, one in ten was not.
_RACES: Final = 6
_RIVALS: Final = 8
_CREATE: Final = "If-None-Match: *"
_UPDATE: Final = "If-Match"

_Versions = dict[str, str]
_Put = Callable[[str, bytes], Awaitable[bool]]


def refuse_unconditional(bucket: Bucket, *, over: bool = False) -> None:
    """Put some objects, each many times at once, then once more, and see that one put of each succeeds.

    If the answer to that one is lost, the client puts again and is refused; such an object tells nothing.

    Args:
        bucket: The bucket; what is put there is deleted again.
        over: Whether to try :meth:`~cortex_replay.remote.bucket.Bucket.put_over`, too.

    Raises:
        BucketError: More than one succeeds, too many answers are lost, or the bucket cannot be written.
    """
    names = [f"{_FOLDER}/{secrets.token_hex(16)}" for _ in range(_RACES)]
    try:
        versions = _race(bucket, names, _CREATE, bucket.create)
        if bucket.put_new(names[0], b"late"):
            raise BucketError(_reason(bucket, _CREATE))
        if over:
            _race(bucket, names, _UPDATE, lambda name, data: bucket.update(name, data, versions[name]))
            if bucket.put_over(names[0], b"late", versions[names[0]]):
                raise BucketError(_reason(bucket, _UPDATE))
    finally:
        with suppress(StoreIo):
            bucket.delete(names)


def _race(bucket: Bucket, names: list[str], condition: str, put: _Put) -> _Versions:
    """Have many put at once; the version of each object then."""
    rivals = [(name, f"{condition} {number}".encode()) for name in names for number in range(_RIVALS)]
    winners: dict[str, list[bytes]] = {name: [] for name in names}
    for (name, data), result in waiting.many(rivals, lambda rival: put(*rival)):
        if isinstance(result, Exception):
            raise result
        if result:
            winners[name].append(data)
    versions: _Versions = {}
    undecided = 0
    for name, there in waiting.many(names, bucket.fetch):
        if isinstance(there, Exception):
            raise there
        if there is None or winners[name] not in ([], [there.data]):
            raise BucketError(_reason(bucket, condition))
        undecided += not winners[name]
        versions[name] = there.version
    if undecided > _RACES // 2:
        raise BucketError(
            f"{bucket.url} cannot be used: whether its server keeps the condition of a put ({condition}) "
            "cannot be told, since too many answers were lost; try again"
        )
    return versions


def _reason(bucket: Bucket, condition: str) -> str:
    return (
        f"{bucket.url} cannot be used: its server does not keep the condition of a put ({condition}), so one "
        "writer could put over what another has put; use a server that keeps conditions"
    )
