"""Runs, and choosing among them."""

from __future__ import annotations

import pytest

from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.runs import UnknownRun, choose_calls, runs_of
from cortex_replay.types import LlmRequest


def call(at: float, run: str, *scopes: str) -> HistoryCall:
    request = LlmRequest("m", "", str(at))
    return HistoryCall(request, "0" * 64, f"{at}.json", 1, None, at, None, 0, run, scopes, {})


OLD, FIRST, SECOND, THIRD = (
    "before",
    "20261115T100000Z-aaaa",
    "20261116T100000Z-bbbb",
    "20261116T110000Z-cccc",
)
CALLS = [
    call(1, OLD, "tests/t.py::old"),
    call(2, FIRST, "tests/t.py::one"),
    call(3, SECOND, "tests/t.py::one"),
    call(4, THIRD, "tests/t.py::two"),
    call(5, SECOND, "tests/t.py::two"),
]


def test_runs_are_in_the_order_of_their_starts() -> None:
    assert [(run.id, len(run.calls)) for run in runs_of(CALLS)] == [
        (OLD, 1),
        (FIRST, 1),
        (SECOND, 2),
        (THIRD, 1),
    ]


@pytest.mark.parametrize(
    ("wanted", "times"),
    [
        ([], [4]),
        (["latest"], [4]),
        (["all"], [1, 2, 3, 4, 5]),
        (["before"], [1]),
        ([SECOND], [3, 5]),
        (["20261115"], [2]),
        ([THIRD, "20261115", "latest"], [2, 4]),
        (["tests/t.py::one"], [2, 3]),
        (["tests/*::two"], [4, 5]),
    ],
)
def test_calls_are_chosen_by_run_or_test(wanted: list[str], times: list[float]) -> None:
    assert [call.at for call in choose_calls(CALLS, wanted)] == times


def test_what_has_no_such_name_says_which_there_are() -> None:
    with pytest.raises(UnknownRun, match="no run and no test is called 'x'; there are the runs before, 2026"):
        choose_calls(CALLS, ["x"])
    with pytest.raises(UnknownRun, match="2 runs begin with '20261116'; give more of it: 20261116T10"):
        choose_calls(CALLS, ["20261116"])
    with pytest.raises(UnknownRun, match="is called ''"):
        choose_calls(CALLS, [""])


def test_nothing_is_recorded() -> None:
    assert choose_calls([], ["x"]) == []
    assert runs_of([]) == []
