"""Where markers would have cost least, worked out after the run, when all calls are known.

Only the last marker of a call says how much is written; the others are free. So the question is how far each
call should write, and for how long. Each stretch of a prompt between two places where calls part is paid by
every call that has it: written once, then read as long as the next call comes in time. What is cheapest for
one stretch does not depend on the others while all live equally long, since a deeper one has fewer calls,
further apart. With two times it is a good guess, and the simulator has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import inf, lcm
from typing import Final, Self

from cortex_replay.prompt.breakpoints import MOST_BREAKPOINTS
from cortex_replay.prompt.cache.calls import CacheCall
from cortex_replay.prompt.cache.costs import Rates
from cortex_replay.prompt.cache.facts import value_of
from cortex_replay.prompt.cache.placement.partings import Partings
from cortex_replay.prompt.policy import CachePolicy

__all__ = ["CacheRules", "Hindsight", "HindsightPlan", "Markers", "Times"]

Markers = dict[int, CachePolicy]
"""The marker on each block that has one, by its index."""
Times = tuple[CachePolicy, ...]

_SHORT, _LONG = 1, 2
"""What a wish may be, beside none."""


@dataclass(frozen=True, slots=True)
class CacheRules:
    """What a provider's rules mean for where markers may stand."""

    least: int
    """How long a prefix must be, in tokens."""
    lookback: int
    """How many blocks a marker looks at, itself the first."""
    short: float
    """How long five minutes are, in seconds."""
    long: float

    @classmethod
    def of(cls, model: str) -> Self:
        """Those that Anthropic has for a model."""
        fact = partial(value_of, "anthropic", model)
        return cls(int(fact("minimum")), int(fact("lookback")), fact("ttl_5m"), fact("ttl_1h"))


@dataclass(slots=True)
class _Entry:
    """A prefix in the cache."""

    ready: float
    until: float
    giver: int
    """The call that wrote or read it last."""
    is_long: bool


@dataclass(slots=True)
class _Step:
    """What a call is to do: the last block that it reads, and the last ones that it writes; -1 is none."""

    read: int = -1
    long: int = -1
    write: int = -1
    needs: dict[int, int] = field(default_factory=dict)
    """Prefixes that later calls read, by their last block: how many tokens."""
    long_needs: set[int] = field(default_factory=set)

    def give(self, depth: int, tokens: int, *, is_long: bool) -> None:
        """Note that a later call reads a prefix of this one."""
        self.needs[depth] = self.needs.get(depth, 0) + tokens
        if is_long:
            self.long_needs.add(depth)


@dataclass(slots=True)
class HindsightPlan:
    """Markers for some calls, and what they should cost."""

    markers: dict[int, Markers]
    cost: int
    """In units of the planner's own, to compare plans with."""
    is_least: bool
    """Whether nothing can cost less, if the simulator agrees on the cost."""


class Hindsight:
    """Plans markers for the calls of one run."""

    def __init__(
        self,
        calls: Sequence[CacheCall],
        partings: Partings,
        rates: Rates,
        rules: CacheRules,
    ) -> None:
        """Plan for some calls.

        Args:
            calls: In the order of their times, all of one model.
            partings: Theirs.
            rates: What their tokens cost; the factors between them count.
            rules: Of the model.
        """
        self._calls, self._partings, self._rules = calls, partings, rules
        paid = (rates.fresh, rates.read, rates.write_5m, rates.write_1h)
        self._unit: Final = lcm(*(rate.denominator for rate in paid))
        self._fresh, self._read, self._short, self._long = (int(rate * self._unit) for rate in paid)

    def plan(self, group: Sequence[int], times: Times, *, bridge: bool = False) -> HindsightPlan:
        """Markers for the calls of a group, which share no prefix with others.

        Args:
            group: Which calls, in order.
            times: The times that markers may have.
            bridge: Whether the last bit before a pause may be written for an hour all the same.
        """
        wishes, bridges, has_long_gap = self._wishes(group, times)
        steps, cost, has_conflict = self._walk(group, wishes, bridges if bridge else {})
        markers = {j: self._markers(step) for j, step in steps.items()}
        is_simple = (
            not bridge and times == (CachePolicy.EPHEMERAL_5M,) and self._short + self._read < 2 * self._fresh
        )
        return HindsightPlan(markers, cost, is_simple and not has_long_gap and not has_conflict)

    def value_of(self, plan: HindsightPlan) -> Fraction:
        """What a plan should cost, in the unit of the rates."""
        return Fraction(plan.cost, self._unit)

    def _wishes(
        self, group: Sequence[int], times: Times
    ) -> tuple[dict[int, bytearray], dict[int, int], bool]:
        """What is cheapest for each stretch that a call would have to pay; the last place of each call that
        is asked for again after five minutes, but within the hour; and whether there is any such gap."""
        fresh, read, rules = self._fresh, self._read, self._rules
        short = self._short if CachePolicy.EPHEMERAL_5M in times else inf
        long = self._long if CachePolicy.EPHEMERAL_1H in times else inf
        wishes: dict[int, bytearray] = {}
        bridges: dict[int, int] = {}
        has_long_gap = False
        # Of each node, seen from its next call: when that is, what it and all later ones cost if it finds
        # nothing, and what the later ones cost if it leaves something for five minutes or an hour.
        future: dict[int, tuple[float, float, float, float]] = {}
        for j in reversed(group):
            call, path = self._calls[j], self._partings.paths[j]
            at = call.at
            ready = at if call.ready is None else call.ready
            places = self._partings.places[j]
            wish = wishes[j] = bytearray(len(places))
            for i, place in enumerate(places):
                node = path[place]
                later = future.get(node)
                if later is None:
                    future[node] = (at, fresh, 0, 0)
                    continue
                then, alone, after_short, after_long = later
                gap = then - at
                in_time = then >= ready
                if not in_time:
                    has_long_gap = True
                elif rules.short <= gap < rules.long:
                    has_long_gap = True
                    bridges[j] = place
                after_short = read + after_short if in_time and gap < rules.short else alone
                after_long = read + after_long if in_time and gap < rules.long else alone
                best: float = fresh + alone
                if short + after_short < best:
                    best = short + after_short
                    wish[i] = _SHORT
                if long + after_long < best:
                    best = long + after_long
                    wish[i] = _LONG
                future[node] = (at, best, after_short, after_long)
        return wishes, bridges, has_long_gap

    def _walk(
        self, group: Sequence[int], wishes: dict[int, bytearray], bridges: dict[int, int]
    ) -> tuple[dict[int, _Step], int, bool]:
        """Go through the calls as the cache would, following their wishes: what each call does, the cost of
        all, and whether two of them wanted to write the same at once."""
        entries: dict[int, _Entry] = {}
        steps: dict[int, _Step] = {}
        cost, has_conflict = 0, False
        for j in group:
            step = steps[j] = _Step()
            entry = self._find(j, step, entries)
            if entry is not None:
                steps[entry.giver].give(step.read, self._partings.ends[j][step.read], is_long=entry.is_long)
            wish, places = wishes[j], self._partings.places[j]
            last = max(wish.rfind(_LONG), wish.rfind(_SHORT))
            if last >= 0 and places[last] > step.read:
                if self._is_double(j, step.read, places[last], entries):
                    has_conflict = True
                else:
                    step.write = places[last]
                    long = wish.rfind(_LONG)
                    step.long = places[long] if long >= 0 and places[long] > step.read else -1
            if j in bridges:
                self._bridge(j, step, bridges[j])
            self._note(j, step, entries)
            cost += self._cost(j, step)
        return steps, cost, has_conflict

    def _bridge(self, j: int, step: _Step, place: int) -> None:
        """Write for an hour up to a place, if that is worth it: all that is read before it lives on with it,
        and only what is behind that has to be paid."""
        if step.read < place and step.long < place:
            longer = replace(step, long=place, write=max(step.write, place))
            saving = (self._fresh - self._read) * self._partings.ends[j][place]
            if self._cost(j, longer) - self._cost(j, step) < saving:
                step.long, step.write = longer.long, longer.write

    def _find(self, j: int, step: _Step, entries: dict[int, _Entry]) -> _Entry | None:
        """What a call reads: the longest prefix that is in the cache."""
        path, at = self._partings.paths[j], self._calls[j].at
        for depth in reversed(self._partings.places[j]):
            entry = entries.get(path[depth])
            if entry is not None and entry.ready <= at < entry.until:
                step.read = step.write = depth
                return entry
        return None

    def _is_double(self, j: int, read: int, last: int, entries: dict[int, _Entry]) -> bool:
        """Whether another call is writing most of the same at this moment, so that it costs more than it
        brings to write it as well."""
        path, ends, at = self._partings.paths[j], self._partings.ends[j], self._calls[j].at
        for depth in reversed(self._partings.places[j]):
            entry = entries.get(path[depth])
            if read < depth <= last and entry is not None and at < entry.ready:
                twice = ends[depth] - (ends[read] if read >= 0 else 0)
                saving = 2 * self._fresh - self._short - self._read
                return saving * (ends[last] - ends[depth]) <= (self._short - self._fresh) * twice
        return False

    def _note(self, j: int, step: _Step, entries: dict[int, _Entry]) -> None:
        """Let later calls find what a call has read and written."""
        rules = self._rules
        call, path = self._calls[j], self._partings.paths[j]
        at = call.at
        ready = at if call.ready is None else call.ready
        for depth in self._partings.places[j]:
            if depth > step.write:
                break
            entry = entries.get(path[depth])
            if depth <= step.read and entry is not None and entry.ready <= at < entry.until:
                entry.until = at + (rules.long if entry.is_long else rules.short)
                entry.giver = j
                continue
            is_long = depth <= step.long
            entries[path[depth]] = _Entry(ready, at + (rules.long if is_long else rules.short), j, is_long)

    def _cost(self, j: int, step: _Step) -> int:
        ends = self._partings.ends[j]
        whole = ends[-1] if ends else 0
        read = ends[step.read] if step.read >= 0 else 0
        long = max(read, ends[step.long]) if step.long >= 0 else read
        written = max(long, ends[step.write]) if step.write >= 0 else long
        return (
            self._read * read
            + self._long * (long - read)
            + self._short * (written - long)
            + self._fresh * (whole - written)
        )

    def _markers(self, step: _Step) -> Markers:
        """The markers that a step needs, as many as a request may carry."""
        if step.write < 0:
            return {}
        chosen = {step.write}
        if step.long >= 0:
            chosen.add(step.long)
        if 0 <= step.read <= step.write - self._rules.lookback:
            chosen.add(step.read)
        for depth in sorted(step.needs, key=lambda depth: (-step.needs[depth], depth)):
            if len(chosen) < MOST_BREAKPOINTS:
                chosen.add(depth)
        # Anthropic refuses an hour behind five minutes.
        last_long = max([step.long, *(step.long_needs & chosen)])
        return {
            depth: CachePolicy.EPHEMERAL_1H if depth <= last_long else CachePolicy.EPHEMERAL_5M
            for depth in sorted(chosen)
        }
