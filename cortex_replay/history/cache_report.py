"""What a prompt cache would have done with the calls of a run, beside what the provider reported, and what it
costs: a value for the command line, for programs and for viewers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cortex_replay.config import Price
from cortex_replay.gc_pause import pause_gc
from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.differences import explain_difference, is_different, is_estimate
from cortex_replay.history.losses import CacheLoss, CallLoss, add_losses, losses_of
from cortex_replay.history.replay import CacheReplay, ReplayedCall, replay_calls
from cortex_replay.prompt.cache.calls import CacheCall, CacheOutcome, Provider
from cortex_replay.prompt.cache.costs import Cost, Rates, Tariff, Unit, reported_outcome
from cortex_replay.prompt.cache.placement.advice import Advice, advise
from cortex_replay.prompt.cache.placement.placements import Alternatives, compare_placements
from cortex_replay.prompt.cache.simulator import simulate_run
from cortex_replay.prompt.parts import goes_on

__all__ = ["CacheReport", "CallReport", "RunCosts", "report_cache"]

_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class CallReport:
    """One call."""

    number: int
    """From 1, in the order in which the calls were asked."""
    recorded: HistoryCall
    provider: Provider | None
    seconds: float
    """Since the first call."""
    tokens: int
    """The size of its prompt."""
    is_counted: bool
    """Whether that is the provider's count; else it is an estimate."""
    simulated: CacheOutcome | None
    is_estimate: bool
    """Whether what is simulated is only about right."""
    reported: CacheOutcome | None
    rates: Rates | None
    """What its tokens cost, where it is simulated."""
    unit: tuple[Unit, str | None]
    """What costs are in: money has a currency."""
    differs: bool
    """Whether the two disagree by more than the provider's step."""
    explanations: tuple[str, ...] = ()
    """Why they may."""
    losses: tuple[CallLoss, ...] = ()
    """What it paid again, by the simulator."""

    @property
    def simulated_cost(self) -> Cost | None:
        return self._cost_of(self.simulated)

    @property
    def reported_cost(self) -> Cost | None:
        return self._cost_of(self.reported)

    def _cost_of(self, outcome: CacheOutcome | None) -> Cost | None:
        if outcome is None or self.rates is None:
            return None
        usage = self.recorded.usage
        return Cost(self.rates.cost_of(outcome, usage.completion_tokens if usage else 0), *self.unit)

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        recorded = self.recorded
        return {
            "number": self.number,
            "run": recorded.run,
            "scopes": list(recorded.scopes),
            "model": recorded.model,
            "provider": self.provider,
            "prompt_hash": recorded.prompt_hash,
            "path": recorded.path,
            "answer": recorded.answer,
            "seconds": round(self.seconds, 3),
            "tokens": self.tokens,
            "is_counted": self.is_counted,
            "simulated": _outcome_dict(self.simulated, self.simulated_cost),
            "is_estimate": self.is_estimate,
            "reported": _outcome_dict(self.reported, self.reported_cost),
            "differs": self.differs,
            "explanations": list(self.explanations),
        }


@dataclass(frozen=True, slots=True)
class RunCosts:
    """What the calls cost that can be compared: simulated ones, whose tokens the provider counted."""

    calls: int
    reported: Cost
    """By what the provider counted; what it says nothing of counts as fresh."""
    alternatives: Alternatives
    advice: Advice | None
    """The one change that saves most."""
    assumed: tuple[str, ...]
    """Which prices are not the user's own, but the provider's factors times that of input."""

    @property
    def can_mark(self) -> bool:
        """Whether other markers could make a difference: where a provider caches by itself, they do not."""
        return any(call.provider == "anthropic" for call in self.alternatives.given.calls)

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "calls": self.calls,
            "reported": self.reported.to_dict(),
            **self.alternatives.to_dict(),
            "advice": None if self.advice is None else self.advice.to_dict(),
            "assumed_prices": list(self.assumed),
        }


@dataclass(frozen=True, slots=True)
class CacheReport:
    """All of it."""

    calls: tuple[CallReport, ...]
    losses: tuple[CacheLoss, ...]
    costs: RunCosts | None
    """``None`` where no call can be compared."""
    notes: tuple[str, ...]
    """What the reader should know of the numbers, each a whole sentence."""

    @property
    def differences(self) -> int:
        """For how many calls the provider's numbers differ from the simulator's."""
        return sum(call.differs for call in self.calls)

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "calls": [call.to_dict() for call in self.calls],
            "losses": [loss.to_dict() for loss in self.losses],
            "costs": None if self.costs is None else self.costs.to_dict(),
            "notes": list(self.notes),
        }


@pause_gc()
def report_cache(
    recorded: Sequence[HistoryCall],
    prices: Mapping[str, Price] | None = None,
    currency: str | None = None,
    provider: Provider | None = None,
) -> CacheReport:
    """Replay calls through the caches of their providers, and say what that shows.

    Args:
        recorded: In the order in which they were asked.
        prices: Of models. Without one for every model that is simulated, costs are in input tokens.
        currency: Of the prices.
        provider: Whose rules to follow, whatever the recordings say.

    Raises:
        TooManyBlocks: Their prompts have too many blocks.
    """
    replay = replay_calls(recorded, provider)
    models = {replayed.recorded.model for replayed in replay.calls if replayed.call is not None}
    tariff = Tariff.for_models(models, prices or {}, currency)
    losses = losses_of(replay)
    calls = tuple(
        _call_report(number, replayed, replay, tariff, lost)
        for number, (replayed, lost) in enumerate(zip(replay.calls, losses, strict=True), start=1)
    )
    return CacheReport(
        calls,
        add_losses(replay, losses, tariff),
        _costs(replay, tariff),
        (*_notes(calls), *_lost_markers(replay), *_missing_prices(models, prices or {})),
    )


def _call_report(
    number: int, replayed: ReplayedCall, replay: CacheReplay, tariff: Tariff, losses: tuple[CallLoss, ...]
) -> CallReport:
    recorded, call = replayed.recorded, replayed.call
    reported = reported_outcome(recorded.usage)
    differs = is_different(replayed, reported)
    explanations: tuple[str, ...] = ()
    if differs and reported is not None:
        explanations = tuple(explain_difference(replayed, reported, replay.text_of))
    return CallReport(
        number=number,
        recorded=recorded,
        provider=replayed.provider,
        seconds=replayed.seconds,
        tokens=replayed.tokens,
        is_counted=replayed.prompt.is_counted,
        simulated=replayed.outcome,
        is_estimate=is_estimate(replayed),
        reported=reported,
        rates=None if call is None else tariff.rates(call.provider, call.model),
        unit=(tariff.unit, tariff.currency),
        differs=differs,
        explanations=explanations,
        losses=losses,
    )


def _completion(replayed: ReplayedCall) -> int:
    usage = replayed.recorded.usage
    return 0 if usage is None else usage.completion_tokens


def _costs(replay: CacheReplay, tariff: Tariff) -> RunCosts | None:
    rows = [
        (row, row.call)
        for row in replay.calls
        if row.call is not None and row.prompt.is_counted and not row.has_lost_markers
    ]
    if not rows:
        return None
    calls = [call for _, call in rows]
    completions = [_completion(row) for row, _ in rows]
    reported = [reported_outcome(row.recorded.usage) or CacheOutcome(fresh=row.tokens) for row, _ in rows]
    known = [row.outcome for row, _ in rows if row.outcome is not None]

    def simulate(asked: Sequence[CacheCall]) -> list[CacheOutcome]:
        return simulate_run(asked, replay.text_of)

    alternatives = compare_placements(calls, tariff, simulate, completions, known)
    rates = [tariff.rates(*model) for model in dict.fromkeys((call.provider, call.model) for call in calls)]
    return RunCosts(
        len(rows),
        tariff.cost(calls, reported, completions),
        alternatives,
        advise(alternatives, tariff, simulate, completions),
        tuple(dict.fromkeys(name for rate in rates for name in rate.assumed)),
    )


def _notes(calls: Sequence[CallReport]) -> Iterator[str]:
    left_out = [call for call in calls if call.simulated is None]
    cut = sum(goes_on(call.recorded.request) for call in left_out)
    if cut:
        yield f"{_count(cut)} not simulated, because what the provider held before is not among these calls."
    unknown = sorted({call.recorded.model for call in left_out if not goes_on(call.recorded.request)})
    if unknown:
        count = len(left_out) - cut
        yield (
            f"{_count(count)} not simulated: how {_list(unknown)} is cached is not known. "
            "Choose the rules with --as PROVIDER."
        )
    uncounted = sum(not call.is_counted for call in calls if call.simulated is not None)
    if uncounted:
        yield (
            f"{_count(uncounted)} not counted by the provider: such sizes are estimates, "
            "and the costs leave them out."
        )
    assumed = sorted({call.recorded.model for call in calls if call.simulated and call.simulated.is_assumed})
    if assumed:
        yield f"The provider's documents do not name {_list(assumed)}: a related model's rules apply."
    timeless = sum(call.recorded.at is None for call in calls)
    if timeless:
        yield f"{_count(timeless)} recorded without a time: such calls come last here."
    imported = sum(call.recorded.is_imported for call in calls)
    if imported:
        yield f"{_count(imported)} imported without a time: no time passes between them here."


def _lost_markers(replay: CacheReplay) -> Iterator[str]:
    count = sum(row.has_lost_markers for row in replay.calls)
    if count:
        yield (
            f"{_count(count)} recorded by a version that noted no markers: the costs leave such calls out. "
            "Record again to see what the cache does."
        )


def _missing_prices(models: Iterable[str], prices: Mapping[str, Price]) -> Iterator[str]:
    missing = sorted(set(models) - prices.keys())
    if prices and missing:
        yield f"Costs are in input tokens, because the settings have no price for {_list(missing)}."


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (" and others" if names[_MOST_NAMED:] else "")


def _count(number: int) -> str:
    return "1 call was" if number == 1 else f"{number:,} calls were"


def _outcome_dict(outcome: CacheOutcome | None, cost: Cost | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {
        "read": outcome.read,
        "write_5m": outcome.write_5m,
        "write_1h": outcome.write_1h,
        "fresh": outcome.fresh,
        "cost": None if cost is None else cost.to_dict(),
        "reasons": [
            {"why": reason.why, "block": reason.block, "tokens": reason.tokens} for reason in outcome.reasons
        ],
    }
