"""The program that moves public suites over: what it says of them, without the suites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.suites.catalogue import SUITES
from integration.suites.comparison import Comparison, compare
from integration.suites.moving import pytest_options, steps
from integration.suites.questions import what_differs
from integration.suites.runs import Outcomes, SuiteRun
from integration.suites.table import BEGIN, END, render, update

CHAT = "https://api.openai.com/v1/chat/completions"
ASKED = '{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}'
MISS = "openai.APIStatusError: 424\ncortex-replay: nothing is recorded for m 0123456789abcdef.\nNearest: x"


def outcome(name: str, reason: str = "", *, marked: bool = True) -> dict[str, Any]:
    return {"marked": marked, "outcome": name, "reason": reason, "details": ""}


def played(recorded: str, sent: str, test: str = "t.py::test_stale", uri: str = CHAT) -> dict[str, str]:
    return {"test": test, "method": "POST", "uri": uri, "recorded": recorded, "sent": sent}


@pytest.fixture
def comparison() -> Comparison:
    before = {
        **{f"t.py::test_{name}": outcome("passed") for name in ("good", "stale", "broken", "gone")},
        "t.py::test_failed_before": outcome("failed"),
        "t.py::test_plain": outcome("passed", marked=False),
    }
    after = {
        "t.py::test_good": outcome("passed"),
        "t.py::test_stale": outcome("failed", MISS),
        "t.py::test_broken": outcome("failed", "AssertionError: assert 1 == 2"),
        "t.py::test_failed_before": outcome("passed"),
        "t.py::test_plain": outcome("failed", marked=False),
    }
    stale = [
        played(ASKED, ASKED.replace("9", "10")),
        played(ASKED, ASKED.replace('m", ', 'm" ,'), "t.py::test_broken"),
    ]
    run = SuiteRun(
        SUITES[0],
        Outcomes(2.0, before, stale),
        Outcomes(1.5, after, []),
        {"interactions": 7, "not_converted": [{}, {}]},
        ["tests/cassettes/large.yaml"],
    )
    return compare(run)


def test_each_test_that_differs_has_its_reason(comparison: Comparison) -> None:
    reasons = {one.test: (one.outcome, one.reason, one.other_question) for one in comparison.differences}

    assert (comparison.with_vcrpy, comparison.moved) == (4, 1)
    assert reasons == {
        "t.py::test_broken": ("failed", "AssertionError: assert 1 == 2", ""),
        "t.py::test_gone": ("not run", "", ""),
        "t.py::test_stale": (
            "failed",
            "cortex-replay: nothing is recorded for m 0123456789abcdef.",
            "POST /v1/chat/completions: max_tokens: 9 → 10",
        ),
    }
    assert (comparison.other_questions, len(comparison.unexplained)) == (1, 2)
    assert Comparison.from_json(comparison.to_json()) == comparison


@pytest.mark.parametrize(
    ("recorded", "sent", "uri", "differences"),
    [
        (ASKED, ASKED.replace("Hi", "Ho"), CHAT, ["message 1 (user): 'Hi' → 'Ho'"]),
        (ASKED, ASKED.replace(" ", ""), CHAT, []),
        (ASKED, ASKED.replace('"max', '"stream": true, "max'), CHAT, []),
        (ASKED.replace('"max', '"n": 1, "max'), ASKED, CHAT, []),
        ('{"input": "a"}', '{"input": "b"}', "https://example.com/x", ["body.input: 'a' → 'b'"]),
        ("a=1", "a=2", "https://example.com/x", ["body: 'a=1' → 'a=2'"]),
    ],
    ids=["a word", "spaces", "what no model sees", "a default", "another server", "a form"],
)
def test_only_what_the_key_sees_is_another_question(
    recorded: str, sent: str, uri: str, differences: list[str]
) -> None:
    assert what_differs(played(recorded, sent, uri=uri)) == differences


def test_the_table_stands_between_its_marks(comparison: Comparison, tmp_path: Path) -> None:
    guide = tmp_path / "guide.md"
    guide.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    for _ in range(2):
        update(guide, [comparison])
    text = guide.read_text()

    assert text == f"before\n\n{BEGIN}\n{render([comparison])}{END}\n\nafter\n"
    assert "| llm-anthropic 0.25.1 | 4 | 1 | 1 | 2 | 2.0 s | 1.5 s |" in text
    assert "* `test_broken`: `AssertionError: assert 1 == 2`" in text
    assert "tests/cassettes/large.yaml" in text


def test_the_guide_has_the_marks_and_begins_with_the_steps() -> None:
    guide = Path(__file__).parent.parent / "docs" / "migrating.md"

    assert guide.read_text("utf-8").count(BEGIN) == guide.read_text("utf-8").count(END) == 1
    assert [step.split()[0] for step in steps()] == ["cortex-replay", "cortex-replay", "grep", "pip"]
    assert pytest_options()[0] == "-o"
