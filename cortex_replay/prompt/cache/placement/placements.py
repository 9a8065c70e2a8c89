"""What a run would have cost with other markers: with none, with an hour, with the best ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any, Final, Literal

from cortex_replay.prompt.breakpoints import MOST_BREAKPOINTS
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, CacheOutcome, Provider
from cortex_replay.prompt.cache.costs import Cost, Rates, Tariff, add_up
from cortex_replay.prompt.cache.placement.hindsight import CacheRules, Hindsight, HindsightPlan, Markers
from cortex_replay.prompt.cache.placement.partings import Partings
from cortex_replay.prompt.cache.placement.search import cheapest_row
from cortex_replay.prompt.cache.simulator import simulate_run
from cortex_replay.prompt.policy import CachePolicy

__all__ = [
    "Alternatives",
    "Scenario",
    "ScenarioName",
    "Simulate",
    "best_placement",
    "compare_placements",
    "mark",
    "marks_of",
]

Simulate = Callable[[Sequence[CacheCall]], list[CacheOutcome]]
"""What the caches of providers do with calls, in order, when nothing is in them at first."""

ScenarioName = Literal["given", "no marker", "1h", "best"]

_NONE, _SHORT, _LONG = CachePolicy.NONE, CachePolicy.EPHEMERAL_5M, CachePolicy.EPHEMERAL_1H
_TIMES: Final = ((_SHORT,), (_LONG,), (_SHORT, _LONG))
"""The times that plans are made with; each may also bridge a pause."""
_MOST_TOGETHER: Final = 8
"""How many calls a group may have for all of its placements to be tried."""
_MOST_TRIED: Final = 1_000
"""How many placements of one call are tried, so that the best is known and not guessed."""
_MOST_ASKED: Final = 20_000
"""How many calls are simulated for that, over all groups of a run."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A run with other markers."""

    name: ScenarioName
    cost: Cost
    calls: tuple[CacheCall, ...]
    outcomes: tuple[CacheOutcome, ...]
    is_least: bool = False
    """Whether nothing can cost less; else there may be something better."""

    @property
    def read(self) -> int:
        """How many tokens were read from the cache."""
        return sum(outcome.read for outcome in self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {"name": self.name, **self.cost.to_dict(), "read": self.read, "is_least": self.is_least}


@dataclass(frozen=True, slots=True)
class Alternatives:
    """What a run costs, and what it would cost otherwise."""

    given: Scenario
    no_marker: Scenario
    hour: Scenario
    best: Scenario

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {one.name: one.to_dict() for one in (self.given, self.no_marker, self.hour, self.best)}


def compare_placements(
    calls: Sequence[CacheCall],
    tariff: Tariff,
    simulate: Simulate = simulate_run,
    completions: Sequence[int] | None = None,
    outcomes: Sequence[CacheOutcome] | None = None,
) -> Alternatives:
    """What a run costs, and what it would cost with other markers.

    Args:
        calls: In the order of their times. Those of providers that cache by themselves stay as they are.
        tariff: What is paid.
        simulate: The caches.
        completions: How long each answer was, in tokens.
        outcomes: What the caches do with the calls as they are, where that is known.
    """

    def scenario(
        name: ScenarioName, asked: Sequence[CacheCall], known: Sequence[CacheOutcome] | None = None
    ) -> Scenario:
        found = simulate(asked) if known is None else known
        return Scenario(name, tariff.cost(asked, found, completions), tuple(asked), tuple(found))

    given = scenario("given", calls, outcomes)
    return Alternatives(
        given,
        _without_markers(given, tariff, completions),
        scenario("1h", [_with_hours(call) for call in calls]),
        best_placement(given, tariff, simulate, completions),
    )


def best_placement(
    given: Scenario,
    tariff: Tariff,
    simulate: Simulate = simulate_run,
    completions: Sequence[int] | None = None,
) -> Scenario:
    """A run with the best markers that are found, at most four for each call. It never costs more than given.

    Calls that begin alike are one group; no group knows of another. Of a small one all placements are tried
    where that is needed to know the best; of a larger one it is planned with hindsight.
    """
    calls = list(given.calls)
    outcomes = list(given.outcomes)
    is_least = True
    for (provider, model), indices in _by_model(calls).items():
        if provider != "anthropic":
            continue
        search = _Search([calls[i] for i in indices], tariff.rates(provider, model), simulate)
        found, is_best = search.improve([outcomes[i] for i in indices])
        is_least = is_least and is_best
        for i, (call, outcome) in zip(indices, found, strict=True):
            calls[i], outcomes[i] = call, outcome
    cost = tariff.cost(calls, outcomes, completions)
    return Scenario("best", cost, tuple(calls), tuple(outcomes), is_least)


def mark(call: CacheCall, markers: Markers) -> CacheCall:
    """A call with other markers, and no others."""
    given = marks_of(call)
    if given == markers and not call.automatic.is_cached:
        return call
    blocks = list(call.blocks)
    for i in given.keys() | markers.keys():
        one = blocks[i]
        # By itself: a run has a hundred thousand of them, and `replace` takes three times as long.
        blocks[i] = CacheBlock(one.name, one.place, one.digest, one.tokens, markers.get(i, _NONE), one.kind)
    return replace(call, blocks=tuple(blocks), automatic=_NONE)


def marks_of(call: CacheCall) -> Markers:
    """The markers on the blocks of a call."""
    none = _NONE
    return {i: block.marker for i, block in enumerate(call.blocks) if block.marker is not none}


def _without_markers(given: Scenario, tariff: Tariff, completions: Sequence[int] | None) -> Scenario:
    """Anthropic caches nothing then; for the others markers change nothing."""
    calls, outcomes = list(given.calls), list(given.outcomes)
    for i, call in enumerate(given.calls):
        if call.provider == "anthropic":
            calls[i], outcomes[i] = mark(call, {}), CacheOutcome(fresh=outcomes[i].tokens)
    return Scenario("no marker", tariff.cost(calls, outcomes, completions), tuple(calls), tuple(outcomes))


def _with_hours(call: CacheCall) -> CacheCall:
    if call.provider != "anthropic":
        return call
    marked = mark(call, dict.fromkeys(marks_of(call), _LONG))
    return replace(marked, automatic=_LONG) if call.automatic.is_cached else marked


def _by_model(calls: Sequence[CacheCall]) -> dict[tuple[Provider, str], list[int]]:
    groups: dict[tuple[Provider, str], list[int]] = {}
    for i, call in enumerate(calls):
        groups.setdefault((call.provider, call.model), []).append(i)
    return groups


class _Search:
    """The search for the best markers of calls of one model."""

    def __init__(self, calls: Sequence[CacheCall], rates: Rates, simulate: Simulate) -> None:
        self._calls, self._rates, self._simulate = calls, rates, simulate
        self._rules = CacheRules.of(calls[0].model)
        self._partings = Partings(calls, self._rules.least)
        self._hindsight = Hindsight(calls, self._partings, rates, self._rules)
        self._tries_left = _MOST_ASKED

    def improve(self, outcomes: Sequence[CacheOutcome]) -> tuple[list[tuple[CacheCall, CacheOutcome]], bool]:
        """The best calls that are found, with what the cache does with them; and whether none are better."""
        groups = self._groups()
        plans = [self._plan(group) for group in groups]
        asked = list(self._calls)
        for plan in plans:
            for i, markers in plan.markers.items():
                asked[i] = mark(asked[i], markers)
        seen = self._simulate(asked)
        best = list(zip(self._calls, outcomes, strict=True))
        is_least = True
        for group, plan in zip(groups, plans, strict=True):
            options = [[best[i] for i in group], [(asked[i], seen[i]) for i in group]]
            is_known = plan.is_least and self._cost(options[1]) == self._hindsight.value_of(plan)
            if not is_known and (tried := self._try_all(group, min(map(self._cost, options)))) is not None:
                options.append(tried)
                is_known = True
            is_least = is_least and is_known
            for i, one in zip(group, min(options, key=self._cost), strict=True):
                best[i] = one
        return best, is_least

    def _groups(self) -> list[list[int]]:
        """The calls by the prefix that they begin with."""
        groups: dict[int, list[int]] = {}
        for i, path in enumerate(self._partings.paths):
            groups.setdefault(path[0] if path else -1, []).append(i)
        return list(groups.values())

    def _plan(self, group: list[int]) -> HindsightPlan:
        plan = self._hindsight.plan(group, _TIMES[0])
        if plan.is_least:
            return plan
        others = [self._hindsight.plan(group, times, bridge=True) for times in _TIMES]
        return min([plan, *others], key=lambda one: one.cost)

    def _cost(self, pairs: Iterable[tuple[CacheCall, CacheOutcome]]) -> Fraction:
        return self._rates.cost_of(add_up(outcome for _, outcome in pairs))

    def _try_all(self, group: list[int], at_most: Fraction) -> list[tuple[CacheCall, CacheOutcome]] | None:
        """The best of all placements; ``None`` where they are too many."""
        places = [self._places_to_try(i) for i in group]
        is_long = any(at and at[-1] >= self._rules.lookback for at in places)
        count = max(sum(comb(len(at), k) * (k + 1) for k in range(MOST_BREAKPOINTS + 1)) for at in places)
        # One marker cannot look back far enough in a long prompt, and what is tried has to end some time.
        if len(group) > _MOST_TOGETHER or is_long or count > _MOST_TRIED:
            return None
        choices = [list(self._choices(i, at)) for i, at in zip(group, places, strict=True)]
        floors = [self._floor(i) for i in group]
        row, asked = cheapest_row(choices, floors, self._rates, at_most, self._tries_left)
        self._tries_left -= asked
        return None if row is None else list(zip(row, self._simulate(row), strict=True))

    def _places_to_try(self, i: int) -> list[int]:
        """Where markers of a call can help: where it parts from another one, and one block before that. A
        call that reads up to there can keep all of it for an hour at the price of one block."""
        places = self._partings.places[i]
        before = {place - 1 for place in places if place and self._can_carry(i, place - 1)}
        return sorted({*places, *before})

    def _can_carry(self, i: int, place: int) -> bool:
        is_able = self._calls[i].blocks[place].kind != "thinking"
        return is_able and self._partings.ends[i][place] >= self._rules.least

    def _floor(self, i: int) -> Fraction:
        """What a call costs if it reads all that it shares."""
        ends, places = self._partings.ends[i], self._partings.places[i]
        read = ends[places[-1]] if places else 0
        return self._rates.cost_of(CacheOutcome(read=read, fresh=self._calls[i].tokens - read))

    def _choices(self, i: int, places: list[int]) -> Iterator[CacheCall]:
        """A call with every placement of markers at some places."""
        call = self._calls[i]
        for count in range(min(len(places), MOST_BREAKPOINTS) + 1):
            for chosen in combinations(places, count):
                for hours in range(count + 1):  # an hour stands before five minutes
                    times = [_LONG] * hours + [_SHORT] * (count - hours)
                    yield mark(call, dict(zip(chosen, times, strict=True)))
