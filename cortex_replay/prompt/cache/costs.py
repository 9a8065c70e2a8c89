"""What calls cost, by what a cache does with them: in input tokens, or in money at the user's prices.

Amounts are fractions, so that sums are exact and two placements can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Literal, Self

from cortex_replay.config import Price
from cortex_replay.prompt.cache.calls import CacheCall, CacheOutcome, Provider
from cortex_replay.prompt.cache.facts import FactName, value_of
from cortex_replay.types import TokenUsage

__all__ = ["Cost", "Rates", "Tariff", "Unit", "add_up", "decimal_text", "factors_of", "reported_outcome"]

Unit = Literal["tokens", "money"]

_MILLION: Final = 1_000_000
_LEAST: Final = Fraction(1, 10_000)
"""What is shown of an amount of money."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What one token costs, by what a cache does with it."""

    fresh: Fraction
    read: Fraction
    write_5m: Fraction
    write_1h: Fraction
    output: Fraction = Fraction(0)
    assumed: tuple[str, ...] = ()
    """Which settings the user did not give. They follow from ``input``, by the provider's factors."""

    def cost_of(self, outcome: CacheOutcome, completion: int = 0) -> Fraction:
        """What one call costs."""
        return (
            outcome.fresh * self.fresh
            + outcome.read * self.read
            + outcome.write_5m * self.write_5m
            + outcome.write_1h * self.write_1h
            + completion * self.output
        )

    def cost_of_loss(self, outcome: CacheOutcome, tokens: int) -> Fraction:
        """What a call costs more than if it had read so many tokens more."""
        return self.cost_of(outcome) - self.cost_of(outcome.read_on(tokens))


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount, with what it is counted in."""

    value: Fraction
    unit: Unit = "tokens"
    currency: str | None = None
    """Of money, where the user named one."""

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.value - other.value, self.unit, self.currency)

    def __str__(self) -> str:
        if self.unit == "tokens":
            return f"{round(self.value):,} input tokens"
        small = 0 < abs(self.value) < _LEAST
        shown = f"less than {float(_LEAST):.4f}" if small else f"{float(self.value):,.4f}"
        return f"{shown} {self.currency}" if self.currency else f"{shown} at your prices"

    def share_of(self, whole: Cost) -> float:
        """How large it is beside another, from 0 to 1."""
        return float(self.value / whole.value) if whole.value else 0.0

    def to_dict(self) -> dict[str, Any]:
        """For a program: the amount is text, since a float would round it."""
        return {"amount": decimal_text(self.value), "unit": self.unit, "currency": self.currency}


@dataclass(frozen=True)
class Tariff:
    """What the calls of a run are paid by: one unit for all of them, so that they can be added."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    """By model; empty where costs are counted in input tokens."""
    currency: str | None = None
    _rates: dict[tuple[Provider, str], Rates] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def for_models(
        cls, models: Iterable[str], prices: Mapping[str, Price], currency: str | None = None
    ) -> Self:
        """Money, where the user has given the price of every one of some models; else input tokens."""
        is_priced = bool(prices) and all(model in prices for model in models)
        return cls(prices, currency) if is_priced else cls()

    @property
    def unit(self) -> Unit:
        return "money" if self.prices else "tokens"

    def rates(self, provider: Provider, model: str) -> Rates:
        """What a token of a model costs."""
        known = self._rates.get((provider, model))
        if known is None:
            factors = factors_of(provider, model)
            known = _rates_at(self.prices[model], factors) if self.prices else factors
            self._rates[provider, model] = known
        return known

    def cost(
        self,
        calls: Sequence[CacheCall],
        outcomes: Iterable[CacheOutcome],
        completions: Iterable[int] | None = None,
    ) -> Cost:
        """What calls cost together.

        Args:
            calls: Which they are.
            outcomes: What the cache did with each.
            completions: How long each answer was, in tokens. Without prices it does not count: what an answer
                costs beside its prompt is nowhere said.
        """
        lengths = [0] * len(calls) if completions is None else completions
        groups: dict[tuple[Provider, str], tuple[list[CacheOutcome], list[int]]] = {}
        for call, outcome, length in zip(calls, outcomes, lengths, strict=True):
            group = groups.setdefault((call.provider, call.model), ([], []))
            group[0].append(outcome)
            group[1].append(length)
        whole = Fraction(0)
        for key, (found, answers) in groups.items():
            whole += self.rates(*key).cost_of(add_up(found), sum(answers))
        return Cost(whole, self.unit, self.currency)


def add_up(outcomes: Iterable[CacheOutcome]) -> CacheOutcome:
    """What the cache did with several calls together."""
    read = write_5m = write_1h = fresh = 0
    for outcome in outcomes:
        read += outcome.read
        write_5m += outcome.write_5m
        write_1h += outcome.write_1h
        fresh += outcome.fresh
    return CacheOutcome(read, write_5m, write_1h, fresh)


def factors_of(provider: Provider, model: str) -> Rates:
    """What a token costs in input tokens, by the provider's own factors."""
    read, write = (_factor(provider, model, name) for name in ("read", "write_5m"))
    long = _factor(provider, model, "write_1h") if provider == "anthropic" else write
    return Rates(Fraction(1), read, write, long)


def _factor(provider: Provider, model: str, name: FactName) -> Fraction:
    return Fraction(str(value_of(provider, model, name)))  # as it is written: 0.1 is a tenth


def reported_outcome(usage: TokenUsage | None) -> CacheOutcome | None:
    """What a provider said that its cache did; ``None`` where it said nothing of it."""
    if usage is None or (usage.cached_tokens is None and usage.cache_write_tokens is None):
        return None
    read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    long = min(written, usage.cache_write_1h_tokens or 0)
    return CacheOutcome(read, written - long, long, max(0, usage.prompt_tokens - read - written))


def _rates_at(price: Price, factors: Rates) -> Rates:
    """The user's prices for one token; one that is left out follows from that of input."""
    full = Fraction(price.input) / _MILLION
    given = {
        "cached": price.cached,
        "cache_write_5m": price.cache_write_5m,
        "cache_write_1h": price.cache_write_1h,
    }
    read, write_5m, write_1h = (
        full * factor if own is None else Fraction(own) / _MILLION
        for factor, own in zip(
            (factors.read, factors.write_5m, factors.write_1h), given.values(), strict=True
        )
    )
    assumed = tuple(name for name, value in given.items() if value is None)
    return Rates(full, read, write_5m, write_1h, Fraction(price.output) / _MILLION, assumed)


def decimal_text(value: Fraction) -> str:
    """All digits, as far as there is an end to them; prices and factors are decimal, so there is one."""
    whole, rest = divmod(abs(value), 1)
    digits = ""
    while rest and len(digits) < 30:
        digit, rest = divmod(rest * 10, 1)
        digits += str(digit)
    return f"{'-' if value < 0 else ''}{whole}{'.' if digits else ''}{digits}"
