"""Waiting for a bucket: in a thread with a loop of its own, so that the caller may stand inside a running
one, and so that an interrupt ends the wait at once. No thread outlives the call.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextvars import Context, ContextVar
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any, Final, Generic, Self, TypeVar, TypeVarTuple, Unpack

__all__ = ["AT_ONCE", "MOST_BYTES", "make_room", "many", "run"]

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_R = TypeVar("_R")

AT_ONCE: Final = 48
"""How many objects are asked for at a time. Measured: more make no server faster."""
MOST_BYTES: Final = 2**27
"""How much of what was read may wait for the caller; one object more than that, if it is alone."""
_NOTEWORTHY: Final = 2**16
"""Smaller objects are not counted: there are few of them at a time."""
_LOOK_EVERY_S: Final = 0.001
_MOST_LOOKS: Final = 1000
_WINDOW: Final = 2 * AT_ONCE
"""How many are under way, or wait for the caller."""


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Do some work, and wait for it."""
    with _Loop() as loop:
        return loop.submit(work).result()


def many(jobs: Iterable[_T], work: Callable[[_T], Awaitable[_R]]) -> Iterator[tuple[_T, _R | Exception]]:
    """Do many jobs, some at a time; each comes back with its result, or with what it raised, in any order.

    The caller's thread takes the jobs from their iterable, no more than are soon done. Who stops early
    cancels the rest.
    """
    with _Loop() as loop:
        yield from _Crowd(loop, work).go(iter(jobs))


class _QuietLoop(asyncio.SelectorEventLoop):
    """A loop that may be closed before the engine's threads know of it: what they bring then is not wanted,
    and they would print a traceback."""

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        except RuntimeError:
            return asyncio.Handle(callback, args, self, context)


class _Loop:
    """A loop in a thread, for as long as a ``with`` block lasts."""

    loop: asyncio.AbstractEventLoop
    _end: asyncio.Event

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="cortex-replay-bucket", daemon=True
        )
        self._thread.start()
        ready.wait()
        return self

    def _run(self, ready: threading.Event) -> None:
        # Python's own loop, whatever this process has installed: its frames tell who is within a call of it.
        with asyncio.Runner(loop_factory=_QuietLoop) as runner:
            runner.run(self._serve(ready))

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        _wait_for_callbacks()

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def _serve(self, ready: threading.Event) -> None:
        self.loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        ready.set()
        await self._end.wait()  # what is under way then is cancelled


def _wait_for_callbacks() -> None:
    """Wait until no thread of the engine is telling a loop of a result any more.

    It tells by a call into Python, and we may have the result while it still waits to return from there. If
    the process ends meanwhile, the interpreter stops that thread, and the engine aborts the process.
    """
    calls = [kind.call_soon_threadsafe.__code__ for kind in (asyncio.BaseEventLoop, _QuietLoop)]
    for _ in range(_MOST_LOOKS):
        if not any(_is_within(calls, frame) for frame in sys._current_frames().values()):  # noqa: SLF001
            return
        time.sleep(_LOOK_EVERY_S)


def _is_within(calls: list[CodeType], frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in calls:
            return True
        frame = frame.f_back
    return False


class _Crowd(Generic[_T, _R]):
    """Jobs under way."""

    def __init__(self, loop: _Loop, work: Callable[[_T], Awaitable[_R]]) -> None:
        self._loop = loop.loop
        self._work = work
        self._results: SimpleQueue[tuple[_T, _R | Exception, _Share]] = SimpleQueue()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._room = _Room()
        self._tasks: set[asyncio.Task[None]] = set()

    def go(self, jobs: Iterator[_T]) -> Iterator[tuple[_T, _R | Exception]]:
        under_way = 0
        is_more = True
        while is_more or under_way:
            batch: list[_T] = []
            while is_more and under_way + len(batch) < _WINDOW:
                try:
                    batch.append(next(jobs))
                except StopIteration:
                    is_more = False
            if batch:
                under_way += len(batch)
                self._loop.call_soon_threadsafe(self._start, batch)
            while under_way and not (is_more and under_way <= _WINDOW // 2):
                job, result, share = self._results.get()
                under_way -= 1
                yield job, result
                if share.size:
                    self._loop.call_soon_threadsafe(self._room.give, share.size)

    def _start(self, batch: list[_T]) -> None:
        for job in batch:
            task = self._loop.create_task(self._do(job))
            self._tasks.add(task)  # a loop alone does not keep its tasks alive
            task.add_done_callback(self._tasks.discard)

    async def _do(self, job: _T) -> None:
        result: _R | Exception
        share = _Share(self._room)
        async with self._gate:
            _share.set(share)
            try:
                result = await self._work(job)
            except Exception as error:  # noqa: BLE001 - the caller gets it with its job
                result = error
        self._results.put((job, result, share))


class _Room:
    """How many bytes may wait for the caller."""

    def __init__(self) -> None:
        self._taken = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def take(self, size: int) -> None:
        while self._taken and self._taken + size > MOST_BYTES:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self._taken += size

    def give(self, size: int) -> None:
        self._taken -= size
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)


class _Share:
    """What one job takes of the room."""

    def __init__(self, room: _Room) -> None:
        self.room = room
        self.size = 0


_share: ContextVar[_Share | None] = ContextVar("_share", default=None)


async def make_room(size: int) -> None:
    """Wait until so many bytes may be read, where many jobs are done at once."""
    share = _share.get()
    if share is not None and size >= _NOTEWORTHY:
        await share.room.take(size)
        share.size += size
