"""The road of a test or a run: which tools its models called, turn after turn, before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from cortex_replay.behaviour.differences import Difference
from cortex_replay.behaviour.kinds import TIERS, Kind
from cortex_replay.canonical import JsonValue
from cortex_replay.history.calls import times_of
from cortex_replay.history.origins import BEFORE, run_in
from cortex_replay.store.fixture import Answer, Fixture
from cortex_replay.store.review import Recording

__all__ = ["changed_roads"]

_ANSWERS: Final = "answers"
_MOST_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class _Turn:
    """One call to a model, and what it wants called."""

    run: str
    scope: str
    """Who made it, and counts its calls."""
    call: int | None
    at: float | None
    path: str
    number: int
    does: str


def changed_roads(
    then: Iterable[Recording],
    now: Iterable[Recording],
    went: Sequence[Recording],
    came: Sequence[Recording],
) -> Iterator[tuple[str, Difference]]:
    """The tests, scopes and runs that go another way: other tools, another order, more turns or fewer.

    One turn is no road. A run that was recorded anew has another name. So what belongs to no scope is
    compared only where the changes are of one run on either side.

    Args:
        then: All recordings of the side of then.
        now: All recordings of the side of now.
        went: Those of then that are gone or changed.
        came: Those of now that are new or changed.
    """
    old, new = _by_owner(then), _by_owner(now)
    concerned = {owner for one in (*went, *came) for owner in one.owners}
    for owner in sorted(concerned & old.keys() & new.keys()):
        if difference := _difference(old[owner], new[owner]):
            yield owner, difference
    runs = [{turn.run for turn in _by_owner(some).get("", ())} for some in (went, came)]
    if len(runs[0]) == len(runs[1]) == 1 and BEFORE not in runs[0] | runs[1]:
        # What the later run found as it was still bears the name of the earlier one.
        before = [turn for turn in old[""] if turn.run in runs[0]]
        after = [turn for turn in new[""] if turn.run in runs[0] | runs[1]]
        if difference := _difference(before, after):
            yield f"run {runs[1].pop()}", difference


def _by_owner(recordings: Iterable[Recording]) -> dict[str, list[_Turn]]:
    """The turns of each test or scope; "" has those of none."""
    turns: dict[str, list[_Turn]] = {}
    for one in recordings:
        if isinstance(one.said, Fixture):
            for owner in one.owners or [""]:
                turns.setdefault(owner, []).extend(_turns(one, one.said))
    return turns


def _difference(before: Sequence[_Turn], after: Sequence[_Turn]) -> Difference | None:
    shared = _shared_numbers(before) | _shared_numbers(after)
    was, now = ([turn.does for turn in _sort(_without_leftovers(turns, shared))] for turns in (before, after))
    if was == now or max(len(was), len(now)) == 1:
        return None
    count = len(was)
    counts = f"{count} turn{'' if count == 1 else 's'} became {len(now)}: " if count != len(now) else ""
    text = f"{counts}{_short(was)} became {_short(now)}"
    return Difference(TIERS[Kind.ROAD], Kind.ROAD.value, "", [*was], [*now], text)


def _short(turns: Sequence[str]) -> str:
    shown = ", ".join(turns[:_MOST_SHOWN])
    return f"{shown}, …" if len(turns) > _MOST_SHOWN else shown


def _turns(one: Recording, fixture: Fixture) -> Iterable[_Turn]:
    for number, answer in enumerate(fixture.answers, start=1):
        meta: Mapping[str, JsonValue] = (fixture.meta if number == 1 else answer.meta) or {}
        call = meta.get("call")
        counted = call if isinstance(call, int) and not isinstance(call, bool) else None
        at, _ = times_of(answer, meta)
        scope = meta.get("scope")
        owner = scope if isinstance(scope, str) else ""
        yield _Turn(run_in(meta), owner, counted, at, one.row.path, number, _does(answer))


def _does(answer: Answer) -> str:
    return " + ".join(call.name for call in answer.tool_calls) or _ANSWERS


_Number = tuple[str, int | None]
"""A scope, and which of its calls."""


def _shared_numbers(turns: Sequence[_Turn]) -> set[_Number]:
    """Numbers that say nothing: a run gave them to several calls, as adapters without a name do."""
    times = Counter((turn.run, turn.scope, turn.call) for turn in turns)
    return {(scope, call) for (_, scope, call), count in times.items() if count > 1 or call is None}


def _without_leftovers(turns: Sequence[_Turn], shared: set[_Number]) -> list[_Turn]:
    """What is asked today. Call 2 of an earlier run stays in the store until it is pruned, even if a later
    run asks something else in its place."""
    latest: dict[_Number, float] = {}
    for turn in turns:
        number = turn.scope, turn.call
        latest[number] = max(latest.get(number, -inf), inf if turn.at is None else turn.at)
    return [
        turn
        for turn in turns
        if (turn.scope, turn.call) in shared
        or turn.at is None
        or latest[turn.scope, turn.call] in (turn.at, inf)
    ]


def _sort(turns: Sequence[_Turn]) -> list[_Turn]:
    """In the order of the calls. What a later run left alone has its old time, so that only numbers tell."""
    is_one_run = len({turn.run for turn in turns}) == 1
    if is_one_run or any(turn.call is None for turn in turns):
        return sorted(
            turns, key=lambda turn: (turn.at is None, turn.at or 0.0, turn.call or 0, turn.path, turn.number)
        )
    return sorted(turns, key=lambda turn: (turn.call or 0, turn.at or 0.0, turn.path, turn.number))
