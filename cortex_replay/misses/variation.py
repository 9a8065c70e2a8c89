"""Which calls of a command vary between two runs of it. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import zip_longest
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Variation", "variations"]

K = TypeVar("K", bound=Hashable)


class Variation(NamedTuple, Generic[K]):
    """A call that one run made and the other did not, or asked otherwise. Numbers count from 1."""

    first: tuple[int, K] | None
    """Its number in the first run, and its key; ``None`` if the first run has no such call."""
    other: tuple[int, K] | None


def variations(first: Sequence[K], other: Sequence[K]) -> list[Variation[K]]:
    """What varies, in the order of the calls.

    A call that both runs made is no variation, wherever it stands: the order of concurrent calls is chance.
    The rest is paired by the calls that it stands between.
    """
    gaps: defaultdict[int, tuple[list[tuple[int, K]], list[tuple[int, K]]]] = defaultdict(lambda: ([], []))
    for gap, call in _alone(first, other):
        gaps[gap][0].append(call)
    for gap, call in _alone(other, first):
        gaps[gap][1].append(call)
    return [Variation(*pair) for gap in sorted(gaps) for pair in zip_longest(*gaps[gap])]


def _alone(calls: Sequence[K], others: Sequence[K]) -> Iterator[tuple[int, tuple[int, K]]]:
    """The calls that the others lack, each behind the number of common ones that stand before it."""
    there = Counter(others)
    common = 0
    for number, key in enumerate(calls, start=1):
        if there[key]:
            there[key] -= 1
            common += 1
        else:
            yield common, (number, key)
