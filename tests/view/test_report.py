"""A report as the page shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.engine.ledger import Ledger
from cortex_replay.errors import ConfigError
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import FixtureKey, Store
from cortex_replay.types import TokenUsage
from cortex_replay.view.documents import report as report_module
from cortex_replay.view.documents.report import report_document
from cortex_replay.view.shapes import ReportDocument, RunReport
from tests.builder import ask
from tests.cli.commands import record_answers, run

SECRET = "sk-ant-api03-" + "aB3dE6gH9jK2" * 7 + "-AA"
CELL = {"turn": 1, "fault": "500", "verdict": "failed", "status": 1, "calls": 2, "tool": "", "again": "x"}


def show(report: Any) -> ReportDocument:
    return report_document(json.dumps(report).encode(), "report.json", Redactor([SECRET]))


def ledger_report(tmp_path: Path) -> dict[str, Any]:
    ledger = Ledger(Redactor)
    ledger.hit(FixtureKey("m", "a" * 64), TokenUsage(10, 5))
    for _ in range(2):
        ledger.miss("m abc", "nothing is recorded\n  nearest: b")
    ledger.bypass("example.com:443", 2)
    ledger.count_call("files", "hits")
    ledger.refuse("the answer holds a secret")
    return ledger.to_dict(Store.create(tmp_path / "llm")) | {"mode": "replay", "command_status": 1}


def test_a_ledger_has_what_missed_and_what_it_cost(tmp_path: Path) -> None:
    document = show(ledger_report(tmp_path))

    assert document["kind"] == "run"
    (run,) = document["runs"]
    assert set(run) == set(RunReport.__annotations__)
    assert (run["mode"], run["command_status"]) == ("replay", 1)
    assert (run["counts"]["hits"], run["counts"]["missed"]) == (1, 2)
    assert run["misses"] == [
        {"what": "m abc", "explanation": "nothing is recorded\n  nearest: b", "times": 2}
    ]
    assert run["tokens"]["replayed"] == 15
    assert run["bypassed"] == [("example.com:443", 2)]
    assert run["servers"][0]["hits"] == 1
    assert run["problems"] == [{"title": "Not recorded", "texts": ["the answer holds a secret"]}]


@pytest.mark.parametrize(
    ("exact", "said"),
    [
        ("0.01031615", "0.0103 USD"),
        ("0.0000324", "less than 0.0001 USD"),
        ("1234.5", "1,234.5000 USD"),
        ("0", "0.0000 USD"),
        ("NaN", "NaN USD"),
        ("1e999999", "1e999999 USD"),
        ("much", "much USD"),
        (None, None),
    ],
)
def test_money_has_its_currency_and_is_rounded_as_everywhere(exact: str | None, said: str | None) -> None:
    (run,) = show({"hits": 0, "misses": [], "money": {"currency": "USD", "paid": exact, "saved": None}})[
        "runs"
    ]

    assert (run["paid"], run["saved"]) == (said, None)


def test_the_plugin_s_report_names_tests_and_tokens_its_own_way() -> None:
    report = {
        "hits": 3,
        "prompt_tokens": 7,
        "misses": [{"test": "tests/a.py::b", "explanation": "none"}],
        "unused": [{"model": "m", "prompt_hash": "h", "path": "m/h.json", "scope": ""}],
        "unused_calls": [{"server": "files", "key": "k", "path": "x/k.json", "scope": "tests/a.py::b"}],
    }
    (run,) = show(report)["runs"]

    assert run["misses"][0]["what"] == "tests/a.py::b"
    assert (run["counts"]["missed"], run["tokens"]["prompt"], run["unused_count"]) == (1, 7, 2)
    assert [row["who"] for row in run["unused"]] == ["m", "files"]


def test_several_runs_and_what_varies_among_them() -> None:
    varying = {
        "scope": "",
        "runs": [2],
        "call_in_first_run": 1,
        "call": None,
        "question": "When?",
        "differences": [{"part": "messages", "difference": "messages[0]: a -> b"}],
        "is_noise": True,
    }
    document = show({"runs": [{"hits": 1, "misses": []}] * 2, "varying": [varying], "unused": []})

    assert len(document["runs"]) == 2
    assert document["varying"] == [
        {
            "scope": "",
            "runs": [2],
            "call": 1,
            "question": "When?",
            "differences": ["messages[0]: a -> b"],
            "is_noise": True,
        }
    ]


def test_a_sweep_has_a_log_for_each_cell() -> None:
    document = show(
        {"calls": 1, "tool_calls": 0, "survived": False, "runs": [CELL | {"log": f"Error {SECRET}"}]}
    )

    assert document["kind"] == "sweep"
    assert document["sweep"] is not None
    (cell,) = document["sweep"]["cells"]
    assert (cell["verdict"], cell["log"]) == ("failed", "Error [REDACTED:known-value]")


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        ("no JSON", "expected|none that a page shows"),
        ([], "none that a page shows"),
        ({"asked": 1}, "none that a page shows"),
        ({"hits": "many", "misses": []}, "whole number"),
        ({"hits": 1, "misses": ["a"]}, "list of objects"),
        ({"hits": 1, "misses": [{"what": 1, "explanation": ""}]}, "expected text"),
        ({"hits": 1, "misses": [], "servers": []}, "expected an object"),
        ({"hits": 1, "misses": [], "servers": {"a": 1}}, "expected an object"),
        ({"hits": 10**30, "misses": []}, "at most|whole number"),
        ({"runs": [1]}, "list of objects"),
        ({"survived": "yes", "runs": []}, "true or false"),
        ({"survived": True, "runs": [CELL | {"verdict": "<b>"}]}, "expected one of"),
        ({"survived": True, "runs": [CELL | {"verdict": []}]}, "expected one of"),
        ({"survived": True, "runs": [CELL | {"log": ["a"]}]}, "expected text"),
    ],
)
def test_what_is_no_report_is_refused_with_the_reason(report: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"--report report\.json: .*({reason})"):
        show(report)


def test_a_large_file_and_one_that_is_no_json_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no JSON"):
        report_document(b"{", "r", Redactor())
    monkeypatch.setattr(report_module, "LARGEST_REPORT", 10)
    with pytest.raises(ConfigError, match="larger than"):
        report_document(b"{}         ", "r", Redactor())


def test_long_texts_and_long_lists_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "_MOST_ROWS", 3)
    misses = [{"what": f"m{n}", "explanation": "x" * 100_000} for n in range(5)]
    (run,) = show({"hits": 0, "misses": misses})["runs"]

    assert len(run["misses"]) == 3
    assert run["counts"]["missed"] == 5
    assert len(run["misses"][0]["explanation"]) < 20_000


def drift_report() -> dict[str, Any]:
    answer = {"text": "no", "tool_calls": [{"id": "1", "name": "search", "arguments": {"q": 1}}]}
    difference = {
        "tier": "contract",
        "kind": "tool",
        "place": "",
        "before": None,
        "after": "x",
        "text": "new",
    }
    changed = {
        "id": "drift-1",
        "tier": "contract",
        "title": "When?",
        "who": "m",
        "key": "k",
        "path": "m/k.json",
        "scopes": ["tests/a.py::b"],
        "differences": [difference],
        "before": [answer],
        "after": [answer | {"finish_reason": "stop", "parsed": {"a": [1]}, "status": 500}],
    }
    return {
        "asked": 3,
        "tiers": {"contract": 1},
        "changed": [changed],
        "failed": [{"path": "m/x.json", "message": f"no {SECRET}"}],
        "not_asked": [{"path": "a", "reason": "no key"}, {"path": "b", "reason": "no key"}],
        "beyond_budget": [{"path": "c"}],
        "written": ["m/k.json"],
        "money": {"currency": "USD", "paid": "0.1", "saved": "0"},
    }


def test_a_watch_on_drift_becomes_items_of_a_change() -> None:
    document = show(drift_report())

    drift = document["drift"]
    assert drift is not None
    assert document["kind"] == "drift"
    assert (drift["asked"], drift["paid"], drift["beyond_budget"]) == (3, "0.1000 USD", 1)
    assert drift["tiers"] == {"contract": 1, "behaviour": 0, "words": 0, "same": 0}
    assert drift["not_asked"] == [("no key", 2)]
    assert drift["failed"] == ["m/x.json: no [REDACTED:known-value]"]
    (item,) = drift["items"]
    assert (item["tier"], item["differences"][0]["text"]) == ("contract", "new")
    assert item["before"][0]["tool_calls"] == [{"name": "search", "arguments": {"q": 1}}]
    assert (item["after"][0]["parsed"], item["after"][0]["status"]) == ({"a": [1]}, 500)


def test_what_refresh_prints_is_such_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "now.toml").write_text('[[rule]]\nsay = "Quite another answer."\n')
    record_answers((ask("one"), "An answer."))
    printed = run("refresh", "--provider", "scripted", "--script", "now.toml", "--check", "--json").stdout

    drift = show(json.loads(printed))["drift"]

    assert drift is not None
    assert (drift["asked"], drift["tiers"]["words"]) == (1, 1)
    (item,) = drift["items"]
    assert (item["before"][0]["text"], item["after"][0]["text"]) == ("An answer.", "Quite another answer.")
    assert item["title"] == "one"


@pytest.mark.parametrize(
    "change", [{"tier": "worst"}, {"before": [1]}, {"differences": [{"tier": 1}]}, {"scopes": "all"}]
)
def test_a_drift_report_of_other_values_is_refused(change: dict[str, Any]) -> None:
    report = drift_report()
    report["changed"][0] |= change

    with pytest.raises(ConfigError, match="expected"):
        show(report)


def test_equal_misses_count_each_time_they_came() -> None:
    """The plugin's report lists them, and does not count them."""
    miss = {"test": "test_a", "explanation": "nothing is recorded"}
    (run,) = show({"hits": 0, "misses": [miss, miss, {**miss, "test": "test_b"}]})["runs"]

    assert (run["counts"]["missed"], len(run["misses"])) == (3, 2)


def test_what_is_unused_is_counted_also_where_it_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "_MOST_ROWS", 2)
    rows = [{"model": "m", "prompt_hash": str(n), "path": "p"} for n in range(3)]
    (run,) = show({"hits": 0, "misses": [], "unused": rows})["runs"]

    assert (run["unused_count"], len(run["unused"])) == (3, 2)
