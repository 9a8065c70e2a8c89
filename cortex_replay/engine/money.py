"""What calls cost, and what replaying them saved, at the user's own prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from cortex_replay.config import Price
from cortex_replay.engine.tokens import Tokens
from cortex_replay.printable import escape_controls

__all__ = ["Amount", "PriceList", "cost_of"]

_MILLION: Final = Decimal(1_000_000)
_LEAST: Final = Decimal("0.0001")
"""What is shown of an amount."""
_MOST_NAMED: Final = 5
_LONGEST_NAME: Final = 64


def cost_of(tokens: Tokens, price: Price) -> Decimal:
    """What the calls of one model cost. What has no price of its own costs what ``input`` says."""
    whole = tokens.fresh * price.input + tokens.completion * price.output
    for count, own in _cache_parts(tokens, price):
        whole += count * (price.input if own is None else own)
    return whole / _MILLION


def _cache_parts(tokens: Tokens, price: Price) -> list[tuple[int, Decimal | None]]:
    """What a cache had a part in, and the price of each."""
    return [
        (tokens.cached, price.cached),
        (tokens.cache_write_5m, price.cache_write_5m),
        (tokens.cache_write_1h, price.cache_write_1h),
    ]


@dataclass(frozen=True, slots=True)
class Amount:
    """What some calls are worth, as far as that is known."""

    value: Decimal = Decimal(0)
    is_known: bool = False
    """Whether a model among them has a price."""
    unpriced: tuple[str, ...] = ()
    """The models that have none; they are not in the value."""
    uncounted: int = 0
    """Calls that are not in the value because nobody counted their tokens."""
    as_fresh: tuple[str, ...] = ()
    """The models of which something is in the value at the price of fresh input, though it was cached."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of models, and the currency that they are in."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    currency: str | None = None

    def amount_of(self, tally: Mapping[str, Tokens]) -> Amount:
        priced = {model: tokens for model, tokens in tally.items() if model in self.prices}
        return Amount(
            sum((cost_of(tokens, self.prices[model]) for model, tokens in priced.items()), Decimal(0)),
            bool(priced),
            tuple(sorted(tally.keys() - priced.keys())),
            sum(tokens.uncounted for tokens in priced.values()),
            tuple(
                model
                for model, tokens in sorted(priced.items())
                if any(count and own is None for count, own in _cache_parts(tokens, self.prices[model]))
            ),
        )

    def rows(self, paid: Mapping[str, Tokens], saved: Mapping[str, Tokens]) -> dict[str, str]:
        """What a summary says of money, by name; nothing where no model has a price."""
        if not self.prices:
            return {}
        amounts = {"paid": self.amount_of(paid), "saved": self.amount_of(saved)}
        rows = {name: self.text_of(amount.value) for name, amount in amounts.items() if amount.is_known}
        if unpriced := sorted({model for amount in amounts.values() for model in amount.unpriced}):
            rows["no price"] = _names_of(unpriced)
        if as_fresh := sorted({model for amount in amounts.values() for model in amount.as_fresh}):
            rows["cached at the price of input"] = _names_of(as_fresh)
        if uncounted := sum(amount.uncounted for amount in amounts.values()):
            rows["no token count"] = f"{uncounted} call" + ("" if uncounted == 1 else "s")
        return rows

    def facts(self, paid: Mapping[str, Tokens], saved: Mapping[str, Tokens]) -> list[str]:
        """The same for a line of text."""
        where = "" if self.currency else " at your prices"
        forms = {
            "paid": f"{{}} paid{where}",
            "saved": f"{{}} saved{where}",
            "no price": "no price for {}",
            "cached at the price of input": "no price for what {} cached, so it counts as input",
        }
        rows = self.rows(paid, saved)
        return [forms.get(name, f"{{}} with {name}").format(text) for name, text in rows.items()]

    def to_dict(self, paid: Mapping[str, Tokens], saved: Mapping[str, Tokens]) -> dict[str, Any]:
        """The same for a program: amounts are text, since a float would round them."""
        if not self.prices:
            return {}
        amounts = {"paid": self.amount_of(paid), "saved": self.amount_of(saved)}
        return {
            "currency": self.currency,
            **{name: _plain(amount.value) if amount.is_known else None for name, amount in amounts.items()},
            "not_priced": sorted({model for amount in amounts.values() for model in amount.unpriced}),
            "uncounted": sum(amount.uncounted for amount in amounts.values()),
            "cached_as_input": sorted({model for amount in amounts.values() for model in amount.as_fresh}),
        }

    def text_of(self, value: Decimal) -> str:
        """An amount with its currency."""
        shown = f"less than {_LEAST}" if 0 < value < _LEAST else f"{value.quantize(_LEAST):,f}"
        return f"{shown} {self.currency}" if self.currency else shown


def _names_of(models: Sequence[str]) -> str:
    named = [escape_controls(model[:_LONGEST_NAME]) for model in models[:_MOST_NAMED]]
    more = [f"{len(models) - _MOST_NAMED} more"] if len(models) > _MOST_NAMED else []
    return " and ".join([*named, *more])


def _plain(value: Decimal) -> str:
    """Without an exponent and without zeros at the end."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
