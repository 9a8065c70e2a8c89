"""``refresh`` on stores that real SDKs made, by a command and by the plugin, against llama.cpp's server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cortex_replay import Store
from tests.servers.llamacpp import is_available, start_llamacpp

KEY = "sk-tiny-4f6b1c9d2e8a7053"
CALLS = """
import anthropic
import openai

HI = [{"role": "user", "content": "Hi."}]
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}}


def chat(text, **more):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
    done = openai.OpenAI().chat.completions.create(model="tiny", messages=messages, max_tokens=64, **more)
    return "".join(c.choices[0].delta.content or "" for c in done) if more.get("stream") else done


def respond(text, **more):
    done = openai.OpenAI().responses.create(model="tiny", input=text, **more)
    return list(done) if more.get("stream") else done


def message(text, **more):
    messages = [{"role": "user", "content": text}]
    done = anthropic.Anthropic().messages.create(model="tiny", messages=messages, max_tokens=64, **more)
    return list(done) if more.get("stream") else done


QUESTIONS = [
    lambda: chat("one"),
    lambda: chat("two", stream=True),
    lambda: chat("#json", temperature=0),
    lambda: chat(
        "#tool", tools=[{"type": "function", "function": {"name": "get_weather", "parameters": TOOL}}]
    ),
    lambda: respond("three"),
    lambda: respond("four", stream=True),
    lambda: message("five", system="Be brief."),
    lambda: message("six", stream=True),
    lambda: message("#tool", tools=[{"name": "get_weather", "input_schema": TOOL}]),
]
"""
SUITE = """
import pytest
from calls import QUESTIONS


@pytest.mark.llm_replay
@pytest.mark.parametrize("ask", QUESTIONS)
def test_it(ask):
    assert ask()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that answers nobody without its key."""
    if not is_available():
        pytest.skip("xllamacpp has no wheel for this platform")
    with start_llamacpp(tmp_path_factory.mktemp("keyed"), KEY) as url:
        yield url


@pytest.fixture
def folder(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("CI", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server)
    Path("calls.py").write_text(CALLS)
    Path("program.py").write_text("from calls import QUESTIONS\nfor ask in QUESTIONS:\n    ask()\n")
    Path("test_suite.py").write_text(SUITE)
    return tmp_path


def at_a_shell(*command: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
    """A command of ours, as a user runs it."""
    given = {**os.environ, **{name: value for name, value in environment.items() if value is not None}}
    kept = {name: value for name, value in given.items() if environment.get(name, "") is not None}
    program = [sys.executable, "-m", "pytest" if command[0] == "pytest" else "cortex_replay"]
    arguments = command[1:] if command[0] == "pytest" else command
    return subprocess.run([*program, *arguments], capture_output=True, text=True, check=False, env=kept)


def record_with_command() -> None:
    done = at_a_shell("record", "--store", "store", "--", sys.executable, "program.py")
    assert done.returncode == 0, done.stderr


def record_with_plugin() -> None:
    done = at_a_shell(
        "pytest", "-q", "-p", "no:cacheprovider", "--llm-mode", "once", "--llm-store", "store", "."
    )
    assert done.returncode == 0, done.stdout + done.stderr


def replay_with_command() -> subprocess.CompletedProcess[str]:
    command = ("replay", "--store", "store", "--fail-on", "miss", "--", sys.executable, "program.py")
    return at_a_shell(*command, OPENAI_API_KEY=None, ANTHROPIC_API_KEY=None)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("record", [record_with_command, record_with_plugin])
def test_a_store_of_sdks_is_asked_again_whole(record: object, server: str) -> None:
    assert callable(record)
    record()

    same = at_a_shell("refresh", "--store", "store", "--check")
    assert (same.returncode, same.stderr) == (0, ""), same.stderr
    assert "9 asked again, 0 differ, 0 failed, 0 not asked" in same.stdout

    _pretend_another_answer("store")
    drifted = at_a_shell("refresh", "--store", "store", "--check", "--fail-on", "words", "--json")
    assert drifted.returncode == 4, drifted.stderr
    report = json.loads(drifted.stdout)
    assert (report["asked"], len(report["changed"]), report["not_asked"]) == (9, 1, [])

    assert at_a_shell("refresh", "--store", "store").returncode == 0
    assert at_a_shell("refresh", "--store", "store", "--check").returncode == 0
    assert at_a_shell("verify", "store").returncode == 0
    replayed = replay_with_command()
    assert replayed.returncode == 0, replayed.stderr
    assert KEY not in "".join(path.read_text() for path in Path("store").rglob("*.json"))

    fixtures = [Store.open("store").get(item.model, item.prompt_hash) for item in Store.open("store").list()]
    said = {(one.meta or {}).get("upstream") for one in fixtures}
    assert said == {server, f"{server}/v1"}


@pytest.mark.usefixtures("folder")
def test_a_server_that_the_user_does_not_name_gets_nothing(server: str) -> None:
    """Neither does the provider's own: it never answered this."""
    record_with_command()

    done = at_a_shell("refresh", "--store", "store", "--check", OPENAI_BASE_URL=None, ANTHROPIC_BASE_URL=None)

    assert done.returncode == 1
    assert "0 asked again, 0 differ, 0 failed, 9 not asked" in done.stdout
    assert f"set OPENAI_BASE_URL={server}/v1" in done.stderr


def _pretend_another_answer(root: str) -> None:
    """Have one recording say what the model does not say."""
    store = Store.open(root)
    item = next(one for one in store.list() if store.get(one.model, one.prompt_hash).answers[0].text)
    fixture = store.get(item.model, item.prompt_hash)
    then = replace(fixture.answers[0], text="Then.", wire=None, stream=())
    store.replace(replace(fixture, answers=(then,)))
    store.commit()
