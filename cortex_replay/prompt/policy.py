"""How long a provider is asked to remember what it read."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from cortex_replay.canonical import JsonValue
from cortex_replay.types import PromptCachePlan

__all__ = ["CachePolicy"]


class CachePolicy(StrEnum):
    """Whether the prompt may be cached up to here, and for how long."""

    NONE = "none"
    EPHEMERAL_5M = "5m"
    EPHEMERAL_1H = "1h"

    @property
    def is_cached(self) -> bool:
        """Whether a marker is wanted at all."""
        return self is not CachePolicy.NONE

    @property
    def cache_control(self) -> dict[str, JsonValue] | None:
        """Anthropic's marker. Five minutes are its default, so only the hour has to be said."""
        if not self.is_cached:
            return None
        time: dict[str, JsonValue] = {"ttl": "1h"} if self is CachePolicy.EPHEMERAL_1H else {}
        return {"type": "ephemeral"} | time

    @classmethod
    def of_tail(cls, plan: PromptCachePlan) -> CachePolicy:
        """The policy of a plan's markers in what still grows."""
        return cls.of_ttl(plan.tail_ttl or plan.ttl)

    @classmethod
    def of_ttl(cls, ttl: Literal["5m", "30m", "1h"] | None) -> CachePolicy:
        """The policy of a plan's marker, whose time may be left to the provider."""
        return cls.EPHEMERAL_1H if ttl == "1h" else cls.EPHEMERAL_5M
