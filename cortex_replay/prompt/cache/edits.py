"""What an edit of a prompt costs: everything that was cached from there on is paid again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, Provider
from cortex_replay.prompt.cache.costs import Cost, Tariff
from cortex_replay.prompt.cache.layout import Layouts
from cortex_replay.prompt.cache.requests import estimate_call
from cortex_replay.prompt.cache.simulator import simulate_after
from cortex_replay.types import LlmRequest

__all__ = ["EditCost", "cost_of_edit", "costs_of_edits"]

_MOST_BLOCKS: Final = 60_000
"""That are simulated for the edits of one prompt: each edit takes as many as the prompt has."""


@dataclass(frozen=True, slots=True)
class EditCost:
    """What a call costs more after an edit than without it, because the cache does not know what follows."""

    block: str
    """The first that is not what it was, by its label if it has one."""
    tokens: int
    """How many would have been read from the cache, and are paid again."""
    per_call: Cost
    is_estimate: bool
    """Whether the tokens are estimated: no provider counted them."""

    @property
    def per_thousand(self) -> Cost:
        """For a thousand calls, each with an edit of its own: a time in the block, for example."""
        return replace(self.per_call, value=self.per_call.value * 1000)

    def __str__(self) -> str:
        about = "about " if self.is_estimate else ""
        price = f"{self.per_call} per call, {self.per_thousand} per thousand calls"
        return (
            f"After this edit of {self.block}, {about}{self.tokens:,} cached tokens are paid again. "
            f"If every call has such an edit, that costs {price}."
        )

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "block": self.block,
            "tokens": self.tokens,
            "is_estimate": self.is_estimate,
            "per_call": self.per_call.to_dict(),
            "per_thousand": self.per_thousand.to_dict(),
        }


def cost_of_edit(
    provider: Provider,
    before: LlmRequest,
    after: LlmRequest,
    tariff: Tariff,
    tokens: tuple[int | None, int | None] = (None, None),
) -> EditCost | None:
    """What a change from one prompt to another costs; nothing where all that was cached is found again.

    Args:
        provider: Whose cache it is.
        before: The prompt that was cached, with its plan.
        after: The one that is asked now.
        tariff: What tokens cost.
        tokens: What the provider counted of both, where that is known.
    """
    layouts = Layouts()
    counts = tokens
    if tokens[0] is not None and tokens[1] is None:
        # The second prompt is taken to have as many tokens a byte as the first.
        sizes = [sum(layouts.lay_out(request).estimates) for request in (before, after)]
        counts = tokens[0], round(tokens[0] * sizes[1] / sizes[0]) if sizes[0] else None
    first = estimate_call(before, provider, layouts, tokens=counts[0])
    second = estimate_call(after, provider, layouts, tokens=counts[1], at=1.0)
    block = _first_change(first.blocks, second.blocks)
    if block is None or first.model != second.model:
        return None
    # What only one of the two could have cached is not paid again.
    most = min(simulate_after(call, replace(call, at=2.0), layouts.text_of).read for call in (first, second))
    return _cost(block, first, second, most, tariff, layouts)


def costs_of_edits(
    provider: Provider, request: LlmRequest, tariff: Tariff, tokens: int | None = None
) -> Iterator[EditCost | None]:
    """What an edit at the start of each block of a prompt would cost, in the order of its blocks.

    Of a very long prompt at a provider that caches by itself, only as many as can be simulated soon.

    Args:
        provider: Whose cache it is.
        request: The prompt, with its plan.
        tariff: What tokens cost.
        tokens: What the provider counted, where that is known.
    """
    layouts = Layouts()
    call = estimate_call(request, provider, layouts, tokens=tokens)
    most = simulate_after(call, replace(call, at=1.0), layouts.text_of).read
    left = _MOST_BLOCKS
    known: EditCost | None = None
    for i, block in enumerate(call.blocks):
        # Where a cache ends at breakpoints, every edit between two of them costs the same.
        if provider != "anthropic" or i == 0 or call.blocks[i - 1].marker.is_cached:
            left -= len(call.blocks)
            known = None
            if left >= 0:
                edited = replace(block, digest=f"{block.digest} edited")
                second = replace(call, at=1.0, blocks=(*call.blocks[:i], edited, *call.blocks[i + 1 :]))
                known = _cost(block.name, call, second, most, tariff, layouts)
        yield None if known is None else replace(known, block=block.name)


def _cost(
    block: str, first: CacheCall, second: CacheCall, most: int, tariff: Tariff, layouts: Layouts
) -> EditCost | None:
    """What the second costs more than if it had read as much as there is to read."""
    edited = simulate_after(first, second, layouts.text_of)
    tokens = most - edited.read
    if tokens <= 0:
        return None
    extra = tariff.rates(second.provider, second.model).cost_of_loss(edited, tokens)
    cost = Cost(extra, tariff.unit, tariff.currency)
    return EditCost(block, tokens, cost, first.is_estimate or edited.is_estimate)


def _first_change(before: tuple[CacheBlock, ...], after: tuple[CacheBlock, ...]) -> str | None:
    for old, new in zip(before, after, strict=False):
        if old.digest != new.digest:
            was_put_in = any(block.digest == old.digest for block in after)
            return new.name if was_put_in else old.name
    return before[len(after)].name if len(before) > len(after) else None
