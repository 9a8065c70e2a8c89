"""What a rule has found at its place is one value, wherever it comes again."""

from __future__ import annotations

import pytest

from cortex_replay import LlmMessage, LlmRequest
from cortex_replay.bindings import NOWHERE, Binder, BindingRules, PlaceRule
from cortex_replay.bindings.answers import AnswerFinder

RULES = (PlaceRule(bind="pid", before="pid "), PlaceRule(bind="duration", before="took "))
BINDER = Binder(BindingRules(rules=RULES), NOWHERE)


def bound(*texts: str) -> list[str]:
    request = LlmRequest("m", "", [LlmMessage("user", text) for text in texts])
    made = BINDER.bind(request)
    contents = [message.content for message in made.request.messages]
    assert [made.filling.text(text, made.names) for text in contents] == list(texts)
    return contents


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["pid 4711", "kill 4711."], ["pid ⟦pid#1⟧", "kill ⟦pid#1⟧."]),
        (["kill 4711", "pid 4711"], ["kill ⟦pid#1⟧", "pid ⟦pid#1⟧"]),
        (["pid 4711 or pid 48", "4711-48"], ["pid ⟦pid#1⟧ or pid ⟦pid#2⟧", "⟦pid#1⟧-48"]),
        (["pid 4711", "47110 x4711 4711.5 04711"], ["pid ⟦pid#1⟧", "47110 x4711 4711.5 04711"]),
        (["took 1.25 s", "1.25 s"], ["took ⟦duration#1⟧", "1.25 s"]),
        (["kill 4711"], ["kill 4711"]),
    ],
    ids=["behind", "before", "too short", "a part of another", "measured", "no place"],
)
def test_a_value_is_found_where_it_comes_again(texts: list[str], wanted: list[str]) -> None:
    assert bound(*texts) == wanted


def test_many_values_take_time_that_grows_with_the_text() -> None:
    """One search for all of them."""
    many = " ".join(f"pid {number}" for number in range(10_000, 12_000))

    assert bound(many, "kill 11999") == [
        " ".join(f"pid ⟦pid#{number}⟧" for number in range(1, 2001)),
        "kill ⟦pid#2000⟧",
    ]


def test_a_value_at_the_end_of_an_answer_is_not_taken_for_a_longer_one() -> None:
    request = LlmRequest("m", "", [LlmMessage("user", "pid 48113 and pid 123456")])
    finder = AnswerFinder(BINDER.bind(request).binding)

    assert finder.find("kill 48113") == [(5, 10, "pid#1")]
    assert finder.find("kill 123456") == [(5, 11, "pid#2")]
