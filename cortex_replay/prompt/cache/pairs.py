"""Two calls, one right after the other: what the second finds in the cache that the first left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal

from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, CacheOutcome, Provider
from cortex_replay.prompt.cache.facts import value_of
from cortex_replay.prompt.cache.layout import Layouts
from cortex_replay.prompt.cache.requests import estimate_call
from cortex_replay.prompt.cache.simulator import simulate_after
from cortex_replay.types import LlmRequest

__all__ = ["CachedCall", "LostPrefix", "ask_after", "find_lost_prefix"]

_LARGE: Final = 1_000_000
"""More tokens than any provider wants to see before it caches."""


@dataclass(frozen=True, slots=True)
class CachedCall:
    """A call, and what a cache did with it."""

    call: CacheCall
    outcome: CacheOutcome

    @property
    def last_read(self) -> CacheBlock | None:
        """The last block that was read whole."""
        ends = accumulate(block.tokens for block in self.call.blocks)
        read = [block for block, end in zip(self.call.blocks, ends, strict=True) if end <= self.outcome.read]
        return read[-1] if self.outcome.read and read else None


@dataclass(frozen=True, slots=True)
class LostPrefix:
    """A prefix that did not change, and is not found in the cache all the same."""

    why: Literal["lookback", "settings"]
    block: str
    """The last block of it."""
    tokens: int
    """The estimated size of what is not found."""
    lookback: int
    """How many blocks the provider looks at from a breakpoint on, the one with the breakpoint counted."""


def ask_after(
    provider: Provider,
    first: LlmRequest,
    second: LlmRequest,
    tokens: tuple[int | None, int | None] = (None, None),
) -> CachedCall:
    """What a cache with nothing but the first call in it does with the second, asked a moment later.

    Args:
        provider: Whose cache it is.
        first: What is asked first, with its plan.
        second: What is asked then.
        tokens: What the provider counted of both, where that is known.
    """
    layouts = Layouts()
    before = estimate_call(first, provider, layouts, tokens=tokens[0])
    call = estimate_call(second, provider, layouts, tokens=tokens[1], at=1.0)
    return CachedCall(call, simulate_after(before, call, layouts.text_of))


def find_lost_prefix(promised: LlmRequest, previous: LlmRequest, current: LlmRequest) -> LostPrefix | None:
    """What Anthropic does not find again though nothing in it changed.

    Too much was added at once, or a setting has a cache of its own.

    Sizes take no part in it: every block is taken to be large enough to be cached.

    Args:
        promised: The start of ``previous`` that is to be found; its last marker is where that ends.
        previous: What was asked before, with its plan.
        current: What is asked now.
    """
    layouts = Layouts()
    layout = layouts.lay_out(promised)
    if not layout.markers:
        return None
    first, second = (
        _enlarge(estimate_call(request, "anthropic", layouts, at=at))
        for at, request in ((0.0, previous), (1.0, current))
    )
    outcome = simulate_after(first, second)
    end, found = max(layout.markers) + 1, outcome.read // _LARGE
    whys = [reason.why for reason in outcome.reasons if reason.why in ("lookback", "settings")]
    if found >= end or not whys:
        return None
    return LostPrefix(
        "lookback" if whys[0] == "lookback" else "settings",
        layout.rows[end - 1].name,
        sum(row.estimate for row in layout.rows[found:end]),
        int(value_of("anthropic", current.model, "lookback")),
    )


def _enlarge(call: CacheCall) -> CacheCall:
    return replace(call, blocks=tuple(replace(block, tokens=_LARGE) for block in call.blocks))
