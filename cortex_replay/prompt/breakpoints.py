"""Where a prompt's cache may end, and which of too many such places are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import Final

from cortex_replay.prompt.policy import CachePolicy

__all__ = ["MOST_BREAKPOINTS", "Breakpoint", "Place", "Placement", "can_cache", "place_breakpoints"]

MOST_BREAKPOINTS: Final = 4
"""How many markers Anthropic takes in one request, counting tools, system and messages together."""

_LENGTHS: Final = {policy: length for length, policy in enumerate(CachePolicy)}


class Place(IntEnum):
    """The parts of a request in the order in which a provider reads them."""

    TOOLS = 0
    SYSTEM = 1
    MESSAGES = 2


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A marker behind the tools, a system block or a message: everything up to it may be cached."""

    place: Place
    index: int
    """Which block or message, from 0. The tools have one marker, behind the last of them."""
    cache: CachePolicy
    name: str
    """For people: a block's label or a turn's name."""
    part: int | None = None
    """Which block of a message's content, from 0; behind the whole message if it is not said."""
    instead_of: str = ""
    """The turn that it was wanted behind, if there is nothing in it that could carry a marker."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Placement:
    """The breakpoints that a request carries, and those that were too many, both in order."""

    kept: tuple[Breakpoint, ...] = ()
    dropped: tuple[Breakpoint, ...] = ()

    def warnings(self) -> Iterator[str]:
        """What is not as it was asked for, or will be refused; the sender of the request logs it."""
        if self.dropped:
            names = ", ".join(map(str, self.dropped))
            yield f"more cache breakpoints than a request may carry; left out: {names}"
        for kept in self.kept:
            if kept.instead_of:
                empty = f"{kept.instead_of} has nothing that could carry a cache breakpoint"
                yield f"{empty}; it stands behind {kept}"
        for before, behind in pairwise(self.kept):
            if before.cache is CachePolicy.EPHEMERAL_5M and behind.cache is CachePolicy.EPHEMERAL_1H:
                yield f"Anthropic refuses an hour behind five minutes: {before}, {behind}"


def place_breakpoints(wanted: Iterable[Breakpoint], most: int = MOST_BREAKPOINTS) -> Placement:
    """Keep as many breakpoints as a request may carry.

    A marker caches everything before it, so the ones that cache the most are the last ones.

    Args:
        wanted: Where they would stand.
        most: How many there is room for.
    """
    in_order = tuple(_one_for_each_place(wanted))
    if in_order and in_order[0].place is Place.TOOLS:
        # Anthropic refuses an hour behind five minutes, and the tools stand before everything.
        longest = max((breakpoint_.cache for breakpoint_ in in_order), key=_LENGTHS.__getitem__)
        in_order = (replace(in_order[0], cache=longest), *in_order[1:])
    first = max(0, len(in_order) - most)
    return Placement(in_order[first:], in_order[:first])


def _one_for_each_place(wanted: Iterable[Breakpoint]) -> Iterator[Breakpoint]:
    """The breakpoints in order; of several in one place, the first, for the longest time of them."""
    places: dict[tuple[Place, int], Breakpoint] = {}
    for one in wanted:
        known = places.setdefault((one.place, one.index), one)
        if _LENGTHS[one.cache] > _LENGTHS[known.cache]:
            places[one.place, one.index] = replace(known, cache=one.cache)
    for place in sorted(places):
        yield places[place]


def can_cache(model: str) -> bool:
    """Whether an Anthropic model takes markers: all of them since Claude 3."""
    return not model.startswith("claude-2")
