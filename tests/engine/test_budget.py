"""What may be spent: to the call and to the token, whoever asks at once, and however a call ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from unittest.mock import create_autospec

import pytest

from cortex_replay import Answer
from cortex_replay.engine.budget import Bill, Budget, Counters
from cortex_replay.engine.turn import Attempt, Turn
from cortex_replay.errors import BudgetSpent, LlmError, NoFixture, Timeout, Transport, TurnTooLate, Upstream
from cortex_replay.types import TokenUsage
from tests.builder import ask
from tests.waiting import let_others_run

MOST = 100


class Left(Exception):
    """The caller has."""


def counters_of(budget: Budget) -> Counters:
    with budget._spending.change() as counters:
        return counters


@pytest.mark.parametrize("most", [0, 1, 3])
def test_as_many_calls_as_allowed_and_no_more(most: int) -> None:
    budget = Budget(most_calls=most)

    async def main() -> int:
        made = 0
        for _ in range(5):
            with suppress(BudgetSpent):
                async with budget.call_of(0):
                    made += 1
        return made

    assert asyncio.run(main()) == most == budget.calls


@pytest.mark.parametrize(("asked", "is_made"), [(MOST - 1, True), (MOST, True), (MOST + 1, False)])
def test_as_many_tokens_as_allowed_and_no_more(asked: int, is_made: bool) -> None:
    budget = Budget(most_tokens=MOST)

    async def main() -> None:
        async with budget.call_of(asked) as bill:
            bill.pay(TokenUsage(1, 1))

    if is_made:
        asyncio.run(main())
    else:
        with pytest.raises(BudgetSpent):
            asyncio.run(main())
    assert counters_of(budget) == Counters(int(is_made), 2 * is_made, 0)


ENDS: dict[str, tuple[BaseException | None, int | None, Counters]] = {
    "an answer": (None, 7, Counters(1, 7, 0)),
    "an answer that nobody counted": (None, None, Counters(1, MOST, 0)),
    "an error of the provider": (Upstream(500, "x"), None, Counters(1, 0, 0)),
    "an error behind an answer": (Upstream(500, "x"), 7, Counters(1, 7, 0)),
    "nothing recorded": (NoFixture("m", "0" * 64), None, Counters(1, 0, 0)),
    "a turn that is too late": (TurnTooLate(1, 1, 1), None, Counters(0, 0, 0)),
    "a connection that broke": (Transport("x"), None, Counters(1, MOST, 0)),
    "a timeout": (Timeout(1), None, Counters(1, MOST, 0)),
    "a caller that left": (Left(), None, Counters(1, MOST, 0)),
    "a cancellation": (asyncio.CancelledError(), None, Counters(1, MOST, 0)),
}
"""How a call ends, what was paid, and what is counted then."""


@pytest.mark.parametrize("name", ENDS)
def test_whatever_was_set_aside_is_given_back_and_what_may_have_cost_is_counted(name: str) -> None:
    error, paid, expected = ENDS[name]
    budget = Budget(most_calls=9, most_tokens=9 * MOST)

    async def main() -> None:
        with suppress(LlmError, Left, asyncio.CancelledError):
            async with budget.call_of(MOST) as bill:
                assert counters_of(budget).reserved == MOST
                if paid is not None:
                    bill.pay(TokenUsage(paid - 1, 1))
                if error is not None:
                    raise error

    asyncio.run(main())
    assert counters_of(budget) == expected


def test_calls_at_once_wait_for_what_the_others_have_set_aside() -> None:
    """Together they might cross the limit; one after the other they do not."""
    budget, under_way = Budget(most_tokens=MOST), list[int]()

    async def call(number: int) -> None:
        async with budget.call_of(MOST - 10) as bill:
            under_way.append(number)
            assert counters_of(budget).reserved == MOST - 10, "nobody else is under way"
            await let_others_run()
            bill.pay(TokenUsage(2, 1))

    async def main() -> None:
        async with asyncio.timeout(20):
            await asyncio.gather(*map(call, range(3)))

    asyncio.run(main())
    assert sorted(under_way) == [0, 1, 2]
    assert budget.tokens == 9


@pytest.mark.parametrize(("limit", "least", "most"), [(500, 500, 700), (None, 8192, 8400)])
def test_a_request_sets_aside_what_it_and_its_answer_may_cost(
    limit: int | None, least: int, most: int
) -> None:
    budget = Budget(most_tokens=100_000)

    async def main() -> int:
        async with budget.call(ask("q", max_tokens=limit)):
            return counters_of(budget).reserved

    assert least < asyncio.run(main()) < most


def test_a_call_that_failed_costs_nothing_and_one_that_ended_well_what_it_says() -> None:
    """Nothing is known, which is not the same as unknown: what was set aside is given back."""
    turn, bills = create_autospec(Turn, instance=True), [Bill(), Bill()]

    Attempt(turn, bills[0]).fail({"status": 500})
    Attempt(turn, bills[1]).keep(Answer("a"), TokenUsage(3, 4))

    assert [bill.tokens for bill in bills] == [0, 7]
