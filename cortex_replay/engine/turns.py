"""Whose call it is, and what was given to the calls of one key before."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, Self, TypeVar

from cortex_replay.engine.lines import Line
from cortex_replay.errors import Timeout

__all__ = ["KeyState", "Turns"]

_T = TypeVar("_T")


class Turns:
    """Equal calls of one scope, one after another, whatever thread or loop they come from.

    An ``asyncio.Lock`` belongs to one loop and a ``threading.Lock`` would stop it, so those who
    wait hold a future of the thread-safe kind, and whoever is done wakes the next.
    """

    __slots__ = ("_is_taken", "_lock", "_waiting", "given")  # there are many

    def __init__(self) -> None:
        self.given = 0
        """How many answers were given."""
        self._is_taken = False
        self._waiting: deque[tuple[Future[None], asyncio.AbstractEventLoop]] | None = None
        self._lock = threading.Lock()

    def advance(self) -> None:
        self.given += 1

    @asynccontextmanager
    async def take(self, timeout_ms: int) -> AsyncIterator[Self]:
        """Have the turn, once everybody before has had it.

        Raises:
            Timeout: It did not come in time: most likely the caller itself holds it, with a stream
                of the same key that it has not finished.
        """
        await self._wait(timeout_ms)
        try:
            yield self
        finally:
            self._pass_on()

    async def _wait(self, timeout_ms: int) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            turn: Future[None] = Future()
            if self._waiting is None:
                self._waiting = deque()
            self._waiting.append((turn, asyncio.get_running_loop()))
        try:
            await asyncio.wait_for(asyncio.wrap_future(turn), timeout_ms / 1000)
        except BaseException as error:
            if not turn.cancelled() and not turn.cancel():  # it came in the very moment
                self._pass_on()
            if isinstance(error, TimeoutError):
                raise Timeout(timeout_ms) from None
            raise

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                turn, loop = self._waiting.popleft()
                # Whoever was cancelled, or lost with its loop, would never pass it on.
                if not loop.is_closed() and turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._is_taken = False


@dataclass(slots=True)
class KeyState(Generic[_T]):
    """What a scope has asked of one key, and what was committed when it first did."""

    committed: tuple[_T, ...]
    turns: Turns = field(default_factory=Turns)
    successes: list[_T] = field(default_factory=list)
    is_count_tried: bool = False
    """Whether a repeat was asked to be counted; once is enough, whatever came of it."""
    is_pinned: bool = False
    """Whether what was given is known to be the scope's own."""
    calls: Iterator[int] = field(default_factory=lambda: count(1))
    """Numbers the calls of the scope of this kind, whatever they ask."""
    call: int = 0
    """The number of the call whose turn it is."""
    line: Line | None = None
    """What is staged of the answers."""
    staging: threading.Lock = field(default_factory=threading.Lock)
    """Is held by who stages its answers, where several calls may be open at once."""
    _numbered: int = -1

    def number_call(self) -> None:
        """Give the call whose turn it is the next number of the scope.

        Who asks again, because nothing came of it, keeps the number: in replay, that call is made once.
        """
        if self._numbered != self.turns.given:
            self._numbered = self.turns.given
            self.call = next(self.calls)
