"""Who asks: of all the scopes of one run that need the same answer, one calls and the others wait.

A claim is held while its answer is being fetched. Whoever gets it next finds the answer, or nothing
if the holder failed, and then it is the one to call.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from cortex_replay.disk import Folder, fcntl
from cortex_replay.engine.budget import Counters
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.engine.turns import Turns
from cortex_replay.errors import StoreIo, Timeout
from cortex_replay.hashing import blake3_hex
from cortex_replay.store import Fixture, FixtureKey
from cortex_replay.store.exchange import Exchange, parse_exchange, render_exchange
from cortex_replay.store.fixture_json import FixtureError, parse_fixture, render_fixture

__all__ = [
    "Claim",
    "Claims",
    "FileClaims",
    "FileSlots",
    "FileSpending",
    "MemoryClaims",
    "RunFolder",
    "parse_outcome",
    "render_outcome",
]

_ALIVE: Final = "alive"
_SPENDING: Final = "spending"
_SPENDING_BYTES: Final = 80
_FAILURE: Final = b"failure "
_FIRST_LOOK_S: Final = 0.002
_LONGEST_LOOK_S: Final = 0.05


class Claim(Protocol):
    """The right to fetch one answer."""

    @property
    def outcome(self) -> Outcome | None:
        """What another scope has got; ``None``: the holder is to ask."""

    def settle(self, outcome: Outcome) -> None:
        """Leave it to those who wait."""


class Claims(Protocol):
    """The claims of one run."""

    def claim(self, key: FixtureKey, n: int, timeout_ms: int) -> AbstractAsyncContextManager[Claim]:
        """Hold the claim to answer ``n`` of a key, once everybody before has let go of it."""


@dataclass(frozen=True, slots=True)
class FileSpending:
    """What all processes of a run have spent. What a process set aside when it died stays set aside."""

    folder: RunFolder

    @contextmanager
    def change(self) -> Iterator[Counters]:
        with self.folder.open(_SPENDING) as descriptor, _storing():
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            counters = Counters(*map(int, os.pread(descriptor, 100, 0).split()))
            before = replace(counters)
            yield counters
            if counters != before:
                text = f"{counters.calls} {counters.tokens} {counters.reserved}".encode()
                os.pwrite(descriptor, text.ljust(_SPENDING_BYTES), 0)


@dataclass(frozen=True, slots=True)
class FileSlots:
    """When the requests of all processes of a run go out to one provider. They read one clock, that of the
    machine."""

    folder: RunFolder
    provider: str

    @contextmanager
    def change(self) -> Iterator[list[float]]:
        name = f"rate-{blake3_hex(self.provider.encode())[:40]}"
        with self.folder.open(name) as descriptor, _storing():
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            taken = _moments_in(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
            yield taken
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, " ".join(map(repr, taken)).encode(), 0)


def _moments_in(data: bytes) -> list[float]:
    try:
        return [float(moment) for moment in data.split()]
    except ValueError:  # its writer was killed
        return []


@dataclass
class _Slot:
    turns: Turns = field(default_factory=Turns)
    outcome: Outcome | None = None

    def settle(self, outcome: Outcome) -> None:
        self.outcome = outcome


class MemoryClaims:
    """The claims of a run that is this process, kept for as long as its store is."""

    def __init__(self) -> None:
        self._slots: dict[tuple[FixtureKey, int], _Slot] = {}
        self._lock = threading.Lock()

    @asynccontextmanager
    async def claim(self, key: FixtureKey, n: int, timeout_ms: int) -> AsyncIterator[Claim]:
        with self._lock:
            slot = self._slots.setdefault((key, n), _Slot())
        async with slot.turns.take(timeout_ms):
            yield slot


class _FileClaim:
    def __init__(self, descriptor: int, key: FixtureKey) -> None:
        self._descriptor = descriptor
        self._key = key
        self.outcome = self._read()

    def _read(self) -> Outcome | None:
        data = os.pread(self._descriptor, os.fstat(self._descriptor).st_size, 0)
        return parse_outcome(data) if data else None  # one that cannot be read is of a writer that was killed

    def settle(self, outcome: Outcome) -> None:
        data = render_outcome(self._key, outcome)
        with _storing():
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, data, 0)
        self.outcome = outcome


def render_outcome(key: FixtureKey, outcome: Outcome) -> bytes:
    """What was got for a key, as it is left to those who wait."""
    if isinstance(outcome, Exchange):
        return _FAILURE + render_exchange(outcome)
    return render_fixture(Fixture(key, (outcome,), meta=outcome.meta))


def parse_outcome(data: bytes) -> Outcome | None:
    """What was left; ``None`` if it cannot be read."""
    try:
        if data.startswith(_FAILURE):
            return parse_exchange(data[len(_FAILURE) :])
        fixture = parse_fixture(data)
    except FixtureError:
        return None
    return replace(fixture.answers[0], meta=fixture.meta)


class RunFolder:
    """Where the processes of one run meet.

    A run lives as long as a process of it does. The first process of a new one, even if it has the name
    of an old one, finds nobody there and clears up.
    """

    def __init__(self, folder: Folder) -> None:
        if fcntl is None:  # pragma: no cover - Windows
            raise StoreIo("recording needs Linux or macOS; on Windows a store can be read and verified")
        self._folder = folder
        with ExitStack() as held, _storing():
            held.callback(folder.close)
            alive = folder.open_private(_ALIVE)
            held.callback(os.close, alive)
            with suppress(BlockingIOError):
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for old in folder.entries():
                    if old.name != _ALIVE:
                        folder.unlink(old.name)
            fcntl.flock(alive, fcntl.LOCK_SH)
            self._alive = weakref.finalize(self, held.pop_all().close)

    def close(self) -> None:
        self._alive()

    def agree(self, name: str, proposal: str) -> str:
        """What the first process of the run said that asked for this; the proposal, if that is this one.

        Raises:
            StoreIo: It cannot be read or written.
        """
        with self.open(name) as descriptor, _storing():
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # for as long as a line is written
            said = os.pread(descriptor, 1024, 0).decode(errors="replace")
            if not said:
                os.pwrite(descriptor, proposal.encode(), 0)
            return said or proposal

    @contextmanager
    def open(self, name: str) -> Iterator[int]:
        """A descriptor of one of its files, which is made if it is not there.

        Raises:
            StoreIo: It cannot be opened.
        """
        with _storing():
            descriptor = self._folder.open_private(name)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class FileClaims:
    """The claims of a run of several processes: a locked file each. The kernel frees those of the dead."""

    folder: RunFolder

    @asynccontextmanager
    async def claim(self, key: FixtureKey, n: int, timeout_ms: int) -> AsyncIterator[Claim]:
        name = blake3_hex(f"{key.prompt_hash}\n{n}\n{key.model}".encode())[:40]
        with self.folder.open(name) as descriptor:
            await _lock(descriptor, timeout_ms)
            yield _FileClaim(descriptor, key)


@contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise StoreIo(f"the run's folder cannot be written: {error.strerror}{where}") from None


async def _lock(descriptor: int, timeout_ms: int) -> None:
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
