"""What a client is told, kept until a connection takes it, and a while longer for one that comes back."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final

from cortex_replay.hashing import blake3_hex
from cortex_replay.mcp.events import Event
from cortex_replay.mcp.messages import RequestId

__all__ = ["APART", "Gone", "Order", "Stream", "stream_name"]

_MOST_EVENTS: Final = 1000
_MOST_BYTES: Final = 8 * 2**20
_TURN_S: Final = 1.0
"""How long an event waits for an earlier one that another connection is slow to take."""


APART: Final = "0"
"""The name of the stream for what belongs to no request."""
_LONGEST_NAME: Final = 18


def stream_name(asked: Sequence[RequestId]) -> str:
    """The name of the stream for requests: by the client's own ids, since chance has a hand in which of
    several connections comes first."""
    if len(asked) == 1 and isinstance(asked[0], int) and len(name := f"r{asked[0]}") <= _LONGEST_NAME:
        return name
    return f"s{blake3_hex(repr(list(asked)).encode())[:16]}"


class Gone(Exception):
    """What a client wants to go on from is no longer kept."""


class Order:
    """The order in which the streams of a session are written, whatever connections they have: that in which
    things were said."""

    def __init__(self) -> None:
        self._last = 0
        self._change = asyncio.Event()
        self._streams: set[Stream] = set()

    def add(self, stream: Stream) -> None:
        """One more stream, until it ends and all of it is taken."""
        self._streams.add(stream)

    def number(self) -> int:
        """The place of what is said now."""
        self._last += 1
        return self._last

    def tell(self) -> None:
        """Something was said or taken."""
        self._change.set()
        self._change = asyncio.Event()

    async def change(self) -> None:
        """Wait until then."""
        await self._change.wait()

    async def turn(self, number: int, mine: Stream) -> None:
        """Wait until what was said before is written, where a connection is there for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TURN_S):
                while any(
                    one.is_read and one is not mine and one.is_waiting_since(number) for one in self._streams
                ):
                    await self.change()

    def discard(self, stream: Stream) -> None:
        """A stream is over, and nothing waits for it."""
        self._streams.discard(stream)
        self.tell()


class Stream:
    """Events in order, for one connection at a time. The next one to ask takes it over.

    Args:
        name: Tells it from the other streams of its session.
        order: Theirs.
        expected: The requests whose answers end it; none for one that only its session ends.
    """

    def __init__(self, name: str, order: Order, expected: Iterable[RequestId] = ()) -> None:
        self.name = name
        self._order = order
        self._expected = set(expected)
        self._kept: deque[tuple[int, bytes]] = deque()
        """Places in the order, and frames."""
        self._size = 0
        self._first = 1
        """The number of the oldest event that is kept."""
        self._given = 0
        """The number of the latest that a connection took."""
        self._reader = 0
        """How many connections have had it; the latest has it."""
        self._is_read = bool(self._expected)  # the connection that asked is there
        self._is_deferred = False
        """Whether nothing comes until the client says something."""
        self.is_over = False
        self.is_broken = False
        """Whether its connection is to break behind what was said last."""
        order.add(self)

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

    @property
    def latest(self) -> bytes:
        """What was said last; nothing if it ended before anything was."""
        return self._kept[-1][1] if self._kept else b""

    def is_waiting_since(self, number: int) -> bool:
        """Whether something is not taken yet that was said before a place in the order."""
        place = max(self._given + 1 - self._first, 0)
        return place < len(self._kept) and self._kept[place][0] < number

    async def put(self, frame: bytes, answered: RequestId | None = None) -> None:
        """Say something, which may end it. Waits while a connection is slow; what is not taken is dropped."""
        while self._is_full and self._given < self._first and self._is_read and not self.is_over:
            await self._order.change()
        while self._is_full:
            self._size -= len(self._kept.popleft()[1])
            self._first += 1
        self._kept.append((self._order.number(), frame))
        self._size += len(frame)
        if answered is not None:
            self._expected.discard(answered)
            self.is_over = self.is_over or not self._expected
        self._order.tell()

    @property
    def _is_full(self) -> bool:
        return len(self._kept) >= _MOST_EVENTS or (self._size > _MOST_BYTES and bool(self._kept))

    def settle(self) -> None:
        """Its request is taken: what was not said yet waits for the client."""
        self._is_deferred = not self.is_over
        self._order.tell()

    def leave(self) -> None:
        """The connection that asked has its answer, or has left before it took anything."""
        if not self._reader:
            self._is_read = False
            self._order.tell()
        if self.is_over:
            self._order.discard(self)

    def end(self) -> None:
        """Nothing more comes."""
        self.is_over = True
        self._order.tell()

    def break_off(self) -> None:
        """Nothing more comes, not even an end."""
        self.is_broken = True
        self.end()

    async def until_told(self, seconds: float | None) -> None:
        """Wait until there is something to send, or nothing comes by itself, but no longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not (self.is_told or self.is_over or self._is_deferred):
                    await self._order.change()

    async def sole_answer(self) -> bytes | None:
        """The answer, where nothing else was said, and nothing was waited for."""
        if not self.is_over or self._is_deferred or len(self._kept) != 1 or self._given:
            return None
        number, frame = self._kept[0]
        await self._order.turn(number, self)
        return frame

    def check(self, after: int) -> None:
        """Make sure that a client can go on behind an event.

        Raises:
            Gone: It cannot.
        """
        if not self._first - 1 <= after <= self._last:
            raise Gone

    def event_id(self, position: int) -> str:
        """What a client that comes back names an event by."""
        return f"{self.name}-{position}"

    async def events(self, after: int | None, pause_s: float) -> AsyncGenerator[Event | None]:
        """What follows an event, as it comes; ``None`` whenever nothing came for a while.

        Args:
            after: The number of that event; ``None`` for what no connection took yet.
            pause_s: How long that while is.
        """
        self._reader += 1
        mine, position = self._reader, self._given if after is None else after
        self._is_read = True
        self._order.tell()
        try:
            while self._reader == mine:
                position = max(position, self._first - 1)
                if position < self._last:
                    number, frame = self._kept[position + 1 - self._first]
                    if position >= self._given:
                        await self._order.turn(number, self)
                    if self._reader != mine:
                        return
                    position += 1
                    yield Event(frame, id=self.event_id(position))
                    self._given = max(self._given, position)
                    self._order.tell()
                elif self.is_over:
                    return
                else:
                    try:
                        async with asyncio.timeout(pause_s):
                            await self._order.change()
                    except TimeoutError:
                        yield None
        finally:
            if self._reader == mine:
                self._is_read = False
                self._order.tell()
