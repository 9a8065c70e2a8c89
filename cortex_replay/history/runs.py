"""The runs that recorded the calls of a store, and choosing among them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Generic, Protocol, TypeVar

from cortex_replay.history.origins import BEFORE

__all__ = ["ALL", "LATEST", "RecordedRun", "UnknownRun", "choose_calls", "may_name_run", "runs_of"]

LATEST: Final = "latest"
ALL: Final = "all"
_MOST_NAMED: Final = 10
_RUN_START: Final = re.compile(r"\d{8}T?")
"""An id begins with the day on which the run did."""


class _Recorded(Protocol):
    """A call to a model, or to an MCP server."""

    @property
    def run(self) -> str: ...
    @property
    def scopes(self) -> tuple[str, ...]: ...


C = TypeVar("C", bound=_Recorded)


@dataclass(frozen=True, slots=True)
class RecordedRun(Generic[C]):
    """A run, and the calls that it recorded."""

    id: str
    calls: tuple[C, ...]


class UnknownRun(LookupError):
    """No run, and no test, has this name; or several have it. The message says which there are."""


def runs_of(calls: Sequence[C]) -> list[RecordedRun[C]]:
    """The runs of some calls: the earliest first, and before them what was recorded without a run."""
    found: dict[str, list[C]] = {}
    for call in calls:
        found.setdefault(call.run, []).append(call)
    # An id begins with the time at which the run did.
    return [
        RecordedRun(run, tuple(found[run])) for run in sorted(found, key=lambda run: (run != BEFORE, run))
    ]


def may_name_run(name: str) -> bool:
    """Whether a word looks like the name of a run, and not like the start of a hash."""
    return name in (LATEST, ALL, BEFORE) or _RUN_START.match(name) is not None


def choose_calls(calls: Sequence[C], wanted: Sequence[str]) -> list[C]:
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


def _find(calls: Sequence[C], runs: Sequence[RecordedRun[C]], name: str) -> Sequence[C]:
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
