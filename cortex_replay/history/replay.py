"""Recorded calls, replayed through simulated caches in their order and times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cortex_replay.gc_pause import pause_gc
from cortex_replay.history.cache_rules import cache_provider
from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.continuations import whole_requests
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, CacheOutcome, Provider
from cortex_replay.prompt.cache.layout import Layouts, share
from cortex_replay.prompt.cache.requests import to_call
from cortex_replay.prompt.cache.simulator import simulate_run
from cortex_replay.prompt.cache.sizes import PromptSizes, SizedPrompt, TracedPrompt
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole, TokenUsage

__all__ = ["CacheReplay", "ReplayedCall", "TooManyBlocks", "replay_calls"]

_MOST_BLOCKS: Final = 5_000_000
"""Of all calls: a file of a megabyte may hold thousands of answers to a prompt of thousands of blocks."""


class TooManyBlocks(ValueError):
    """So many calls of such a size cannot be replayed soon."""


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """A call, and what the cache would have done with it."""

    recorded: HistoryCall
    provider: Provider | None
    """Whose rules were followed; ``None`` where they are not known."""
    prompt: SizedPrompt
    path: tuple[int, ...]
    """The prefix that ends with each block: calls that begin alike have the same."""
    seconds: float
    """Since the first call."""
    call: CacheCall | None
    outcome: CacheOutcome | None

    @property
    def tokens(self) -> int:
        """The size of the prompt."""
        return self.prompt.tokens

    @property
    def has_lost_markers(self) -> bool:
        """Whether the provider was told to cache something, and the recording does not say what."""
        usage = self.recorded.usage
        if self.provider != "anthropic" or usage is None:
            return False
        is_cached = bool(usage.cached_tokens or usage.cache_write_tokens)
        # From the end, where one stands most often.
        return is_cached and not any(block.marker.is_cached for block in reversed(self.prompt.blocks))


@dataclass(frozen=True, slots=True)
class CacheReplay:
    """The calls of a run after their replay."""

    calls: tuple[ReplayedCall, ...]
    text_of: Callable[[str], str]
    """What a block says, by its digest."""


@pause_gc()
def replay_calls(recorded: Sequence[HistoryCall], provider: Provider | None = None) -> CacheReplay:
    """Replay calls through the caches of their providers, in which nothing is at first.

    Args:
        recorded: In the order in which they were asked.
        provider: Whose rules to follow, whatever the recordings say.

    Raises:
        TooManyBlocks: Their prompts have too many blocks.
    """
    layouts, sizes = Layouts(), PromptSizes()
    left = _MOST_BLOCKS
    providers: list[Provider | None] = []
    traced: list[TracedPrompt] = []
    for call, whole in zip(recorded, whole_requests(recorded), strict=True):
        wire = None if call.said is None else call.said.wire
        known = provider or cache_provider(call.model, call.meta, wire)
        providers.append(known if whole is not None else None)
        layout = layouts.lay_out(whole or call.request)
        left -= len(layout.rows)
        if left < 0:
            raise TooManyBlocks(
                f"the prompts of these {len(recorded):,} calls have more than {_MOST_BLOCKS:,} blocks, "
                "which takes too long: name one run, or one test"
            )
        traced.append(sizes.trace(providers[-1], call.model, layout, call.usage))
    prompts = [sizes.measure(prompt) for prompt in traced]
    seconds = _seconds(recorded)
    calls = [
        None if known is None else _cache_call(call, known, prompt, at, layouts)
        for call, known, prompt, at in zip(recorded, providers, prompts, seconds, strict=True)
    ]
    outcomes = iter(simulate_run([call for call in calls if call is not None], layouts.text_of))
    rows = zip(recorded, providers, prompts, traced, seconds, calls, strict=True)
    return CacheReplay(
        tuple(
            ReplayedCall(call, known, prompt, path.path, at, asked, None if asked is None else next(outcomes))
            for call, known, prompt, path, at, asked in rows
        ),
        layouts.text_of,
    )


def _seconds(recorded: Sequence[HistoryCall]) -> list[float]:
    """When each call was asked, counted from the first; one without a time, when the one before it was."""
    start = next((call.at for call in recorded if call.at is not None), 0.0)
    found, now = [], 0.0
    for call in recorded:
        now = now if call.at is None else max(now, call.at - start)
        found.append(now)
    return found


def _cache_call(
    recorded: HistoryCall, provider: Provider, prompt: SizedPrompt, at: float, layouts: Layouts
) -> CacheCall:
    wait = None if recorded.ready is None or recorded.at is None else recorded.ready - recorded.at
    call = to_call(
        recorded.request,
        provider,
        prompt.blocks,
        layouts,
        is_estimate=not prompt.is_counted,
        at=at,
        ready=None if wait is None else at + wait,
        reply=_reply(recorded, layouts) if provider == "llamacpp" else (),
    )
    if not call.explicit:
        return call
    return replace(call, blocks=_size_kept(call.blocks, call.explicit, recorded.usage))


def _size_kept(blocks: tuple[CacheBlock, ...], kept: int, usage: TokenUsage | None) -> tuple[CacheBlock, ...]:
    """The blocks of a call, of which so many are kept: what was read from the cache is the size of these."""
    whole = sum(block.tokens for block in blocks)
    counted = None if usage is None else usage.cached_tokens
    if not counted or counted > whole:
        return blocks
    sizes = [
        *share([block.tokens for block in blocks[:kept]], counted),
        *share([block.tokens for block in blocks[kept:]], whole - counted),
    ]
    if sum(sizes) != whole:  # nothing follows what is kept
        return blocks
    return tuple(replace(block, tokens=size) for block, size in zip(blocks, sizes, strict=True))


def _reply(recorded: HistoryCall, layouts: Layouts) -> tuple[CacheBlock, ...]:
    """An answer as a client sends it back: as the turn that follows."""
    said, usage = recorded.said, recorded.usage
    if said is None:
        return ()
    turn = LlmMessage(LlmRole.ASSISTANT, said.text, tool_calls=said.tool_calls)
    layout = layouts.lay_out(LlmRequest(recorded.model, "", [turn]))
    return layout.blocks(
        layout.estimates if usage is None else share(layout.estimates, usage.completion_tokens)
    )
