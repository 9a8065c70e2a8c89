"""What a suite cost, and what replaying saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pytest_plugin.conftest import Run

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
    }
