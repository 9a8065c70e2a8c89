"""How work grows, told by comparing two runs on one machine: no test has a ceiling in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["costs_at_most", "grows_linearly"]

_NOTHING_S = 0.002
"""Below it there is nothing to compare."""
_ATTEMPTS = 8


def grows_linearly(once: Callable[[], object], twice: Callable[[], object]) -> bool:
    """Whether twice the work costs less than three times as much, or next to nothing.

    With the square of it, it would cost four times as much; to fetch twice the memory can cost more, too.
    """
    return costs_at_most(3, twice, once)


def costs_at_most(times: float, run: Callable[[], object], other: Callable[[], object]) -> bool:
    """Whether one thing costs at most so many times as much as another, in at least one of some attempts."""
    for _ in range(_ATTEMPTS):
        cost = _least(run)
        if cost < _NOTHING_S or cost < times * _least(other):
            return True
    return False


def _least(run: Callable[[], object]) -> float:
    """The least of three, so that somebody else's work does not count."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        run()
        spent.append(time.process_time() - start)
    return min(spent)
