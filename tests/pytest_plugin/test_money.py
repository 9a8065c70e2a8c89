"""What a suite cost, and what replaying saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortex_replay import Answer, Fixture, Store, TokenUsage
from cortex_replay.store import FixtureKey
from cortex_replay.wire import WIRES
from tests.pytest_plugin.conftest import Run, run_in_process

SUITE = """
import os
import httpx, pytest

@pytest.mark.llm_replay
@pytest.mark.parametrize("model", ["m", "m", "stranger"])
def test_it(model):
    body = {"model": model, "messages": [{"role": "user", "content": "Hi."}]}
    httpx.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body).raise_for_status()
"""


def test_a_summary_and_a_report_say_what_was_paid_and_saved(pytester: pytest.Pytester, run: Run) -> None:
    """Of two tests that ask the same, one pays; a model without a price is named."""
    pytester.makepyfile(SUITE)
    Path("cortex-replay.toml").write_text('currency = "EUR"\n[prices]\nm = { input = 1000, output = 2000 }\n')

    done = run("--llm-mode", "once", "--llm-report", "report.json", live=True)

    done.assert_outcomes(passed=3)
    done.stdout.fnmatch_lines(["*0.0210 EUR paid, 0.0210 EUR saved, no price for stranger*"])
    money = json.loads(Path("report.json").read_text())["money"]
    assert money == {
        "currency": "EUR",
        "paid": "0.021",
        "saved": "0.021",
        "not_priced": ["stranger"],
        "uncounted": 0,
        "cached_as_input": [],
    }


CACHED = """
import httpx, pytest

@pytest.mark.llm_replay
def test_it():
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]}
    httpx.post("https://api.anthropic.com/v1/messages", json=body).raise_for_status()
"""


def test_what_a_cache_gave_and_took_has_its_own_price_and_its_own_line(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 fresh, 600 read, 200 written for five minutes and 100 for an hour, and 10 of output."""
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]}
    request = WIRES["anthropic-messages"].lift(body)
    answer = Answer("Hello.", finish_reason="stop", usage=TokenUsage(1000, 10, 600, 300, 100))
    store = Store.open(project.path / "llm")
    store.add(Fixture(FixtureKey("m", request.prompt_hash()), (answer,), request))
    store.commit()
    project.makepyfile(CACHED)
    prices = "input = 3, output = 15, cached = 0.3, cache_write_5m = 3.75, cache_write_1h = 6"
    (project.path / "cortex-replay.toml").write_text(f'currency = "USD"\n[prices]\nm = {{ {prices} }}\n')
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))

    done = run_in_process(project, "--llm-report", "report.json")

    done.assert_outcomes(passed=1)
    share = "600 of 1,000 input tokens, 60%"
    done.stdout.fnmatch_lines([f"*1,010 tokens saved (from the cache: {share}), 0.0020 USD saved*"])
    report = json.loads((project.path / "report.json").read_text())
    assert report["money"]["saved"] == "0.00198"
    assert (report["replayed_tokens"], report["replayed_cached_tokens"]) == (1010, 600)
    rows = (project.path / "summary.md").read_text()
    assert f"| read from the cache, of what was saved | {share} |" in rows
    assert "| saved | 0.0020 USD |" in rows
