"""A bucket in memory that the workers of a fleet meet in, and that can go away."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from obstore.store import MemoryStore

from cortex_replay.errors import StoreIo
from cortex_replay.remote.bucket import Bucket, Entry, Stamped
from cortex_replay.remote.seals import Seal

__all__ = ["RUN", "SEAL", "MemoryBucket", "enter_fleet"]

RUN = "a name that only the workers know"
SEAL = Seal.of(RUN)
_List = list  # which a bucket has a method of that name for


class MemoryBucket(Bucket):
    """Objects in memory, on the same conditions as elsewhere."""

    __slots__ = ("gates", "is_gone", "puts")

    def __init__(self) -> None:
        super().__init__(MemoryStore(), "s3://team/agents")
        object.__setattr__(self, "is_gone", [])
        object.__setattr__(self, "puts", [])
        object.__setattr__(self, "gates", [])

    gates: _List[threading.Event]
    """What all who ask something wait for."""
    is_gone: _List[bool]
    """Not empty while it cannot be reached."""
    puts: _List[str]
    """The names of all that was put, or tried to."""

    async def fetch(self, name: str) -> Stamped | None:
        self._look()
        return await super().fetch(name)

    async def create(self, name: str, data: bytes) -> bool:
        self._look()
        self.puts.append(name)
        return await super().create(name, data)

    async def update(self, name: str, data: bytes, version: str) -> bool:
        self._look()
        self.puts.append(name)
        return await super().update(name, data, version)

    async def entries(self, prefix: str) -> Sequence[Entry]:
        self._look()
        return await super().entries(prefix)

    def names(self, kind: str) -> _List[str]:
        """The objects of a kind in the run's folder."""
        return sorted(entry.name for entry in self.list(f"{SEAL.folder}{kind}"))

    def _look(self) -> None:
        for gate in self.gates:
            gate.wait(60)
        if self.is_gone:
            raise StoreIo(f"{self.url} cannot be asked: the connection was refused")


def enter_fleet(patch: pytest.MonkeyPatch) -> MemoryBucket:
    """Make this process's environment that of a worker; gives the bucket."""
    bucket = MemoryBucket()
    patch.setenv("CORTEX_REPLAY_RUN", RUN)
    patch.setenv("CORTEX_REPLAY_REMOTE", bucket.url)
    patch.setattr(Bucket, "open", staticmethod(lambda *_: bucket))
    return bucket
