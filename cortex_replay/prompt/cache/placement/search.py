"""The cheapest of all ways to place the markers of a few calls."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

from cortex_replay.prompt.cache.calls import CacheCall
from cortex_replay.prompt.cache.costs import Rates
from cortex_replay.prompt.cache.simulators.anthropic import AnthropicCache, CacheState

__all__ = ["cheapest_row"]

_Row = tuple[Fraction, AnthropicCache, tuple[CacheCall, ...]]


def cheapest_row(
    choices: Sequence[Sequence[CacheCall]],
    floors: Sequence[Fraction],
    rates: Rates,
    at_most: Fraction,
    most_asked: int,
) -> tuple[tuple[CacheCall, ...] | None, int]:
    """One of the choices for each call, so that all of them together cost least.

    Rows that leave the same in the cache are one from then on: the cheapest of them.

    Args:
        choices: What each call may be, in the order of the calls.
        floors: What each costs at least, whatever is in the cache.
        rates: What tokens cost.
        at_most: What is known to be possible; dearer rows are not followed.
        most_asked: How many calls may be simulated.

    Returns:
        The row, or ``None`` where there are too many; and how many calls were simulated.
    """
    later = [*accumulate(reversed(floors), initial=Fraction(0))][-2::-1]
    rows: dict[CacheState, _Row] = {frozenset(): (Fraction(0), AnthropicCache(), ())}
    asked = 0
    for calls, rest in zip(choices, later, strict=True):
        if asked + len(rows) * len(calls) > most_asked:
            return None, asked
        asked += len(rows) * len(calls)
        found: dict[CacheState, _Row] = {}
        for cost, before, row in rows.values():
            for call in calls:
                cache = before.fork()
                whole = cost + rates.cost_of(cache.ask(call))
                state = cache.state_at(call.at)
                if whole + rest <= at_most and (state not in found or whole < found[state][0]):
                    found[state] = (whole, cache, (*row, call))
        rows = found
    return (min(rows.values(), key=lambda row: row[0])[2] if rows else None), asked
