"""Many jobs at once: bounded, in any order, and none left behind."""

from __future__ import annotations

import _thread
import asyncio
import sys
import threading
from collections.abc import Iterator

import pytest

from cortex_replay.remote import waiting


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "cortex-replay-bucket"]


def test_each_job_comes_back_once() -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        if number == 500:
            raise ValueError("500")
        return 2 * number

    found = dict(waiting.many(range(1000), double))

    assert isinstance(found.pop(500), ValueError)
    assert found == {number: 2 * number for number in range(1000) if number != 500}
    assert threads() == []


def test_jobs_are_taken_as_they_are_done() -> None:
    """In the caller's thread, and not all at once."""
    taken: list[str] = []

    def jobs() -> Iterator[int]:
        for number in range(10_000):
            taken.append(threading.current_thread().name)
            yield number

    async def nothing(number: int) -> None:
        pass

    some = waiting.many(jobs(), nothing)
    next(some)
    some.close()  # type: ignore[attr-defined]

    assert len(taken) <= 2 * waiting.AT_ONCE
    assert set(taken) == {threading.current_thread().name}


def test_no_more_than_some_at_once() -> None:
    now = most = 0

    async def count(number: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    assert len(list(waiting.many(range(500), count))) == 500
    assert most <= waiting.AT_ONCE


def test_who_stops_early_cancels_the_rest() -> None:
    cancelled: list[int] = []

    async def hang(number: int) -> int:
        if number == 0:
            return 0
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    for number, _ in waiting.many(range(40), hang):
        assert number == 0
        break

    assert sorted(cancelled) == list(range(1, 40))
    assert threads() == []


def test_an_interrupt_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C does, while nothing answers."""

    class Interrupted:
        def get(self) -> None:
            raise KeyboardInterrupt

        def put(self, one: object) -> None:
            pass

    async def hang(number: int) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(waiting, "SimpleQueue", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(waiting.many(range(10), hang))

    assert threads() == []


def test_large_results_wait_until_the_caller_takes_them() -> None:
    """However many there are, and one that is larger than all room is served alone."""
    size = waiting.MOST_BYTES // 4
    now = most = 0

    async def read(number: int) -> int:
        nonlocal now, most
        await waiting.make_room(size if number else 2 * waiting.MOST_BYTES)
        now += 1
        most = max(most, now)
        return number

    found = []
    for number, _ in waiting.many(range(50), read):
        found.append(number)
        now -= 1

    assert sorted(found) == list(range(50))
    assert most <= 6


def test_one_job_needs_no_room() -> None:
    async def read() -> int:
        await waiting.make_room(10 * waiting.MOST_BYTES)
        return 1

    assert waiting.run(read()) == 1


def test_what_comes_after_the_end_is_dropped() -> None:
    """The engine's own threads may be just about to bring it."""
    with waiting._Loop() as loop:
        pass

    assert loop.loop.is_closed()
    loop.loop.call_soon_threadsafe(print, "late")


def test_who_tells_of_a_result_is_waited_for() -> None:
    """A thread that Python does not know of, as those of the engine: the end of the process would abort."""
    began, told, goes_on = threading.Event(), threading.Event(), threading.Event()

    class Slow(asyncio.SelectorEventLoop):
        def _write_to_self(self) -> None:
            began.set()
            goes_on.wait()
            super()._write_to_self()  # type: ignore[misc]

    loop = Slow()

    def tell() -> None:
        loop.call_soon_threadsafe(lambda: None)
        told.set()

    _thread.start_new_thread(tell, ())
    began.wait()
    threading.Timer(0.01, goes_on.set).start()
    waiting._wait_for_callbacks()
    was_told = told.is_set() or not any(
        frame.f_code.co_name == "call_soon_threadsafe" for frame in sys._current_frames().values()
    )
    told.wait()
    loop.close()

    assert was_told
