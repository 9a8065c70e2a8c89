"""What calls took, in tokens and in money."""

from __future__ import annotations

from collections.abc import Iterable

from cortex_replay.engine.money import PriceList
from cortex_replay.engine.tokens import Tally, Tokens, sum_of
from cortex_replay.types import TokenUsage
from cortex_replay.view.shapes import Spent

__all__ = ["spent_on"]


def spent_on(calls: Iterable[tuple[str, TokenUsage | None]], prices: PriceList) -> Spent:
    """What some calls took together.

    Args:
        calls: The model of each, and what its provider counted.
        prices: The user's own. Money is said where they have one of the models.
    """
    tally: Tally = {}
    for model, usage in calls:
        tally.setdefault(model, Tokens()).add(usage)
    whole = sum_of(tally) if len(tally) != 1 else next(iter(tally.values()))
    spent: Spent = {
        "prompt": whole.prompt,
        "completion": whole.completion,
        "cached": whole.cached,
        "cache_write": whole.cache_write,
    }
    if prices.prices and (amount := prices.amount_of(tally)).is_known:
        is_part = bool(amount.unpriced or amount.uncounted)
        spent["money"] = f"{'at least ' if is_part else ''}{prices.text_of(amount.value)}"
    return spent
