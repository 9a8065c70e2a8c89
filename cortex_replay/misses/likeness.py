"""How like two requests are, by the bytes that they are stored as.

What an edit leaves alone, the start and the end of a request, or of a long text in it, is compared in C.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from heapq import nlargest
from typing import Final

__all__ = ["Ends", "Lines", "overlap", "words_in"]

_MOST_LINES: Final = 4
_MOST_BYTES: Final = 64_000
"""Of one request, at either end of it."""


class Ends:
    """How much of a request is left at both ends of another.

    A class to carry the pieces that are asked for again and again: a request's starts, and its ends, from the
    longest down. Which of them another request has is a binary search that stays in C. Most requests differ
    at the same place, where their first text begins: there it is looked first.
    """

    def __init__(self, written: bytes) -> None:
        self._written = written
        near = min(len(written), _MOST_BYTES)
        self._step = near // (512 if near < 16384 else 256) + 1
        lengths = range(near - near % self._step, -1, -self._step)
        self._starts = [written[:length] for length in lengths]
        self._ends = [written[len(written) - length :] for length in lengths]
        self._last = len(self._starts) - 1
        self._start = self._end = self._last
        """Where the request before differed, at either end."""

    def likeness(self, other: bytes) -> float:
        """From 0 to 1; of those that are equally like it, the one of its own length is more so.

        A date has ten digits on any day, and an id as many as any other.
        """
        start, end = self._start, self._end
        has = other.startswith
        if not has(self._starts[start]) or (start and has(self._starts[start - 1])):
            # Asking goes from no to yes, as bisect wants it.
            self._start = start = bisect_left(self._starts, True, key=has)
        has = other.endswith
        if not has(self._ends[end]) or (end and has(self._ends[end - 1])):
            self._end = end = bisect_left(self._ends, True, key=has)
        least, most = len(self._written), len(other)
        if most < least:
            least, most = most, least
        both = min((2 * self._last - start - end) * self._step, least)
        return (both - 1e-3 * (most - least)) / (most or 1)


class Lines:
    """As :class:`Ends`, for each long line by itself: a text is one line, and several may have been edited.

    Lines are compared with those of the same number, counted from the start and from the end: a message
    that was added moves the others.
    """

    def __init__(self, written: bytes) -> None:
        lines = written.split(b"\n")
        longest = nlargest(_MOST_LINES, range(len(lines)), key=lambda i: len(lines[i]))
        longest = [i for i in longest if 10 * len(lines[i]) >= len(written)] or longest
        self._total = sum(len(lines[i]) for i in longest)
        self._lines = [(i, i - len(lines), lines[i], Ends(lines[i])) for i in longest]
        self._count = len(lines) - 1
        self._most_above = max(longest) + 1
        self._most_below = len(lines) - min(longest)

    def likeness(self, other: bytes) -> float:
        first = other.split(b"\n", self._most_above)  # no further than is needed
        # With as many lines, both numbers are those of the same line.
        is_moved = other.count(b"\n") != self._count
        last = other.rsplit(b"\n", self._most_below) if is_moved else []
        common = 0.0
        for above, below, line, ends in self._lines:
            best = ends.likeness(first[above]) if above < len(first) else 0.0
            if -below <= len(last):
                best = max(best, ends.likeness(last[below]))
            common += best * len(line)
        return common / self._total


def words_in(written: bytes) -> frozenset[bytes]:
    """The words of a request, each once."""
    return frozenset(written[:_MOST_BYTES].split())


def overlap(words: Counter[bytes], written: bytes) -> float:
    """How many of the words two requests have in common, each as often as it stands there: from 0 to 1."""
    others = Counter(written.split())
    return 2 * (words & others).total() / (words.total() + others.total())
