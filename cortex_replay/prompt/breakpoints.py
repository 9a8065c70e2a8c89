"""Where a prompt's cache may end, and which of too many such places are kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from cortex_replay.prompt.policy import CachePolicy

__all__ = ["MOST_BREAKPOINTS", "Breakpoint", "Place", "Placement", "can_cache", "place_breakpoints"]

MOST_BREAKPOINTS: Final = 4
"""How many markers Anthropic takes in one request, counting tools, system and messages together."""


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

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Placement:
    """The breakpoints that a request carries, and those that were too many, both in order."""

    kept: tuple[Breakpoint, ...] = ()
    dropped: tuple[Breakpoint, ...] = ()


def place_breakpoints(wanted: Iterable[Breakpoint]) -> Placement:
    """Keep as many breakpoints as a request may carry.

    A marker caches everything before it, so the ones that cache the most are the last ones.
    """
    in_order = tuple(sorted(wanted, key=lambda breakpoint_: (breakpoint_.place, breakpoint_.index)))
    if in_order and in_order[0].place is Place.TOOLS:
        # Anthropic refuses an hour behind five minutes, and the tools stand before everything.
        longest = max((breakpoint_.cache for breakpoint_ in in_order), key=list(CachePolicy).index)
        in_order = (replace(in_order[0], cache=longest), *in_order[1:])
    return Placement(in_order[-MOST_BREAKPOINTS:], in_order[:-MOST_BREAKPOINTS])


def can_cache(model: str) -> bool:
    """Whether an Anthropic model takes markers: all of them since Claude 3."""
    return not model.startswith("claude-2")
