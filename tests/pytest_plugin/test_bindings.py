"""Tests that were recorded in one checkout pass in another, on another day, without a model."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cortex_replay.providers import PROVIDERS
from tests.gateway.upstream import REAL_KEY, model_server
from tests.pytest_plugin.conftest import run_in_process

TESTS = """
import os, uuid
import openai, pytest
pytestmark = pytest.mark.llm_replay

def test_ask():
    text = f"In {os.getcwd()}/src on {os.environ['DAY']}, session {uuid.uuid4()}."
    with openai.OpenAI(max_retries=0) as client:
        for _ in range(2):
            asked = {"model": "m", "messages": [{"role": "user", "content": text}]}
            answer = client.chat.completions.create(**asked)
            assert answer.choices[0].message.content == f"You said: {text}"
            text += f" And {os.environ['HOME']}."
"""


def test_tests_pass_in_another_checkout_on_another_day(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = project.path / "one", project.path / "elsewhere" / "two"
    one.mkdir()
    (one / "test_it.py").write_text(TESTS)
    (one / "pytest.ini").write_text("[pytest]\nllm_store = llm\n")
    days = iter(["2026-11-15", "2027-03-04"])

    def go(folder: Path, mode: str) -> pytest.RunResult:
        day = next(days)
        noon = datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=UTC)
        with monkeypatch.context() as patch:
            patch.setattr("cortex_replay.bindings.surroundings._system_clock", lambda: noon)
            patch.setenv("DAY", day)
            patch.setenv("HOME", str(folder / "home"))
            patch.chdir(folder)
            return run_in_process(project, "--llm-mode", mode)

    with model_server() as provider, monkeypatch.context() as patch:
        patch.setenv(PROVIDERS["openai"].url_variable, f"{provider.url}/v1")
        patch.setenv("OPENAI_API_KEY", REAL_KEY)
        go(one, "once").assert_outcomes(passed=1)
        assert len(provider.received) == 2
    stored = "".join(path.read_text() for path in (one / "llm").rglob("*") if path.is_file())
    two.parent.mkdir()
    shutil.move(one, two)
    result = go(two, "replay")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["2 hits, 0 misses*"])
    assert str(project.path) not in stored
    assert "2026-11-15" not in stored.replace('"recorded_at": "2026-11-15', "")
