"""How often a server may be asked."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import insort
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, Protocol

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.errors import InvalidRequest, StoreIo, TurnTooLate

__all__ = ["RequestRate", "Slots"]

_MOST: Final = 100_000
_ROUNDING_S: Final = 1e-6


class Slots(Protocol):
    """Where the moments are kept at which requests go out."""

    def change(self) -> AbstractContextManager[list[float]]:
        """Those that are taken, in order; no other caller changes them at the same time."""


class _OwnSlots:
    """The moments of this process."""

    def __init__(self) -> None:
        self._taken: list[float] = []
        self._lock = threading.Lock()

    @contextmanager
    def change(self) -> Iterator[list[float]]:
        with self._lock:
            yield self._taken


class RequestRate:
    """So many requests a minute, evenly spread: providers count over less than a minute, too.

    Calls go out in the order in which they come, from whatever thread or loop. A call that gives up leaves
    its moment to the next one.

    Args:
        per_minute: How many.
        slots: Where to keep who goes when, if not in this process alone.
        clock: The time in seconds, from wherever; it never goes back.
        sleep: Waits.

    Raises:
        InvalidRequest: It is no such number.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        slots: Slots | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if type(per_minute) is not int or not 1 <= per_minute <= _MOST:
            raise InvalidRequest("requests_per_minute", f"expected a whole number from 1 to {_MOST:,}")
        self.per_minute: Final = per_minute
        self._interval_s = 60 / per_minute
        self._slots = slots or _OwnSlots()
        self._clock = clock
        self._sleep = sleep

    async def turn(self, deadline: Deadline) -> None:
        """Wait until a request may go out.

        Raises:
            TurnTooLate: That would be after the deadline. It did not wait, and delays no other call.
        """
        now = self._clock()
        at = self._take(now, deadline)
        if at > now:
            try:
                await self._sleep(at - now)
            except BaseException:
                # Whatever becomes of its moment, the call gives up.
                with suppress(ValueError, StoreIo), self._slots.change() as taken:
                    taken.remove(at)
                raise

    def _take(self, now: float, deadline: Deadline) -> float:
        with self._slots.change() as taken:
            taken[:] = [moment for moment in taken if moment + self._interval_s > now]
            at = now
            for moment in taken:
                if at + self._interval_s <= moment + _ROUNDING_S:
                    break
                at = max(at, moment + self._interval_s)
            # A call that need not wait may be late for other reasons.
            if at > now and at - now > deadline.remaining_s:
                raise TurnTooLate(deadline.timeout_ms, round((at - now) * 1000), self.per_minute)
            insort(taken, at)
            return at
