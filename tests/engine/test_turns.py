"""Whose turn it is: one at a time, in order, and nobody who has left keeps it from the others."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from cortex_replay.engine.turns import KeyState, Turns
from cortex_replay.errors import Timeout
from tests.waiting import let_others_run


async def take(turns: Turns, had: list[str], name: str, timeout_ms: int = 60_000) -> None:
    async with turns.take(timeout_ms):
        had.append(name)
        await let_others_run()


def test_turns_come_in_order_one_at_a_time() -> None:
    async def main() -> list[str]:
        turns, had = Turns(), list[str]()
        await asyncio.gather(*(take(turns, had, name) for name in "abcd"))
        return had

    assert asyncio.run(main()) == ["a", "b", "c", "d"]


def test_who_leaves_while_waiting_is_passed_over() -> None:
    async def main() -> list[str]:
        turns, had = Turns(), list[str]()
        async with turns.take(1000):
            waiting = [asyncio.ensure_future(take(turns, had, name)) for name in "abc"]
            await let_others_run()
            waiting[0].cancel()
            await let_others_run()
        await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        return had

    assert asyncio.run(main()) == ["b", "c"]


def test_who_leaves_in_the_very_moment_passes_the_turn_on() -> None:
    """It is cancelled, and is given the turn before it could tell."""

    async def main() -> list[str]:
        turns, had = Turns(), list[str]()
        async with turns.take(1000):
            waiting = [asyncio.ensure_future(take(turns, had, name)) for name in "ab"]
            await let_others_run()
            waiting[0].cancel()
        await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 10)
        return had

    assert asyncio.run(main()) == ["b"]


def test_who_waits_too_long_is_told_and_keeps_nothing() -> None:
    async def main() -> list[str]:
        turns, had = Turns(), list[str]()
        async with turns.take(1000):
            with pytest.raises(Timeout):
                await take(turns, had, "a", timeout_ms=0)
        await asyncio.wait_for(take(turns, had, "b"), 10)
        return had

    assert asyncio.run(main()) == ["b"]


def test_a_loop_that_is_gone_keeps_no_turn() -> None:
    """A program that calls ``asyncio.run`` twice may leave a call behind that waits in the first loop."""
    turns, had = Turns(), list[str]()
    first = asyncio.new_event_loop()
    holder = turns.take(1000)
    first.run_until_complete(holder.__aenter__())
    lost = first.create_task(take(turns, had, "lost"))
    first.run_until_complete(let_others_run())
    first.close()

    async def main() -> None:
        await holder.__aexit__(None, None, None)
        await asyncio.wait_for(take(turns, had, "next"), 10)

    asyncio.run(main())
    assert had == ["next"]
    lost._log_destroy_pending = False  # type: ignore[attr-defined]
    with suppress(RuntimeError):
        lost.get_coro().close()


def test_who_asks_again_keeps_its_number() -> None:
    state: KeyState[str] = KeyState(())
    state.number_call()
    state.number_call()
    assert state.call == 1
    state.turns.advance()
    state.number_call()
    assert state.call == 2
