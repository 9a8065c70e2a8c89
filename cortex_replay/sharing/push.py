"""Sending the files of a store to its bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.progress import Progress
from cortex_replay.sharing.shared_store import SharedStore
from cortex_replay.store.check import confirm
from cortex_replay.store.index.index import Row
from cortex_replay.store.trust import MAX_FIXTURE_BYTES, Untrusted

__all__ = ["PushPlan", "plan_push"]


@dataclass(slots=True)
class PushPlan:
    """What the bucket lacks of the files of a store."""

    store: SharedStore
    lacking: list[Row] = field(default_factory=list)
    """One row for each object that is to be put."""
    present: int = 0
    """How many objects the bucket has already."""
    pushed_bytes: int = 0
    """How much was put, once it was."""

    def apply(self, progress: Progress | None = None) -> None:
        """Put what the bucket lacks, many objects at once.

        Raises:
            FixtureIntegrityFailed: A file is not what the index vouches for. It was not put.
            StoreIo: The bucket refuses, or does not keep conditional puts.
        """
        if self.lacking:
            self.store.remote.put_many(self._objects(), len(self.lacking), progress)

    def _objects(self) -> Iterator[tuple[str, bytes]]:
        source = self.store.source
        for row, read in source.read_near(self.lacking, MAX_FIXTURE_BYTES):
            try:
                if isinstance(read, Finding):
                    raise Untrusted(read)
                data = confirm(source, row, read)
            except Untrusted as error:
                raise FixtureIntegrityFailed([error.finding]) from None
            self.pushed_bytes += len(data)
            yield row.blake3, data


def plan_push(store: SharedStore) -> PushPlan:
    """Ask the bucket what it lacks.

    Raises:
        FixtureIntegrityFailed: A file is neither here, nor in the cache, nor in the bucket.
        StoreIo: The bucket cannot be asked.
    """
    by_digest = {row.blake3: row for row in reversed(store.files)}
    has = store.remote.has_many(by_digest)
    lacking = [row for digest, row in by_digest.items() if digest not in has][::-1]
    away = [row for row in lacking if row.path in store.elsewhere]
    lost = store.remote.uncached(row.blake3 for row in away)
    if lost:
        url = store.remote.url
        raise FixtureIntegrityFailed(
            [
                Finding("missing", row.path, f"is neither in the work tree, nor in the cache, nor in {url}")
                for row in away
                if row.blake3 in lost
            ]
        )
    return PushPlan(store, lacking, len(by_digest) - len(lacking))
