"""What calls cost, and what replaying them saved, at the user's own prices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from typing import Any, Final

from cortex_replay.config import Price
from cortex_replay.errors import InvalidRequest
from cortex_replay.printable import escape_controls
from cortex_replay.types import TokenUsage

__all__ = ["Amount", "PriceList", "Tally", "Tokens", "merge_tallies", "read_tally"]

_MILLION: Final = Decimal(1_000_000)
_LEAST: Final = Decimal("0.0001")
"""What is shown of an amount."""
_MOST_NAMED: Final = 5
_MOST_MODELS: Final = 10_000
_MOST_COUNTED: Final = 10**15
_LONGEST_NAME: Final = 64


@dataclass(slots=True)
class Tokens:
    """What the calls of one model took."""

    prompt: int = 0
    """All that was sent; the next two are parts of it."""
    cached: int = 0
    cache_write: int = 0
    completion: int = 0
    uncounted: int = 0
    """Calls whose provider told no usage."""

    def add(self, usage: TokenUsage | None) -> None:
        if usage is None:
            self.uncounted += 1
            return
        self.prompt += usage.prompt_tokens
        self.completion += usage.completion_tokens
        self.cached += usage.cached_tokens or 0
        self.cache_write += usage.cache_write_tokens or 0

    def merge(self, other: Tokens) -> None:
        for name, count in asdict(other).items():
            setattr(self, name, getattr(self, name) + count)

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def cost_at(self, price: Price) -> Decimal:
        plain = max(0, self.prompt - self.cached - self.cache_write)
        cached = price.input if price.cached is None else price.cached
        written = price.input if price.cache_write is None else price.cache_write
        whole = plain * price.input + self.cached * cached + self.cache_write * written
        return (whole + self.completion * price.output) / _MILLION


_COUNTS: Final = frozenset(field.name for field in fields(Tokens))

Tally = dict[str, Tokens]
"""By model."""


def merge_tallies(tallies: Iterable[Tally]) -> Tally:
    """One tally of several."""
    whole: Tally = {}
    for tally in tallies:
        for model, tokens in tally.items():
            whole.setdefault(model, Tokens()).merge(tokens)
    return whole


def read_tally(document: object) -> Tally:
    """A tally that another process sent, as plain values.

    Raises:
        InvalidRequest: It is none.
    """
    if not isinstance(document, dict) or len(document) > _MOST_MODELS:
        raise InvalidRequest("tally", "expected tokens by model")
    return {str(model): _read_tokens(counts) for model, counts in document.items()}


def _read_tokens(counts: object) -> Tokens:
    if isinstance(counts, dict) and counts.keys() <= _COUNTS and all(map(_is_count, counts.values())):
        return Tokens(**counts)
    raise InvalidRequest("tally", "expected numbers of tokens")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_COUNTED


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


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of models, and the currency that they are in."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    currency: str | None = None

    def amount_of(self, tally: Mapping[str, Tokens]) -> Amount:
        priced = {model: tokens for model, tokens in tally.items() if model in self.prices}
        return Amount(
            sum((tokens.cost_at(self.prices[model]) for model, tokens in priced.items()), Decimal(0)),
            bool(priced),
            tuple(sorted(tally.keys() - priced.keys())),
            sum(tokens.uncounted for tokens in priced.values()),
        )

    def rows(self, paid: Mapping[str, Tokens], saved: Mapping[str, Tokens]) -> dict[str, str]:
        """What a summary says of money, by name; nothing where no model has a price."""
        if not self.prices:
            return {}
        amounts = {"paid": self.amount_of(paid), "saved": self.amount_of(saved)}
        rows = {name: self._text_of(amount.value) for name, amount in amounts.items() if amount.is_known}
        unpriced = sorted({model for amount in amounts.values() for model in amount.unpriced})
        if unpriced:
            named = [escape_controls(model[:_LONGEST_NAME]) for model in unpriced[:_MOST_NAMED]]
            more = [f"{len(unpriced) - _MOST_NAMED} more"] if len(unpriced) > _MOST_NAMED else []
            rows["no price"] = " and ".join([*named, *more])
        if uncounted := sum(amount.uncounted for amount in amounts.values()):
            rows["no token count"] = f"{uncounted} call" + ("" if uncounted == 1 else "s")
        return rows

    def facts(self, paid: Mapping[str, Tokens], saved: Mapping[str, Tokens]) -> list[str]:
        """The same for a line of text."""
        where = "" if self.currency else " at your prices"
        forms = {"paid": f"{{}} paid{where}", "saved": f"{{}} saved{where}", "no price": "no price for {}"}
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
        }

    def _text_of(self, value: Decimal) -> str:
        shown = f"less than {_LEAST}" if 0 < value < _LEAST else f"{value.quantize(_LEAST):,f}"
        return f"{shown} {self.currency}" if self.currency else shown


def _plain(value: Decimal) -> str:
    """Without an exponent and without zeros at the end."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
