"""Room for bodies: how much of what clients send is in memory at once."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from types import TracebackType
from typing import Final, Self

__all__ = ["FREE_BYTES", "NoRoom", "Place", "Room"]

FREE_BYTES: Final = 64 * 1024
"""A body up to this size needs no place: there are only so many connections."""
_STEP: Final = 256 * 1024
_PATIENCE_S: Final = 30.0
_GRACE_S: Final = 4.0
_SLOWEST: Final = 4 * 2**20
"""How many bytes a second come of a body that others wait for."""


class NoRoom(Exception):
    """There was none for a long time."""


class Room:
    """Bytes that bodies share. Of those who wait, the smallest comes first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.free = most
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self.readers: set[Place] = set()
        """Those whose bodies are on their way."""

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for it."""
        return any(not turn.done() for _, _, turn in self._waiting)

    async def take(self, size: int) -> None:
        """Have so many bytes, once they are free.

        Raises:
            NoRoom: They did not become free.
        """
        if size <= self.free and not self._waiting:
            self.free -= size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (size, next(self._numbers), turn))
        self._let_in()
        if not turn.done():
            for reader in self.readers:
                reader.hurry()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.shield(turn)
        except BaseException as error:
            if not turn.cancel():  # it came in the very moment
                self.give(size)
            if isinstance(error, TimeoutError):
                raise NoRoom from None
            raise

    def give(self, size: int) -> None:
        """Give bytes back."""
        self.free += size
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and (self._waiting[0][2].done() or self._waiting[0][0] <= self.free):
            size, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self.free -= size
                turn.set_result(None)


class Place:
    """The room of one call: it grows with its body, and ends with the call."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held = 0
        self._limit: asyncio.Timeout | None = None
        self._began = 0.0
        self._is_waiting = False

    def reading(self, seconds: float) -> _Reading:
        """The time that a body may take: so many seconds, and fewer when it holds what others wait for.

        Raises:
            TimeoutError: It did not come.
        """
        return _Reading(self, asyncio.timeout(seconds))

    def begin(self, limit: asyncio.Timeout) -> None:
        self._limit, self._began = limit, asyncio.get_running_loop().time()
        self._room.readers.add(self)
        if self._room.is_awaited:
            self.hurry()

    def end(self) -> None:
        self._room.readers.discard(self)

    def hurry(self) -> None:
        """Somebody waits for what this one holds."""
        if self._limit is None or self._limit.expired() or self._is_waiting or not self._held:
            return
        latest = self._began + _GRACE_S + self._held / _SLOWEST
        now = self._limit.when()
        if now is None or latest < now:
            self._limit.reschedule(latest)

    async def hold(self, size: int) -> None:
        """Have room for a body of this size, of which no more is known.

        Raises:
            NoRoom: See :meth:`Room.take`.
        """
        wanted = min(size, self._room.most) - self._held
        if size <= FREE_BYTES or wanted <= 0:
            return
        self._is_waiting = True
        try:
            await self._room.take(wanted)
        finally:
            self._is_waiting = False
        self._held += wanted
        self._began = asyncio.get_running_loop().time()

    async def hold_part(self, size: int) -> None:
        """Have room for what there is so far of a body that does not say how long it is."""
        if size > max(FREE_BYTES, self._held):
            await self.hold(max(size, 2 * self._held, _STEP))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._room.give(self._held)
            self._held = 0


class _Reading:
    """A class, because it stands around every call: a generator would cost as much as answering does."""

    __slots__ = ("_limit", "_place")

    def __init__(self, place: Place, limit: asyncio.Timeout) -> None:
        self._place = place
        self._limit = limit

    async def __aenter__(self) -> None:
        self._place.begin(await self._limit.__aenter__())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._place.end()
        await self._limit.__aexit__(kind, error, trace)
