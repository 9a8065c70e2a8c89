"""A watch on drift, where one model of llama.cpp takes the place of another under the same name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers.llamacpp import is_available, start_llamacpp

pytestmark = pytest.mark.skipif(not is_available(), reason="xllamacpp has no wheel for this platform")
KEY = "sk-tiny-4f6b1c9d2e8a7053"
PROGRAM = """
import anthropic
import openai

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OUTPUT = {
    "type": "object", "required": ["answer", "ok"], "additionalProperties": False,
    "properties": {"answer": {"type": "integer"}, "ok": {"type": "boolean"}},
}


def chat(text, **more):
    messages = [{"role": "user", "content": text}]
    return openai.OpenAI().chat.completions.create(model="tiny", messages=messages, max_tokens=64, **more)


chat("hello")
for number in range(20):
    chat(f"#dice {number}", temperature=1)
schema = {"name": "output", "schema": OUTPUT, "strict": True}
chat("#json", response_format={"type": "json_schema", "json_schema": schema})
list(chat("#tool, streamed", stream=True, tools=[
    {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
]))
anthropic.Anthropic().messages.create(
    model="tiny", max_tokens=64, messages=[{"role": "user", "content": "#tool"}],
    tools=[{"name": "get_weather", "input_schema": CITY}],
)
"""
OTHER_VALUES = {"Hello": "Howdy", " 42": " 43", ' "Paris"}': ' "Tokyo"}'}
"""What a model says that was trained once more."""
NO_TOOLS = {"<tool_call>": "<tool-call>"}
"""What one says that does not know how tools are called here."""


@contextmanager
def serving(folder: Path, monkeypatch: pytest.MonkeyPatch, words: Mapping[str, str]) -> Iterator[None]:
    """A server that throws new dice for each call, and that SDKs find."""
    folder.mkdir()
    with start_llamacpp(folder, KEY, seed=-1, words=words) as url:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url)
        yield


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store of what the first model said; it is silent about it."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in ("CI", "GITHUB_STEP_SUMMARY"):
            monkeypatch.delenv(name, raising=False)
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, KEY)
        monkeypatch.chdir(folder)
        Path("program.py").write_text(PROGRAM)
        with serving(folder / "first", monkeypatch, {}):
            done = cortex_replay("record", "--store", "store", "--", sys.executable, "program.py")
            assert done.returncode == 0, done.stderr
            for _ in range(2):
                status, report = check("--samples", "3")
                assert (status, report["asked"]) == (0, 24), report
                assert report["tiers"]["contract"] == report["tiers"]["behaviour"] == 0
        yield folder


@pytest.fixture
def folder(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place with a store of its own."""
    shutil.copytree(recorded / "store", tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def cortex_replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cortex_replay", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)


def check(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = cortex_replay("refresh", "--store", "store", "--check", "--json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def found_in(report: dict[str, Any]) -> dict[str, tuple[str, set[str]]]:
    """By question, the tier and the kinds; without the dice."""
    return {
        one["title"]: (one["tier"], {each["kind"] for each in one["differences"]})
        for one in report["changed"]
        if "#dice" not in one["title"]
    }


def test_a_model_with_other_values_behaves_otherwise(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(folder / "values", monkeypatch, OTHER_VALUES):
        status, report = check()

    assert status == 4
    assert found_in(report) == {
        "#json": ("behaviour", {"output"}),
        "#tool, streamed": ("behaviour", {"argument"}),
        "#tool": ("behaviour", {"argument"}),
        "hello": ("words", {"text"}),
    }
    assert {one["tier"] for one in report["changed"] if "#dice" in one["title"]} == {"words"}


def test_a_model_that_calls_no_tools_breaks_the_contract_and_is_recorded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a working tree that holds nothing else; then the watch is silent again, and the store is whole."""
    with serving(folder / "tools", monkeypatch, NO_TOOLS):
        status, report = check("--write", "--page", "drift.html")

        assert status == 4
        found = found_in(report)
        assert {title: tier for title, (tier, _) in found.items()} == {
            "#tool, streamed": "contract",
            "#tool": "contract",
        }
        assert all("tool" in kinds for _, kinds in found.values())
        assert len(report["written"]) == 2
        assert check()[0] == 0
    assert cortex_replay("verify", "store").returncode == 0
    assert Path("drift.html").stat().st_size > 10_000
