"""How often a server may be asked; nobody here waits for real."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.request_rate import RequestRate
from cortex_replay.errors import InvalidRequest, StoreIo, TurnTooLate, Upstream
from tests.adapters.dialects import DIALECTS, Dialect, ask
from tests.adapters.fake_provider import serving, whole
from tests.property.strategies import effort

dialects = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.protocol)


class Time:
    """A clock that goes when somebody sleeps, or when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def rate(self, per_minute: int) -> RequestRate:
        return RequestRate(per_minute, clock=lambda: self.now, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 6))
        self.now += seconds


def in_loop(work: Callable[[], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        return await work()

    return asyncio.run(run())


def test_requests_are_spread_evenly() -> None:
    """Also the first ones: a minute of them at once is too many for a provider that counts by seconds."""
    time = Time()
    rate = time.rate(30)

    async def work() -> None:
        for _ in range(4):
            await rate.turn(Deadline(60_000))

    in_loop(work)

    assert time.pauses == [2, 2, 2]


def test_a_pause_is_not_saved_up() -> None:
    time = Time()
    rate = time.rate(60)

    async def work() -> None:
        await rate.turn(Deadline(60_000))
        time.now += 600
        await rate.turn(Deadline(60_000))
        await rate.turn(Deadline(60_000))

    in_loop(work)

    assert time.pauses == [1]


def test_who_comes_first_goes_first_and_who_would_be_late_is_told_at_once() -> None:
    """Whoever is told so takes nobody's moment."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(round(seconds, 6))

    rate = RequestRate(60, clock=lambda: 0.0, sleep=sleep)

    async def work() -> None:
        for _ in range(3):
            await rate.turn(Deadline(60_000))
        with pytest.raises(TurnTooLate) as late:
            await rate.turn(Deadline(2_500))
        assert (late.value.timeout_ms, late.value.wait_ms, late.value.per_minute) == (2_500, 3_000, 60)
        await rate.turn(Deadline(60_000))

    in_loop(work)

    assert waits == [1, 2, 3]


def test_who_need_not_wait_is_not_told_of_a_wait() -> None:
    """Though his time is up: that is another error."""

    async def work() -> None:
        await RequestRate(1).turn(Deadline(0))

    in_loop(work)


def test_who_gives_up_leaves_the_moment_to_the_next() -> None:
    """Else a client that comes and goes would shut out all others."""
    waits: list[float] = []
    never = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(round(seconds, 6))
        await never.wait()

    rate = RequestRate(60, clock=lambda: 0.0, sleep=sleep)

    async def work() -> None:
        deadline = Deadline(60_000)
        await rate.turn(deadline)
        tasks = [asyncio.ensure_future(rate.turn(deadline)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait([tasks[1]])
        tasks += [asyncio.ensure_future(rate.turn(deadline)) for _ in range(2)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    in_loop(work)

    assert waits == [1, 2, 3, 2, 4]


class GaveUpError(Exception):
    pass


class GoneSlots:
    """A folder that is removed while somebody waits."""

    def __init__(self) -> None:
        self.is_gone = False

    @contextmanager
    def change(self) -> Iterator[list[float]]:
        if self.is_gone:
            raise StoreIo("the run's folder cannot be written")
        yield [0.0]


def test_who_gives_up_does_so_even_if_nobody_keeps_the_moments_any_more() -> None:
    slots = GoneSlots()

    async def sleep(_: float) -> None:
        slots.is_gone = True
        raise GaveUpError

    rate = RequestRate(60, slots=slots, clock=lambda: 0.0, sleep=sleep)
    with pytest.raises(GaveUpError):
        in_loop(lambda: rate.turn(Deadline(60_000)))


class Arrivals:
    """Callers of whom each comes at its time, and goes out at another or gives up."""

    def __init__(self) -> None:
        self.now = self.moment = 0.0
        self.gives_up = False
        self.sent: list[float] = []

    async def sleep(self, seconds: float) -> None:
        if self.gives_up:
            raise GaveUpError
        self.moment = self.now + seconds


@effort(50)
@given(st.integers(1, 600), st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=30))
def test_no_two_requests_are_nearer_than_they_may_be(
    per_minute: int, arrivals: list[tuple[float, bool]]
) -> None:
    """Whenever they come, and whoever of them gives up."""
    crowd = Arrivals()
    rate = RequestRate(per_minute, clock=lambda: crowd.now, sleep=crowd.sleep)

    async def work() -> None:
        for pause, crowd.gives_up in arrivals:
            crowd.now += pause
            crowd.moment = crowd.now
            with suppress(GaveUpError):
                await rate.turn(Deadline(10**9))
                crowd.sent.append(crowd.moment)

    in_loop(work)

    interval = 60 / per_minute - 1e-5
    assert all(later - one >= interval for one, later in pairwise(sorted(crowd.sent)))


@pytest.mark.parametrize("number", [0, -1, 100_001, True, 1.5, "60"])
def test_what_is_no_rate(number: Any) -> None:
    with pytest.raises(InvalidRequest, match="requests_per_minute"):
        RequestRate(number)


@dialects
def test_an_adapter_keeps_to_it(dialect: Dialect) -> None:
    """In both of its verbs; several adapters may have one together."""
    time = Time()
    rate = time.rate(20)

    async def work() -> None:
        async with (
            serving(whole(dialect.answer())) as provider,
            dialect.adapter(provider.url, requests_per_minute=rate) as one,
            dialect.adapter(provider.url, requests_per_minute=rate) as other,
        ):
            await one.complete(ask())
            await other.complete(ask())
            await one.complete(ask())

    in_loop(work)

    assert time.pauses == [3, 3]


@dialects
def test_what_would_be_late_is_not_sent(dialect: Dialect) -> None:
    async def work() -> None:
        async with serving(whole(dialect.answer())) as provider:
            async with dialect.adapter(provider.url, requests_per_minute=1) as adapter:
                await adapter.complete(ask())
                with pytest.raises(TurnTooLate, match="with requests_per_minute = 1"):
                    await adapter.complete(ask())
                with pytest.raises(TurnTooLate):
                    async for _ in adapter.stream(ask()):
                        pass
            assert len(provider.received) == 1

    in_loop(work)


def test_a_retry_is_a_request_too() -> None:
    """Where none is left for it, what the provider said is the answer."""
    dialect = DIALECTS[0]
    busy = whole(dialect.error(503, "later"), 503, retry_after="0")

    async def work() -> None:
        async with serving(busy) as provider:
            async with dialect.adapter(provider.url, requests_per_minute=1) as adapter:
                with pytest.raises(Upstream, match="later"):
                    await adapter.complete(ask())
            assert len(provider.received) == 1

    in_loop(work)
