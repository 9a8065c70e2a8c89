"""How work grows, told by comparing two runs on one machine: no test has a ceiling in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["costs_at_most", "grows_linearly"]

Clock = Callable[[], float]

_NOTHING_S = 0.002
"""Below it there is nothing to compare."""
_ATTEMPTS = 8


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
    """Whether one thing costs at most so many times as much as another, in at least one of some attempts."""
    for _ in range(_ATTEMPTS):
        cost = _least(run, clock)
        if cost < _NOTHING_S or cost < times * _least(other, clock):
            return True
    return False


def _least(run: Callable[[], object], clock: Clock) -> float:
    """The least of three, so that somebody else's work does not count."""
    spent = []
    for _ in range(3):
        start = clock()
        run()
        spent.append(clock() - start)
    return min(spent)
