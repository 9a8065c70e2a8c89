"""What a client is told, kept until a connection takes it, and a while longer for one that comes back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from typing import Final

from cortex_replay.mcp.events import Event
from cortex_replay.mcp.messages import RequestId

__all__ = ["Gone", "Stream"]

_MOST_EVENTS: Final = 1000
_MOST_BYTES: Final = 8 * 2**20


class Gone(Exception):
    """What a client wants to go on from is no longer kept."""


class Stream:
    """Events in order, for one connection at a time. The next one to ask takes it over.

    Args:
        number: Tells it from the other streams of its session.
        expected: The requests whose answers end it; none for one that only its session ends.
    """

    def __init__(self, number: int, expected: Iterable[RequestId] = ()) -> None:
        self.number = number
        self._expected = set(expected)
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._first = 1
        """The number of the oldest event that is kept."""
        self._given = 0
        """The number of the latest that a connection took."""
        self._reader = 0
        """How many connections have had it; the latest has it."""
        self._is_read = bool(self._expected)  # whoever asked is there
        self._change = asyncio.Event()
        self.is_over = False

    @property
    def size(self) -> int:
        """How many bytes it keeps."""
        return self._size

    @property
    def is_read(self) -> bool:
        """Whether a connection has it."""
        return self._is_read

    @property
    def _last(self) -> int:
        return self._first + len(self._kept) - 1

    @property
    def is_told(self) -> bool:
        """Whether there is something that no connection took yet."""
        return self._last > self._given

    async def put(self, frame: bytes, answered: RequestId | None = None) -> None:
        """Say something, which may end it. Waits while a connection is slow; what nobody takes is dropped."""
        while self._is_full and self._given < self._first and self._is_read and not self.is_over:
            await self._wait()
        while self._is_full:
            self._size -= len(self._kept.popleft())
            self._first += 1
        self._kept.append(frame)
        self._size += len(frame)
        if answered is not None:
            self._expected.discard(answered)
            self.is_over = self.is_over or not self._expected
        self._tell()

    @property
    def _is_full(self) -> bool:
        return len(self._kept) >= _MOST_EVENTS or (self._size > _MOST_BYTES and bool(self._kept))

    def leave(self) -> None:
        """Whoever asked has left before it took anything."""
        if not self._reader:
            self._is_read = False
            self._tell()

    def end(self) -> None:
        """Nothing more comes."""
        self.is_over = True
        self._tell()

    def _tell(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    async def _wait(self) -> None:
        await self._change.wait()

    async def until_told(self, seconds: float) -> None:
        """Wait until there is something to send, or it is over, but no longer than this."""
        try:
            async with asyncio.timeout(None if seconds == float("inf") else seconds):
                while not self.is_told and not self.is_over:
                    await self._wait()
        except TimeoutError:
            pass

    @property
    def latest(self) -> bytes:
        """What was said last."""
        return self._kept[-1]

    def sole_answer(self) -> bytes | None:
        """The answer, where nothing else was said; it counts as taken."""
        if self.is_over and len(self._kept) == 1 and not self._given:
            self._given = self._last
            return self._kept[0]
        return None

    def check(self, after: int) -> None:
        """Make sure that a client can go on behind an event.

        Raises:
            Gone: It cannot.
        """
        if not self._first - 1 <= after <= self._last:
            raise Gone

    async def events(self, after: int | None, pause_s: float) -> AsyncGenerator[Event | None]:
        """What follows an event, as it comes; ``None`` whenever nothing came for a while.

        Args:
            after: The number of that event; ``None`` for what no connection took yet.
            pause_s: How long that while is.
        """
        self._reader += 1
        mine, position = self._reader, self._given if after is None else after
        self._is_read = True
        self._tell()
        try:
            while self._reader == mine:
                position = max(position, self._first - 1)
                if position < self._last:
                    position += 1
                    yield Event(self._kept[position - self._first], id=f"{self.number}-{position}")
                    self._given = max(self._given, position)
                    self._tell()
                elif self.is_over:
                    return
                else:
                    change = self._change
                    try:
                        async with asyncio.timeout(pause_s):
                            await change.wait()
                    except TimeoutError:
                        yield None
        finally:
            if self._reader == mine:
                self._is_read = False
                self._tell()
