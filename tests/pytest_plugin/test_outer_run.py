"""Tests that run behind the gateway of a command: the plugin and the gateway know each other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cortex_replay import Store
from cortex_replay.config import Settings
from cortex_replay.gateway import Gateway
from cortex_replay.modes import AnyMode
from cortex_replay.run import Run
from cortex_replay.run.environment import command_environment
from tests import warm
from tests.gateway.upstream import REAL_KEY, model_server
from tests.pytest_plugin.conftest import VARIABLES, record, run_in_process

TESTS = """
import os
import openai, pytest, requests
pytestmark = pytest.mark.llm_replay

def ask(text):
    with openai.OpenAI(max_retries=0) as client:
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
    return answer.choices[0].message.content

@pytest.mark.parametrize("text", ["one", "two", "one"])
def test_ask(text, llm_recording):
    assert ask(text) == f"You said: {text}"
    assert len(llm_recording.calls) == 1

@pytest.mark.llm_replay(allow_no_calls=True)
def test_with_requests():
    asked = {"model": "m", "messages": [{"role": "user", "content": "one"}]}
    url = os.environ.get("OPENAI_BASE_URL")
    answer = requests.post(url + "/chat/completions", json=asked).json() if url else {}
    assert answer == {} or answer["choices"][0]["message"]["content"] == "You said: one"

@pytest.mark.llm_replay(False)
def test_not_marked():
    assert ask("one") == "You said: one"
"""


@contextmanager
def command(
    project: pytest.Pytester, mode: AnyMode, monkeypatch: pytest.MonkeyPatch, **servers: str
) -> Iterator[Run]:
    """A command that runs a project's tests behind its gateway, as far as its environment tells."""
    ours = {"OPENAI_API_KEY": REAL_KEY, "ANTHROPIC_API_KEY": REAL_KEY}
    run = Run.open(Settings(), mode, project.path / "llm", environment=ours, servers=servers)
    with Gateway(run).running() as gateway, monkeypatch.context() as patch:
        for name, value in command_environment({}, run.settings, gateway.url).items():
            patch.setenv(name, value)
        patch.setenv("CORTEX_REPLAY_MODE", run.mode)
        yield run


def test_what_the_plugin_answers_is_in_the_summary_of_the_command(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project.path / "llm", "one", "two", "three")
    project.makepyfile(
        TESTS.replace('"four", None, 9', '"one", None, None').replace("said: four", "said: one")
    )
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    with command(project, "replay", monkeypatch) as run:
        result = run_in_process(project)
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["4 hits, 0 misses*"])

    # One of them came to the gateway itself.
    assert (run.ledger.hits, run.ledger.misses, run.ledger.live) == (5, [], 0)
    assert len(run.ledger.unused(run.store)) == 1
    assert run.ledger.replayed_tokens == 15
    assert not (project.path / "summary.md").exists(), "the command writes its own"


def test_misses_and_refusals_are_told_to_the_command(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile(
        TESTS
        + """
def test_around():
    import socket
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as connection:
            connection.sendall(b'POST /v1/chat/completions HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n{}')
"""
    )
    with command(project, "replay", monkeypatch) as run:
        run_in_process(project, "-k", "test_ask or test_around")
    assert [miss.what.rpartition("::")[2] for miss in run.ledger.misses] == [
        "test_ask[one0]",
        "test_ask[two]",
        "test_ask[one1]",
    ]
    assert list(run.ledger.bypassed.values()) == [1]
    assert len({miss.explanation for miss in run.ledger.misses}) == 2, "equal ones can be told once"


ADAPTER = """
def test_adapter(llm):
    from cortex_replay import LlmRequest
    assert llm.sync.complete(LlmRequest("m", "", "four", None, 9)).text == "You said: four"
"""


def test_the_gateway_alone_records(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the keys. Each test counts for itself there, too."""
    project.makepyfile(TESTS + ADAPTER)
    project.makefile(".toml", **{"cortex-replay": 'provider = "claude"\n'})
    with model_server() as server:
        servers = {"openai": f"{server.url}/v1", "anthropic": server.url}
        with command(project, "once", monkeypatch, **servers) as run:
            result = run_in_process(project, "-k", "not requests")
            result.assert_outcomes(passed=5, deselected=1)
            result.stdout.fnmatch_lines(["0 hits, 0 misses, 4 through the gateway*"])
            run.commit()
        keys = {call.headers.get(name) for call in server.received for name in ("authorization", "x-api-key")}
    assert keys <= {f"Bearer {REAL_KEY}", REAL_KEY, None}
    assert run.ledger.recorded == run.ledger.live == len(server.received) == 3
    assert len(Store.open(project.path / "llm")) == 3
    run_in_process(project, "-k", "not not_marked").assert_outcomes(passed=5, deselected=1)


def test_a_command_that_cannot_be_told_is_named(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(project.path / "llm", "one", "two")
    project.makepyfile(TESTS)
    monkeypatch.setenv("CORTEX_REPLAY_CONTROL", "http://127.0.0.1:9/t-x/-")
    result = run_in_process(project, "-k", "test_ask")
    result.assert_outcomes(passed=3, deselected=2)
    result.stdout.fnmatch_lines(["warning: the command around these tests could not be told of them: *"])


def replay(project: pytest.Pytester, test: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a test behind the command, as at a shell."""
    theirs = ("PYTHON", "LC_", "COVERAGE_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    for name in VARIABLES:
        variables.pop(name, None)
    ours = f"PYTHONPATH={Path(__file__).parents[2]}"
    suite = ["env", ours, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", test]
    return warm.run(["replay", *options, "--", *suite], cwd=project.path, env=variables, text=True)


def test_replay_of_a_marked_suite_exits_well(project: pytest.Pytester) -> None:
    """Its store is the one that was named at the shell."""
    record(project.path / "elsewhere", "one", "two")
    project.makepyfile(
        """
        import os
        import httpx, pytest  # not an SDK: each of them takes a second to import

        @pytest.mark.llm_replay
        @pytest.mark.parametrize("text", ["one", "two", "one"])
        def test_ask(text, llm_recording):
            body = {"model": "m", "messages": [{"role": "user", "content": text}]}
            answer = httpx.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body).json()
            assert answer["choices"][0]["message"]["content"] == f"You said: {text}"
            assert len(llm_recording.calls) == 1
        """
    )
    done = replay(project, "test_ask", "--store", "elsewhere", "--fail-on", "miss")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert "cortex-replay: 3 hits, 0 misses, 0 recorded, 0 live" in done.stderr


def test_a_test_that_swallows_a_miss_fails_the_replay(project: pytest.Pytester) -> None:
    """pytest is content, and the command around it is not; a list of models is no answer that was due."""
    record(project.path / "llm", "one")
    project.makepyfile(
        """
        import os
        import httpx, pytest
        URL = os.environ["ANTHROPIC_BASE_URL"] + "/v1"

        @pytest.mark.llm_replay
        def test_models():
            assert httpx.get(URL + "/models").is_error

        @pytest.mark.llm_replay
        def test_question():
            asked = [{"role": "user", "content": "never recorded"}]
            body = {"model": "m", "max_tokens": 9, "messages": asked}
            assert httpx.post(URL + "/messages", json=body).is_error
        """
    )
    swallowed = replay(project, "test_question", "--store", "llm")
    assert (swallowed.returncode, "1 passed" in swallowed.stdout) == (3, True), swallowed.stderr
    assert "error: something was asked that is not recorded: " in swallowed.stderr
    assert replay(project, "test_models", "--store", "llm").returncode == 0


def test_labels_reach_the_gateway_that_records(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the run is the gateway's."""
    project.makepyfile(
        """
        import anthropic, pytest

        @pytest.mark.llm_replay
        def test_it():
            with anthropic.Anthropic(max_retries=0) as client:
                client.messages.create(
                    model="m", max_tokens=9, messages=[{"role": "user", "content": "q"}], system="Be kind.",
                    extra_headers={"x-cortex-replay-labels": "policy"},
                )
        """
    )
    with model_server() as server, command(project, "once", monkeypatch, anthropic=server.url) as run:
        run_in_process(project).assert_outcomes(passed=1)
        run.commit()
        assert not any("policy" in str(received.headers) for received in server.received)

    (stored,) = Store.open(project.path / "llm").list()
    meta = Store.open(project.path / "llm").get(stored.model, stored.prompt_hash).meta or {}
    assert meta["cache"] == {"blocks": [{"end": 8, "label": "policy"}]}
    assert meta["run"] == run.name
