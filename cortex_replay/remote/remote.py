"""The remote of a store: its files by their BLAKE3, from the cache or from the bucket.

A bucket only has bytes, and who writes to it is not trusted: what does not have the hash that it is called by
is neither handed out nor kept.

What asks a bucket is loaded when one is asked: most stores have none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cortex_replay.config.remote import (
    OFFLINE_VARIABLE,
    Keep,
    RemoteSettings,
    cache_folder,
    is_offline,
)
from cortex_replay.config.store_remote import remote_settings_for
from cortex_replay.errors import StoreIo
from cortex_replay.hashing import blake3_hex
from cortex_replay.progress import Progress
from cortex_replay.remote.cache import Cache, object_name
from cortex_replay.remote.objects import BucketDenied, BucketError, ObjectTooLarge

if TYPE_CHECKING:
    from cortex_replay.remote.bucket import Bucket

__all__ = ["Problem", "Remote", "remote_for"]

_HEADS: Final = 256
"""For how many objects it is cheaper to ask for each than to list all 256 folders."""
_GIVE_UP: Final = 16
"""After how many failures in a row a bucket is asked for no more."""
_REST_SECONDS: Final = 30
"""For how long a bucket that was given up is not asked again."""

_clock = time.monotonic


class Problem(NamedTuple):
    """Why an object cannot be had."""

    reason: str
    """What a sentence about a file ends with."""
    hint: str | None = None
    """What to do."""
    is_wrong: bool = False
    """Whether the bucket has something else in its place."""
    is_absent: bool = False
    """Whether the bucket was asked, and has none."""

    @property
    def is_outage(self) -> bool:
        """Whether the bucket could not be asked, which tells nothing of the object."""
        return not (self.is_wrong or self.is_absent)


class Remote:
    """A bucket and the cache before it.

    Args:
        settings: Which bucket, and what is kept there.
        environment: ``os.environ``, or what stands for it.
    """

    def __init__(self, settings: RemoteSettings, environment: Mapping[str, str] = os.environ) -> None:
        self.settings = settings
        self.url = settings.url or ""
        self._environment = environment
        self._given_up: tuple[float, BucketError] | None = None
        self._has_probed = False

    @property
    def keep(self) -> Keep:
        return self.settings.keep

    @property
    def large(self) -> int:
        return self.settings.large

    @cached_property
    def cache(self) -> Cache:
        return Cache(cache_folder(self._environment), self.settings.cache_size)

    @cached_property
    def _opened(self) -> Bucket:
        from cortex_replay.remote.bucket import Bucket  # noqa: PLC0415

        return Bucket.open(self.url, self.settings.region, self._environment)

    @property
    def bucket(self) -> Bucket:
        """The bucket, open.

        Raises:
            StoreIo: It cannot be opened, or nothing is to be asked.
        """
        if is_offline(self._environment):
            raise BucketError(f"{self.url} was not asked, since {OFFLINE_VARIABLE} is set")
        if self._given_up is not None:
            at, error = self._given_up
            if _clock() - at < _REST_SECONDS:
                raise error
            self._given_up = None
        return self._opened

    def prepare(self) -> None:
        """Find the cache and the credentials now: a test may change the environment before they are needed.
        If the bucket cannot be opened, that is said when it is asked."""
        _ = self.cache
        with suppress(StoreIo):
            _ = self.bucket

    def cached(self, digest: str) -> bytes | None:
        """A file, if it is in the cache."""
        return self.cache.get(digest)

    def uncached(self, digests: Iterable[str]) -> set[str]:
        """Those that are not in the cache."""
        return self.cache.lacking(digests)

    def get(self, digest: str, *, fresh: bool = False) -> bytes | Problem:
        """A file, from the cache or from the bucket.

        Args:
            digest: Its BLAKE3.
            fresh: Whether to ask the bucket also for what is in the cache.
        """
        [(_, found)] = self.fetch([digest], fresh=fresh)
        return found

    def fetch(
        self, digests: Iterable[str], progress: Progress | None = None, *, fresh: bool = False
    ) -> Iterator[tuple[str, bytes | Problem]]:
        """Many files, in any order, each once: from the cache, then many at a time from the bucket.

        Where a bucket fails again and again, the rest is not asked for, and has the same problem.
        """
        wanted = list(dict.fromkeys(digests))
        tally = _Tally(len(wanted), progress)
        lacking: list[str] = []
        for digest in wanted:
            data = None if fresh else self.cache.get(digest)
            if data is None:
                lacking.append(digest)
            else:
                tally.add()
                yield digest, data
        if not lacking:
            return
        try:
            for digest, found in self._fetch(lacking):
                tally.add()
                yield digest, found
        finally:
            self.cache.count()

    def has_many(self, digests: Iterable[str]) -> set[str]:
        """Those that the bucket has.

        Raises:
            StoreIo: It cannot be asked.
        """
        return set(self.sizes(digests))

    def sizes(self, digests: Iterable[str]) -> dict[str, int]:
        """How large the objects are that the bucket has; nothing is fetched.

        Raises:
            StoreIo: It cannot be asked.
        """
        from cortex_replay.remote import waiting  # noqa: PLC0415

        wanted = set(digests)
        bucket = self.bucket
        if len(wanted) > _HEADS:
            try:
                return _sizes_by_lists(bucket, wanted)
            except BucketDenied:
                pass  # as in many public buckets, where objects can be read and not listed
        found: dict[str, int] = {}
        for digest, size in waiting.many(wanted, lambda digest: bucket.measure(object_name(digest))):
            if isinstance(size, Exception):
                raise size
            if size is not None:
                found[digest] = size
        if wanted and not found:
            with suppress(BucketDenied):
                list(bucket.list("b3/none"))  # is there such a bucket? A HEAD does not tell
        return found

    def put_many(
        self, objects: Iterable[tuple[str, bytes]], count: int, progress: Progress | None = None
    ) -> None:
        """Put files into the bucket, many at a time. One that is there stays as it is.

        Args:
            objects: Digests and bytes, taken as they are needed.
            count: How many there are.
            progress: See :data:`Progress`.

        Raises:
            StoreIo: One cannot be put, or the bucket would put over what is there.
        """
        from cortex_replay.remote import waiting  # noqa: PLC0415

        bucket = self.bucket
        self.probe()
        tally = _Tally(count, progress)
        for _, result in waiting.many(objects, lambda one: bucket.create(object_name(one[0]), one[1])):
            if isinstance(result, Exception):
                raise result
            tally.add()

    def probe(self) -> None:
        """See that the bucket keeps conditions, once.

        Raises:
            StoreIo: It does not, or cannot be written.
        """
        if not self._has_probed:
            from cortex_replay.remote.probe import refuse_unconditional  # noqa: PLC0415

            refuse_unconditional(self.bucket)
            self._has_probed = True

    def _fetch(self, digests: list[str]) -> Iterator[tuple[str, bytes | Problem]]:
        from cortex_replay.remote import waiting  # noqa: PLC0415

        left = dict.fromkeys(digests)
        failures = 0
        last: BucketError | None = None
        try:
            bucket = self.bucket
        except StoreIo as error:
            yield from ((digest, _problem_of(error)) for digest in digests)
            return
        # Hashed and cached where it arrives: two threads that both call the system wait for each other.
        for digest, result in waiting.many(digests, lambda digest: self._fetch_one(bucket, digest)):
            del left[digest]
            if isinstance(result, BucketError):
                failures, last = failures + 1, result
                yield digest, _problem_of(result)
            elif isinstance(result, Exception):
                raise result
            else:
                failures = 0
                yield digest, result
            if failures >= _GIVE_UP and left:
                break
        if last is not None and failures == min(_GIVE_UP, len(digests)):
            if not isinstance(last, BucketDenied):
                self._given_up = (_clock(), last)
            yield from ((digest, _problem_of(last)) for digest in left)

    async def _fetch_one(self, bucket: Bucket, digest: str) -> bytes | Problem:
        try:
            found = await bucket.fetch(object_name(digest))
        except ObjectTooLarge as error:
            return Problem(f"{self.url} has something else in its place: {error.args[0]}", is_wrong=True)
        if found is None:
            hint = "who recorded it has yet to run: cortex-replay push"
            return Problem(f"{self.url} does not have it", hint, is_absent=True)
        if blake3_hex(found.data) != digest:
            reason = f"{self.url} has other bytes in its place ({len(found.data):,} of them)"
            hint = "the object was changed or damaged; delete it there, and push it again"
            return Problem(reason, hint, is_wrong=True)
        self.cache.put(digest, found.data)
        return found.data


class _Tally:
    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total = total
        self._progress = progress
        self._done = 0

    def add(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def _problem_of(error: StoreIo) -> Problem:
    reason, _, hint = str(error.args[0]).partition("; ")
    return Problem(reason, hint or "what was fetched before (cortex-replay pull) needs no bucket")


def _sizes_by_lists(bucket: Bucket, wanted: set[str]) -> dict[str, int]:
    from cortex_replay.remote import waiting  # noqa: PLC0415

    folders = sorted({digest[:2] for digest in wanted})
    found: dict[str, int] = {}
    for _, entries in waiting.many(folders, lambda folder: bucket.entries(f"b3/{folder}")):
        if isinstance(entries, Exception):
            raise entries
        for entry in entries:
            digest = entry.name.rpartition("/")[2]
            if digest in wanted:
                found[digest] = entry.size
    return found


def remote_for(store_root: Path, environment: Mapping[str, str] = os.environ) -> Remote | None:
    """The remote of the store at ``store_root``, if it has one. Nothing is asked yet.

    Raises:
        ConfigError: The configuration is not sound; ``field`` says where.
    """
    settings = remote_settings_for(store_root, environment)
    return None if settings is None else Remote(settings, environment)
