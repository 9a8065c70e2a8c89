"""Several answers then and now: what drifted, and what only varies."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay import Answer, LlmRequest
from cortex_replay.behaviour.samples import judge
from tests.behaviour.test_compare import ASKED, STRUCTURED, call, calls, says


def query(text: str) -> Answer:
    return calls(call("search", query=text))


def drift(recorded: list[Any], now: list[Any], request: LlmRequest = ASKED) -> list[tuple[str, str]]:
    return [(one.tier.word, one.kind) for one in judge(recorded, now, request)]


@pytest.mark.parametrize(
    ("recorded", "now", "expected"),
    [
        ("a", "a", []),
        ("a", "b", [("behaviour", "argument")]),
        ("a", "bbb", [("behaviour", "argument")]),
        ("a", "bbc", [("behaviour", "argument")]),
        ("a", "bcd", []),  # the model chooses freely
        ("a", "bc", []),
        ("a", "abb", []),  # it still does what it did
        ("ab", "ccc", []),  # it varied then
        ("aa", "ccc", [("behaviour", "argument")]),
    ],
)
def test_an_argument(recorded: str, now: str, expected: list[tuple[str, str]]) -> None:
    assert drift([*map(query, recorded)], [*map(query, now)]) == expected


def test_a_breach_counts_in_any_sample_unless_it_was_recorded() -> None:
    fine, broken = says('{"total": 1}'), says('{"total": "1"}')

    assert drift([fine], [fine, fine, broken], STRUCTURED) == [("contract", "schema")]
    assert drift([fine, broken], [fine, fine, broken], STRUCTURED) == []
    assert drift([broken], [fine, fine, fine], STRUCTURED) == [("behaviour", "schema")]
    assert drift([query("a")], [query("a"), calls(call("search"))]) == [("contract", "invalid argument")]
    assert drift([query("a")], [query("a"), calls(call("search", query="a"), call("rm"))]) == [
        ("contract", "unknown tool")
    ]


def test_a_refusal_and_an_error_count_in_any_sample() -> None:
    no, error = says("No.", "refusal"), {"status": 529, "headers": {}, "body": ""}

    assert drift([query("a")], [query("a"), no]) == [("contract", "refusal")]
    assert drift([query("a"), no], [no, no]) == []
    assert drift([query("a")], [query("a"), error]) == [("contract", "error")]


def test_another_tool_counts_only_where_no_sample_calls_the_recorded_one() -> None:
    fetch = calls(call("fetch"))

    assert drift([query("a")], [fetch, query("a"), fetch]) == []
    assert drift([query("a")], [fetch, says("Hm.", "stop"), fetch])[:1] == [("contract", "tool")]


def test_words_never_count_for_more() -> None:
    samples = [says(f"It is {word}.") for word in ("fine", "good", "well")]

    assert drift([says("It is great.")], samples) == [("words", "text")]
    assert drift([says("It is good.")], samples) == []


def test_how_many_samples_say_so() -> None:
    (one,) = judge([query("a")], [query("b"), query("b"), query("c")], ASKED)

    assert one.text == 'search #1 query: "a" became "b" (in 2 of 3 samples)'
    assert (one.before, one.after) == ("a", "b")


def test_an_inserted_call_is_no_drift_where_only_some_samples_make_it() -> None:
    more = calls(call("search", query="a"), call("search", query="b"))

    assert drift([query("a")], [more, query("a"), more]) == []
    assert drift([query("a")], [more, more, more]) == [("behaviour", "call")]
