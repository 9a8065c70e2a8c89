"""Who asks: of all the scopes of one run that need the same answer, one calls and the others wait.

A claim is held while its answer is being fetched. Whoever gets it next finds the answer, or nothing
if the holder failed, and then it is the one to call.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from cortex_replay.adapters.turns import Turns
from cortex_replay.errors import StoreIo, Timeout
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import Answer, Fixture, FixtureKey
from cortex_replay.store.fixture import FixtureError, parse_fixture, render_fixture

try:
    import fcntl
except ImportError:  # Windows, where nothing is recorded
    fcntl = None  # type: ignore[assignment]

__all__ = ["Claim", "Claims", "FileClaims", "MemoryClaims"]

_FIRST_LOOK_S: Final = 0.002
_LONGEST_LOOK_S: Final = 0.05


class Claim(Protocol):
    """The right to fetch one answer."""

    @property
    def answer(self) -> Answer | None:
        """What another scope has fetched; ``None``: the holder is to do it."""

    def settle(self, answer: Answer) -> None:
        """Leave the answer to those who wait."""


class Claims(Protocol):
    """The claims of one run."""

    def claimed(self, key: FixtureKey, n: int, timeout_ms: int) -> AbstractAsyncContextManager[Claim]:
        """Hold the claim to answer ``n`` of a key, once everybody before has let go of it."""


class _Slot:
    def __init__(self) -> None:
        self.turns = Turns()
        self.answer: Answer | None = None

    def settle(self, answer: Answer) -> None:
        self.answer = answer


class MemoryClaims:
    """The claims of a run that is this process."""

    def __init__(self) -> None:
        self._slots: dict[tuple[FixtureKey, int], _Slot] = {}
        self._lock = threading.Lock()

    @asynccontextmanager
    async def claimed(self, key: FixtureKey, n: int, timeout_ms: int) -> AsyncIterator[Claim]:
        with self._lock:
            slot = self._slots.setdefault((key, n), _Slot())
        async with slot.turns.taken(timeout_ms):
            yield slot

    def forget(self) -> None:
        """Start anew: what was committed is the store's to give."""
        with self._lock:
            self._slots.clear()


class _FileClaim:
    def __init__(self, descriptor: int, key: FixtureKey) -> None:
        self._descriptor = descriptor
        self._key = key
        self.answer = self._read()

    def _read(self) -> Answer | None:
        size = os.fstat(self._descriptor).st_size
        try:
            return parse_fixture(os.pread(self._descriptor, size, 0)).answers[0] if size else None
        except FixtureError:
            return None  # its writer was killed

    def settle(self, answer: Answer) -> None:
        data = render_fixture(Fixture(self._key, (answer,)))
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, data, 0)
        self.answer = answer


class FileClaims:
    """The claims of a run of several processes: a locked file each. The kernel frees those of the dead."""

    def __init__(self, folder: Path) -> None:
        if fcntl is None:
            raise StoreIo("recording needs Linux or macOS; on Windows a store can be read and verified")
        self._folder = folder

    @asynccontextmanager
    async def claimed(self, key: FixtureKey, n: int, timeout_ms: int) -> AsyncIterator[Claim]:
        name = blake3_hex(f"{key.prompt_hash}\n{n}\n{key.model}".encode())[:40]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreIo(f"the run's folder cannot be written: {error.strerror}") from None
        try:
            await _locked(descriptor, timeout_ms)
            yield _FileClaim(descriptor, key)
        finally:
            os.close(descriptor)


async def _locked(descriptor: int, timeout_ms: int) -> None:
    """Wait for the lock without holding up the loop; nobody tells when a file is unlocked."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    pause = _FIRST_LOOK_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            return
        if loop.time() + pause > deadline:
            raise Timeout(timeout_ms)
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_LOOK_S)
