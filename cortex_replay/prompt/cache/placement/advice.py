"""The one change to a prompt that would have saved most over a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from cortex_replay.prompt.breakpoints import MOST_BREAKPOINTS, Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall
from cortex_replay.prompt.cache.costs import Cost, Tariff
from cortex_replay.prompt.cache.placement.placements import Alternatives, Simulate, mark, marks_of
from cortex_replay.prompt.cache.simulator import simulate_run
from cortex_replay.prompt.policy import CachePolicy

__all__ = ["Advice", "AdviceKind", "advise"]

AdviceKind = Literal["move", "keep", "move marker", "marker", "1h", "5m", "no marker"]

_MOST_CANDIDATES: Final = 3
"""Of a kind. What costs most comes first, so the best is among them."""
_MOST_CALLS: Final = 1_000
"""So many calls are enough to choose a candidate by; what it saves is counted over all."""
_END: Final = "the end of the prompt"


@dataclass(frozen=True, slots=True)
class Advice:
    """A change, and what it saves."""

    kind: AdviceKind
    block: str
    """The block to move or to keep as it is, whose marker to move, or to put one behind; else empty."""
    cost: Cost
    """What the run would cost then."""
    saving: Cost
    share: float
    """Of what the run costs now, from 0 to 1."""
    changes: int = 0
    """How often the block was another one, where that is why."""

    @property
    def sentence(self) -> str:
        """What to do, for people."""
        times = "once" if self.changes == 1 else f"{self.changes:,} times"
        return {
            "move": f"Move {self.block} behind everything that is cached: it changed {times}",
            "move marker": f"Move the cache marker on {self.block} to the block before it: {self.block} "
            f"changed {times}",
            "keep": f"Keep {self.block} as it is: it changed {times}",
            "marker": f"Put a cache marker behind {self.block}",
            "1h": "Set the cache markers to an hour instead of five minutes",
            "5m": "Set the cache markers to five minutes instead of an hour, if calls are never further "
            "apart than here",
            "no marker": "Leave the cache markers out: what they write is hardly read",
        }[self.kind] + f". That saves {self.saving}, {self.share:.0%} of what the run costs."

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "kind": self.kind,
            "block": self.block or None,
            "changes": self.changes,
            "cost": self.cost.to_dict(),
            "saving": self.saving.to_dict(),
            "share": round(self.share, 4),
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True)
class _Candidate:
    kind: AdviceKind
    block: str
    change: Callable[[CacheCall], CacheCall]
    changes: int = 0


def advise(
    found: Alternatives,
    tariff: Tariff,
    simulate: Simulate = simulate_run,
    completions: Sequence[int] | None = None,
) -> Advice | None:
    """The one change that saves most; ``None`` where nothing does.

    Args:
        found: The run as it is, and with other markers.
        tariff: What is paid.
        simulate: The caches.
        completions: How long each answer was, in tokens.
    """
    calls, now = found.given.calls, found.given.cost

    def advice(kind: AdviceKind, block: str, cost: Cost, changes: int = 0) -> Advice:
        saving = now - cost
        return Advice(kind, block, cost, saving, saving.share_of(now), changes)

    def cost_with(change: Callable[[CacheCall], CacheCall], count: int) -> Cost:
        changed = [change(call) for call in calls[:count]]
        lengths = None if completions is None else completions[:count]
        return tariff.cost(changed, simulate(changed), lengths)

    options = [advice("1h", "", found.hour.cost), advice("no marker", "", found.no_marker.cost)]
    candidates = [*_blocks_that_change(found), *_missing_markers(found)]
    if candidates:
        chosen = min(candidates, key=lambda one: cost_with(one.change, _MOST_CALLS).value)
        cost = cost_with(chosen.change, len(calls))
        options.append(advice(chosen.kind, chosen.block, cost, chosen.changes))
    best = max(options, key=lambda one: one.saving.value)
    if best.saving.value <= 0 and any(outcome.write_1h for outcome in found.given.outcomes):
        # Last, since a run that is recorded has no pauses, and the program may have them.
        best = advice("5m", "", cost_with(_shorten, len(calls)))
    return best if best.saving.value > 0 else None


def _blocks_that_change(found: Alternatives) -> Iterator[_Candidate]:
    """The blocks because of which most is paid again."""
    paid: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for outcome in found.given.outcomes:
        for reason in outcome.reasons:
            if reason.why == "changed":
                paid[reason.block] += reason.tokens
                times[reason.block] += 1
    tools = {block.name for call in found.given.calls for block in call.blocks if block.place is Place.TOOLS}
    for name, _ in paid.most_common(_MOST_CANDIDATES):
        if name in tools:  # a provider reads tools before everything else, so there is no other place for one
            yield _Candidate("keep", name, _keeper(name), times[name])
        else:
            is_last = all(_ends_cache(call, name) for call in found.given.calls)
            yield _Candidate("move marker" if is_last else "move", name, _mover(name), times[name])


def _ends_cache(call: CacheCall, name: str) -> bool:
    """Whether nothing is cached behind a block, if a call has it."""
    names = [block.name for block in call.blocks]
    return name not in names or (
        call.provider == "anthropic" and max(marks_of(call), default=-1) == names.index(name)
    )


def _keeper(name: str) -> Callable[[CacheCall], CacheCall]:
    def keep(call: CacheCall) -> CacheCall:
        blocks = [replace(block, digest=name) if block.name == name else block for block in call.blocks]
        return replace(call, blocks=tuple(blocks))

    return keep


def _mover(name: str) -> Callable[[CacheCall], CacheCall]:
    def move(call: CacheCall) -> CacheCall:
        if all(block.name != name for block in call.blocks):
            return call
        kept: list[CacheBlock] = []
        moved: list[CacheBlock] = []
        for block in call.blocks:
            if block.name != name:
                kept.append(block)
                continue
            moved.append(replace(block, marker=CachePolicy.NONE, place=Place.MESSAGES))
            if block.marker.is_cached and kept and not kept[-1].marker.is_cached:
                kept[-1] = replace(kept[-1], marker=block.marker)
        end = len(kept)
        if call.provider == "anthropic" and not call.automatic.is_cached:
            end = max((i + 1 for i, block in enumerate(kept) if block.marker.is_cached), default=end)
        return replace(call, blocks=(*kept[:end], *moved, *kept[end:]))

    return move


def _missing_markers(found: Alternatives) -> Iterator[_Candidate]:
    """Where the best placement has markers that are not there, in most tokens."""
    missing: Counter[str] = Counter()
    for given, best in zip(found.given.calls, found.best.calls, strict=True):
        for i in marks_of(best).keys() - marks_of(given).keys():
            tokens = sum(block.tokens for block in best.blocks[: i + 1])
            missing[best.blocks[i].name] += tokens
            if i == len(best.blocks) - 1:
                missing[_END] += tokens
    for name, _ in missing.most_common(_MOST_CANDIDATES):
        yield _Candidate("marker", name, _marker(name))


def _shorten(call: CacheCall) -> CacheCall:
    short = CachePolicy.EPHEMERAL_5M
    shortened = mark(call, dict.fromkeys(marks_of(call), short))
    return replace(shortened, automatic=short if call.automatic.is_cached else call.automatic)


def _marker(name: str) -> Callable[[CacheCall], CacheCall]:
    def add(call: CacheCall) -> CacheCall:
        able = [
            i
            for i, block in enumerate(call.blocks)
            if name in (_END, block.name) and block.kind != "thinking" and block.tokens
        ]
        if call.provider != "anthropic" or not able:
            return call
        markers = marks_of(call) | {able[-1]: CachePolicy.EPHEMERAL_5M}
        kept = dict(sorted(markers.items())[-MOST_BREAKPOINTS + call.automatic.is_cached :])
        if CachePolicy.EPHEMERAL_1H in [time for i, time in kept.items() if i > able[-1]]:
            kept[able[-1]] = CachePolicy.EPHEMERAL_1H
        return replace(mark(call, kept), automatic=call.automatic)

    return add
