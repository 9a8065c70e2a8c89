"""The runs that recorded the calls of a store, and choosing among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from cortex_replay.history.calls import BEFORE, HistoryCall

__all__ = ["ALL", "LATEST", "RecordedRun", "UnknownRun", "choose_calls", "runs_of"]

LATEST: Final = "latest"
ALL: Final = "all"
_MOST_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run, and the calls that it recorded."""

    id: str
    calls: tuple[HistoryCall, ...]


class UnknownRun(LookupError):
    """No run, and no test, has this name; or several have it. The message says which there are."""


def runs_of(calls: Sequence[HistoryCall]) -> list[RecordedRun]:
    """The runs of some calls: the earliest first, and before them what was recorded without a run."""
    found: dict[str, list[HistoryCall]] = {}
    for call in calls:
        found.setdefault(call.run, []).append(call)
    # An id begins with the time at which the run did.
    return [
        RecordedRun(run, tuple(found[run])) for run in sorted(found, key=lambda run: (run != BEFORE, run))
    ]


def choose_calls(calls: Sequence[HistoryCall], wanted: Sequence[str]) -> list[HistoryCall]:
    """The calls of some runs, in order.

    Args:
        calls: All of a store.
        wanted: The id of a run or its start, ``latest``, ``before``, ``all``; or a scope, such as the name
            of a test, as it is or as a pattern. Without any, the latest run.

    Raises:
        UnknownRun: Nothing has such a name.
    """
    runs = runs_of(calls)
    if not runs:
        return []
    chosen: set[int] = set()
    for name in wanted or [LATEST]:
        chosen.update(map(id, _find(calls, runs, name)))
    return [call for call in calls if id(call) in chosen]


def _find(calls: Sequence[HistoryCall], runs: Sequence[RecordedRun], name: str) -> Sequence[HistoryCall]:
    if name == ALL:
        return calls
    if name == LATEST:
        return runs[-1].calls
    exact = [run for run in runs if run.id == name]
    found = exact or [run for run in runs if name and run.id.startswith(name)]
    if len(found) > 1:
        ids = ", ".join(run.id for run in found[:_MOST_NAMED])
        raise UnknownRun(f"{len(found)} runs begin with {name!r}; give more of it: {ids}")
    if found:
        return found[0].calls
    of_scope = [call for call in calls if name in call.scopes] or [
        call for call in calls if any(fnmatchcase(scope, name) for scope in call.scopes)
    ]
    if not of_scope:
        latest = [run.id for run in runs[-_MOST_NAMED:]]
        more = "" if len(latest) == len(runs) else f"; the latest of {len(runs)}"
        raise UnknownRun(
            f"no run and no test is called {name!r}; there are the runs {', '.join(latest)}{more}"
        )
    return of_scope
