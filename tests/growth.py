"""How work grows, told by comparing two runs on one machine: no test has a ceiling in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["costs_at_most", "grows_linearly"]

Clock = Callable[[], float]

_NOTHING_S = 0.002
"""Below it there is nothing to compare."""
_LEAST_ATTEMPTS = 3
_ATTEMPTS = 40


def grows_linearly(
    once: Callable[[], object], twice: Callable[[], object], clock: Clock = time.process_time
) -> bool:
    """Whether twice the work costs less than three times as much, or next to nothing.

    With the square of it, it would cost four times as much; to fetch twice the memory can cost more, too.
    """
    return costs_at_most(3, twice, once, clock)


def costs_at_most(
    times: float, run: Callable[[], object], other: Callable[[], object], clock: Clock = time.process_time
) -> bool:
    """Whether one thing costs at most so many times as much as another. They take turns."""
    costs, others = [], []
    for attempt in range(1, _ATTEMPTS + 1):
        costs.append(_cost(run, clock))
        if attempt >= _LEAST_ATTEMPTS and min(costs) < _NOTHING_S:
            return True
        others.append(_cost(other, clock))
        # Somebody else's work only ever adds: the least of all attempts comes ever nearer to the truth.
        if attempt >= _LEAST_ATTEMPTS and min(costs) < times * min(others):
            return True
    return False


def _cost(run: Callable[[], object], clock: Clock) -> float:
    start = clock()
    run()
    return clock() - start
