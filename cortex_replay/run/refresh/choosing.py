"""Which of the recordings that can be asked are asked: a sample, and in which order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from random import Random
from typing import Final, Self

from cortex_replay.engine.money import PriceList
from cortex_replay.engine.tokens import Tokens
from cortex_replay.run.refresh.items import Refresh
from cortex_replay.store.fixture import moment_in

__all__ = ["Choice", "Order", "Share", "choose"]

_SHARE: Final = re.compile(r"([0-9]{1,9})(%?)")
_WHOLE: Final = 100
_UNDATED: Final = datetime.min.replace(tzinfo=UTC)

UseKey = tuple[str, str, str]
"""A model, a prompt hash, and the scope of what is not shared."""


class Order(StrEnum):
    """What comes first."""

    AGE = "age"
    """What was recorded longest ago."""
    USE = "use"
    """What most tests and scopes use."""
    MONEY = "money"
    """What costs most."""
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Share:
    """How many of them: a number, or a part of all."""

    count: int
    is_percent: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``20`` or ``10%``.

        Raises:
            ValueError: It is neither.
        """
        match = _SHARE.fullmatch(text)
        if match is None or not int(match[1]) or (match[2] and int(match[1]) > _WHOLE):
            raise ValueError("a sample is a number of recordings or a share of them: 20, 10%")
        return cls(int(match[1]), bool(match[2]))

    def of(self, total: int) -> int:
        """How many these are; a share of something is never nothing."""
        return min(total, math.ceil(total * self.count / _WHOLE) if self.is_percent else self.count)

    def __str__(self) -> str:
        return f"{self.count}%" if self.is_percent else str(self.count)


@dataclass(frozen=True)
class Choice:
    """What is asked, in order, and what is left for another time."""

    items: list[Refresh]
    left: list[Refresh] = field(default_factory=list)
    unpriced: frozenset[str] = frozenset()
    """Models that have no price, though money decides."""


def choose(
    items: Sequence[Refresh],
    share: Share | None,
    order: Order | None,
    *,
    seed: int = 0,
    prices: PriceList | None = None,
    used: Mapping[UseKey, int] | None = None,
) -> Choice:
    """Choose some of the items.

    Args:
        items: Those that can be asked.
        share: How many; ``None`` for all.
        order: Which come first; ``None`` for the order that they have.
        seed: Of the order ``random``.
        prices: For the order ``money``. What has no price comes behind what has one, by its tokens.
        used: For the order ``use``: how many reports say that a recording was used.
    """
    prices, used = prices or PriceList(), used or {}
    ranks: dict[Order, Callable[[Refresh], object]] = {
        Order.AGE: _recorded_at,
        Order.USE: lambda item: -_uses(item, used),
        Order.MONEY: lambda item: _cost(item, prices),
    }
    if order is None:
        ranked = list(items)
    elif order is Order.RANDOM:
        ranked = sorted(items, key=lambda item: (item.stored.path, item.stored.scope))
        Random(seed).shuffle(ranked)  # noqa: S311 - not for secrets
    else:
        rank = ranks[order]
        ranked = sorted(items, key=lambda item: (rank(item), item.stored.path, item.stored.scope))
    end = len(ranked) if share is None else share.of(len(ranked))
    models = {item.stored.model for item in items} if order is Order.MONEY else set()
    return Choice(ranked[:end], ranked[end:], frozenset(models - prices.prices.keys()))


def _recorded_at(item: Refresh) -> datetime:
    """What does not say when it was recorded is taken to be very old."""
    return moment_in(item.fixture.meta, "recorded_at") or _UNDATED


def _uses(item: Refresh, used: Mapping[UseKey, int]) -> int:
    stored = item.stored
    return len(item.users) + used.get((stored.model, stored.prompt_hash, stored.scope), 0)


def _cost(item: Refresh, prices: PriceList) -> tuple[Decimal, int]:
    tokens = Tokens()
    for answer in item.fixture.answers:
        tokens.add(answer.usage)
    return -prices.amount_of({item.stored.model: tokens}).value, -tokens.total
