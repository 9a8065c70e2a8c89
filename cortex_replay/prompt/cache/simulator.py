"""The simulators by provider."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from cortex_replay.prompt.cache.calls import CacheCall, CacheOutcome, Provider
from cortex_replay.prompt.cache.simulators.anthropic import AnthropicCache
from cortex_replay.prompt.cache.simulators.gemini import GeminiCache
from cortex_replay.prompt.cache.simulators.llamacpp import LlamaCppCache
from cortex_replay.prompt.cache.simulators.openai import OpenAiCache
from cortex_replay.prompt.cache.simulators.prompt_tree import TextOf

__all__ = ["SIMULATORS", "CacheSimulator", "simulate", "simulate_after", "simulate_run", "simulator_for"]


class CacheSimulator(Protocol):
    """The cache of one provider, filled by the calls that it has seen."""

    def ask(self, call: CacheCall) -> CacheOutcome:
        """What it does with the next call; calls come in the order of their times."""
        ...


def simulate(simulator: CacheSimulator, calls: Iterable[CacheCall]) -> list[CacheOutcome]:
    """What a cache does with each of some calls."""
    return [simulator.ask(call) for call in calls]


SIMULATORS: Final[Mapping[Provider, Callable[[TextOf | None], CacheSimulator]]] = {
    "anthropic": lambda _: AnthropicCache(),  # it reads whole blocks
    "openai": OpenAiCache,
    "gemini": GeminiCache,
    "llamacpp": LlamaCppCache,
}


def simulator_for(provider: Provider, text_of: TextOf | None = None) -> CacheSimulator:
    """The cache of a provider, with nothing in it.

    Args:
        provider: Whose rules it follows.
        text_of: What a block says, by its digest, for providers that also read the start of a block.
    """
    return SIMULATORS[provider](text_of)


def simulate_after(first: CacheCall, second: CacheCall, text_of: TextOf | None = None) -> CacheOutcome:
    """What a cache with nothing but one call in it does with another."""
    return simulate(simulator_for(first.provider, text_of), [first, second])[1]


def simulate_run(calls: Iterable[CacheCall], text_of: TextOf | None = None) -> list[CacheOutcome]:
    """What the caches of all providers do with the calls of a run, when nothing is in them at first."""
    caches: dict[Provider, CacheSimulator] = {}
    outcomes = []
    for call in calls:
        if call.provider not in caches:
            caches[call.provider] = simulator_for(call.provider, text_of)
        outcomes.append(caches[call.provider].ask(call))
    return outcomes
