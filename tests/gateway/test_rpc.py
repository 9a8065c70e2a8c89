"""The admin RPC over HTTP and over pipes, called by a JSON-RPC client that nobody here wrote."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonrpcclient
import openai
import pytest

from cortex_replay import Fixture, LlmRequest, Store
from cortex_replay.admin import METHOD, AdminClient, AdminError
from cortex_replay.admin.callers import Caller
from cortex_replay.config import CallerSettings, ProviderSettings, Settings
from cortex_replay.gateway.rpc import Rpc
from cortex_replay.modes import AnyMode
from cortex_replay.run import Run
from cortex_replay.wire import WIRES
from tests.adapters.fake_provider import FakeProvider
from tests.cli.programs import Shell, served
from tests.gateway.upstream import REAL_KEY
from tests.warm import start

TOKEN = "a-token-of-the-caller-ci"
OTHER = "a-token-of-somebody-else"
CONFIGURATION = """
[callers.ci]
token_env = "CI_TOKEN"
grants = ["llm_complete"]
max_calls = 5

[callers.nobody]
token_env = "NOBODY_TOKEN"
grants = []

[providers.local]
kind = "openai-compat"
base_url = "{url}/v1"
key_env = "LOCAL_KEY"
models = ["m"]
"""
ASKED = {
    "provider": "local",
    "model": "m",
    "messages": [{"role": "user", "content": "Hello."}],
    "system_prompt": "Be brief.",
    "max_tokens": 16,
}
TOKENS = {"CI_TOKEN": TOKEN, "NOBODY_TOKEN": OTHER}


@pytest.fixture
def shell(tmp_path: Path, provider: FakeProvider) -> Shell:
    (tmp_path / "cortex-replay.toml").write_text(CONFIGURATION.format(url=provider.url))
    names = ("PATH", "SSL_CERT_FILE")
    environment = {"HOME": str(tmp_path), **{name: os.environ[name] for name in names if name in os.environ}}
    return Shell(tmp_path, environment | TOKENS)


def called(url: str, token: str = TOKEN, **params: Any) -> Any:
    """The parsed answer to a call made with the library."""
    headers = {"authorization": f"Bearer {token}"}
    answer = httpx.post(
        f"{url}/rpc", json=jsonrpcclient.request(METHOD, params=ASKED | params), headers=headers
    )
    return jsonrpcclient.parse(answer.json())


def test_a_foreign_client_calls_over_http(shell: Shell, provider: FakeProvider) -> None:
    """Recorded with the key that only the server has; replayed without any."""
    with served(shell, "--mode", "once", LOCAL_KEY=REAL_KEY) as (facts, _):
        recorded = called(facts["url"])
    with served(shell) as (facts, _):
        replayed = called(facts["url"])
        ledger = httpx.get(f"{facts['control']}/ledger").json()
        with openai.OpenAI(base_url=f"{facts['url']}/openai/v1", api_key="dummy") as client:
            by_sdk = client.chat.completions.create(
                model="m",
                max_tokens=16,
                messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}],
            )

    assert isinstance(recorded, jsonrpcclient.Ok)
    assert recorded.result == {
        "content": "You said: Hello.",
        "model": "m",
        "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16},
    }
    assert replayed.result == recorded.result
    assert by_sdk.choices[0].message.content == "You said: Hello.", "one key, whichever way it came"
    assert (ledger["hits"], len(provider.received)) == (1, 1)


def test_claude_is_asked_without_a_limit_of_the_caller_s(
    tmp_path: Path, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was recorded so is what Anthropic's SDK gets for the same limit."""
    monkeypatch.setenv("LOCAL_KEY", REAL_KEY)
    own = ProviderSettings(kind="claude", base_url=provider.url, key_env=("LOCAL_KEY",))
    callers = {"ci": CallerSettings(grants=("llm_complete",))}
    settings = Settings(providers={"claude": own}, callers=callers)
    params = {"provider": "claude", "model": "m", "messages": [{"role": "user", "content": "Hello."}]}
    message = json.dumps(jsonrpcclient.request(METHOD, params=params)).encode()

    def ask(mode: AnyMode) -> Any:
        run = Run(settings, mode, tmp_path, environment={})
        reply = asyncio.run(Rpc(run, {}).reply(message, Caller("ci", frozenset(["llm_complete"]))))
        run.commit()
        return json.loads(reply.body)["result"]

    assert ask("once") == ask("replay")
    assert [received.json["max_tokens"] for received in provider.received] == [4096]
    body: Any = {"model": "m", "max_tokens": 4096, "messages": params["messages"]}
    asked = WIRES["anthropic-messages"].lift(body).prompt_hash()
    assert [item.prompt_hash for item in Store.open(tmp_path).list()] == [asked]


def reply_of(run: Run, text: str) -> str:
    """What a caller gets who says this."""
    params = {"provider": "mine", "model": "m", "messages": [{"role": "user", "content": text}]}
    message = json.dumps(jsonrpcclient.request(METHOD, params=params)).encode()
    reply = asyncio.run(Rpc(run, {}).reply(message, Caller("ci", frozenset(["llm_complete"]))))
    return reply.body.decode()


@pytest.mark.parametrize("mode", ["live", "once", "record"])
def test_an_answer_holds_none_of_our_keys(tmp_path: Path, mode: AnyMode) -> None:
    """A provider may repeat one: here it repeats whatever it is told."""
    settings = Settings(providers={"mine": ProviderSettings(kind="echo")})
    run = Run(settings, mode, Store.create(tmp_path), environment={"OPENAI_API_KEY": REAL_KEY})

    assert "[REDACTED:known-value]" in reply_of(run, f"It is {REAL_KEY}.")
    assert REAL_KEY not in reply_of(run, f"It is {REAL_KEY}.")


def test_a_miss_says_nothing_of_what_others_asked(tmp_path: Path) -> None:
    settings = Settings(providers={"mine": ProviderSettings(kind="echo")})
    store = Store.create(tmp_path)
    store.add(Fixture.of(LlmRequest("m", messages="What does Alice earn?"), "A lot."))
    store.commit()

    run = Run(settings, "replay", store, environment={})
    answer = reply_of(run, "What does Alex earn?")
    (miss,) = run.ledger.misses

    assert "error" in json.loads(answer)
    for told in (answer, miss.explanation):  # nor is the whole store looked through for a stranger
        assert not any(word in told for word in ("Alice", "A lot", "nearest"))


@contextmanager
def on_pipes(shell: Shell, *options: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    with start(
        ["serve", "--store", "llm", "--stdio", *options],
        cwd=shell.folder,
        env={**shell.environment, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def test_a_foreign_client_calls_over_pipes(shell: Shell) -> None:
    with on_pipes(shell, "--mode", "once", "--caller", "ci", LOCAL_KEY=REAL_KEY) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(jsonrpcclient.request_json(METHOD, params=ASKED) + "\n")
        process.stdin.flush()
        answer = jsonrpcclient.parse_json(process.stdout.readline())
        out, talk = process.communicate(timeout=300)
    assert isinstance(answer, jsonrpcclient.Ok), talk
    assert answer.result["content"] == "You said: Hello."
    assert (out, process.returncode) == ("", 0)
    with on_pipes(shell, "--caller", "ci") as process:
        batch = [
            jsonrpcclient.request(METHOD, params=ASKED),
            jsonrpcclient.notification(METHOD, params=ASKED),
        ]
        out, _ = process.communicate(json.dumps(batch) + "\n" + "nonsense\n", timeout=300)
    lines = [json.loads(line) for line in out.splitlines()]
    (whole,) = (line for line in lines if isinstance(line, list))
    (broken,) = (line for line in lines if isinstance(line, dict))
    assert [entry["result"]["content"] for entry in whole] == ["You said: Hello."]
    assert broken["error"]["code"] == -32700


def test_whoever_may_not_is_refused_and_nothing_is_spent(shell: Shell, provider: FakeProvider) -> None:
    with served(shell, "--mode", "once", LOCAL_KEY=REAL_KEY) as (facts, _):
        url = facts["url"]
        for token in ("x", "wrong", TOKEN[:-1], TOKEN + "x"):
            refused = httpx.post(f"{url}/rpc", json={}, headers={"authorization": f"Bearer {token}"})
            assert refused.status_code == 401
        assert httpx.post(f"http://127.0.0.1:{facts['port']}/rpc", json={}).status_code == 401, (
            "no gateway token"
        )
        denied = called(url, OTHER)
        assert denied.code == -32001
        for field, wrong in (
            ("provider", {"provider": "nobody"}),
            ("model", {"model": "n"}),
            ("messages[0].role", {"messages": [{"role": "robot", "content": "x"}]}),
            ("temperature", {"temperature": 2.5}),
            ("temperature", {"temperature": 1e39}),
            ("max_tokens", {"max_tokens": 0}),
        ):
            answer = called(url, **wrong)
            assert (answer.code, answer.data["field"]) == (-32602, field)
        origin = {"authorization": f"Bearer {TOKEN}", "origin": "http://evil.example"}
        assert httpx.post(f"{url}/rpc", json={}, headers=origin).status_code == 403
        assert httpx.get(f"{url}/rpc", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 405
        assert provider.received == []


def test_a_caller_s_limit_holds(shell: Shell, provider: FakeProvider) -> None:
    shell.run("init", "--store", "llm")
    with served(shell, "--mode", "live", LOCAL_KEY=REAL_KEY) as (facts, _):
        answers = [called(facts["url"]) for _ in range(7)]

    assert [isinstance(answer, jsonrpcclient.Ok) for answer in answers] == [True] * 5 + [False] * 2
    assert answers[-1].code == -32002
    assert len(provider.received) == 5


def test_our_own_client(shell: Shell) -> None:
    with served(shell, "--mode", "once", LOCAL_KEY=REAL_KEY) as (facts, _):
        client = AdminClient(facts["url"] + "/rpc", TOKEN)
        answer = client.complete("local", "m", "Hello.")
        assert (answer.content, answer.usage.total_tokens) == ("You said: Hello.", 16)
        with pytest.raises(AdminError):
            client.complete("local", "unknown", "Hello.")


def test_pipes_need_a_caller(shell: Shell, tmp_path: Path) -> None:
    shell.run("init", "--store", "llm")
    assert "--caller NAME" in shell.run("serve", "--store", "llm", "--stdio").talk
    assert shell.run("serve", "--store", "llm", "--stdio", "--caller", "stranger").status == 2
