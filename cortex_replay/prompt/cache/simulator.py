"""The simulators by provider."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from cortex_replay.prompt.cache.calls import CacheCall, CacheOutcome

__all__ = ["CacheSimulator"]


class CacheSimulator(Protocol):
    """The cache of one provider, filled by the calls that it has seen."""

    def ask(self, call: CacheCall) -> CacheOutcome:
        """What it does with the next call; calls come in the order of their times."""
        ...


def simulate(simulator: CacheSimulator, calls: Iterable[CacheCall]) -> list[CacheOutcome]:
    """What a cache does with each of some calls."""
    return [simulator.ask(call) for call in calls]
