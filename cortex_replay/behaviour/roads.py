"""The road of a test or a run: which tools its models called, turn after turn, before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cortex_replay.behaviour.differences import Difference
from cortex_replay.behaviour.kinds import TIERS, Kind
from cortex_replay.canonical import JsonValue
from cortex_replay.history.calls import times_of
from cortex_replay.history.origins import run_in
from cortex_replay.store.fixture import Answer, Fixture
from cortex_replay.store.review import Recording

__all__ = ["Road", "compare_roads", "roads_of"]

_ANSWERS: Final = "answers"
_MOST_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class _Turn:
    """One call to a model, and what it wants called."""

    run: str
    call: int | None
    at: float | None
    path: str
    number: int
    does: str


@dataclass(frozen=True, slots=True)
class Road:
    """What the models of one test or run did, in order."""

    owner: str
    turns: tuple[str, ...]
    """Of each turn the tools that it calls, or that it answers."""


def roads_of(recordings: Iterable[Recording]) -> dict[str, Road]:
    """The roads of the tests and scopes that made some recordings.

    What was recorded without either has none: several programs may have made it.

    Args:
        recordings: All of one side.
    """
    turns: dict[str, list[_Turn]] = {}
    for one in recordings:
        if isinstance(one.said, Fixture):
            for owner in one.owners:
                turns.setdefault(owner, []).extend(_turns(one, one.said))
    return {owner: Road(owner, tuple(turn.does for turn in _sort(found))) for owner, found in turns.items()}


def compare_roads(before: Road, after: Road) -> Difference | None:
    """Whether a test or a run goes another way: other tools, another order, more turns or fewer."""
    if before.turns == after.turns:
        return None
    counts = f"{len(before.turns)} turns became {len(after.turns)}: " if _differ(before, after) else ""
    was, now = (_short(road.turns) for road in (before, after))
    text = f"{counts}{was} became {now}"
    return Difference(TIERS[Kind.ROAD], Kind.ROAD.value, "", list(before.turns), list(after.turns), text)


def _differ(before: Road, after: Road) -> bool:
    return len(before.turns) != len(after.turns)


def _short(turns: Sequence[str]) -> str:
    shown = ", ".join(turns[:_MOST_SHOWN])
    return f"{shown}, …" if len(turns) > _MOST_SHOWN else shown


def _turns(one: Recording, fixture: Fixture) -> Iterable[_Turn]:
    for number, answer in enumerate(fixture.answers, start=1):
        meta: Mapping[str, JsonValue] = (fixture.meta if number == 1 else answer.meta) or {}
        call = meta.get("call")
        counted = call if isinstance(call, int) and not isinstance(call, bool) else None
        at, _ = times_of(answer, meta)
        yield _Turn(run_in(meta), counted, at, one.row.path, number, _does(answer))


def _does(answer: Answer) -> str:
    return " + ".join(call.name for call in answer.tool_calls) or _ANSWERS


def _sort(turns: Sequence[_Turn]) -> list[_Turn]:
    """In the order of the calls. What a later run left alone has its old time, so that only numbers tell."""
    is_one_run = len({turn.run for turn in turns}) == 1
    if is_one_run or any(turn.call is None for turn in turns):
        return sorted(
            turns, key=lambda turn: (turn.at is None, turn.at or 0.0, turn.call or 0, turn.path, turn.number)
        )
    return sorted(turns, key=lambda turn: (turn.call or 0, turn.at or 0.0, turn.path, turn.number))
