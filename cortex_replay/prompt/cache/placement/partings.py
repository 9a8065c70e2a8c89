"""Which calls of a run begin alike, and where they part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from cortex_replay.prompt.cache.calls import CacheCall
from cortex_replay.prompt.cache.simulators.paths import PromptPaths

__all__ = ["Partings"]


class Partings:
    """The prefixes of calls, each with a number that stands for all that the provider reads up to its end."""

    def __init__(self, calls: Sequence[CacheCall], least: int) -> None:
        """Find them.

        Args:
            calls: Of one model.
            least: How long a prefix must be to be cached, in tokens.
        """
        paths = PromptPaths()
        self.paths = [paths.walk(call).nodes for call in calls]
        """The number of the prefix that ends with each block of each call."""
        self.ends = [list(accumulate([block.tokens for block in call.blocks])) for call in calls]
        """Its size."""
        counts = [0] * (1 + max((path[-1] for path in self.paths if path), default=0))
        for path in self.paths:
            for node in path:
                counts[node] += 1
        self.places = [
            list(_places(call, path, ends, counts, least))
            for call, path, ends in zip(calls, self.paths, self.ends, strict=True)
        ]
        """The blocks of each call where a marker can matter, by index: behind them another call goes on in
        another way."""


def _places(
    call: CacheCall, path: Sequence[int], ends: Sequence[int], counts: Sequence[int], least: int
) -> Iterator[int]:
    last = -1
    for i, node in enumerate(path):
        count = counts[node]
        if count < 2:
            return
        if i + 1 < len(path) and counts[path[i + 1]] == count:
            continue  # all calls that have this block have the next one, too
        place = i
        while place > last and call.blocks[place].kind == "thinking":  # it takes no marker
            place -= 1
        if place > last and ends[place] >= least:
            last = place
            yield place
