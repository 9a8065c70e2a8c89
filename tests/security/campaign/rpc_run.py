"""The admin RPC, over HTTP and over pipes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx

from cortex_replay.admin import METHOD
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import whole
from tests.security.campaign.plant import Planted, Planter
from tests.security.campaign.sandbox import Sandbox
from tests.security.campaign.tally import Outcome
from tests.security.campaign.upstream import upstream

__all__ = ["judge_rpc"]

_TOKEN: Final = "a-token-" + "of-the-caller-ci-4711"
_CONFIGURATION: Final = """
[callers.ci]
token_env = "CI_CALLER_TOKEN"
grants = ["llm_complete"]
max_calls = 100000

[providers.local]
kind = "openai-compat"
base_url = "{url}/v1"
key_env = "LOCAL_KEY"
models = ["m"]
"""
_WAYS: Final = ("prompt", "answer", "error", "200 with an error", "wrong request")


def judge_rpc(root: Path, planter: Planter) -> Outcome:
    """What callers ask, what providers answer, and what is wrong with either."""
    sandbox = Sandbox(root, planter)
    by_http = {way: list(planter.plant(f"/rpc: {way}")) for way in _WAYS}
    by_pipe = {way: list(planter.plant(f"serve --stdio: {way}")) for way in _WAYS}
    with upstream() as server:
        (sandbox.project / "cortex-replay.toml").write_text(_CONFIGURATION.format(url=server.url))
        for ways in (by_http, by_pipe):
            for one in ways["answer"]:
                server.answers[one.tag] = whole(DIALECTS[1].answer(one.text))
            for one in ways["error"]:
                server.answers[one.tag] = whole(DIALECTS[1].error(400, f"bad key {one.text}"), 400)
            for one in ways["200 with an error"]:
                server.answers[one.tag] = whole({"error": {"message": f"bad key {one.text}"}})
        variables = {"CI_CALLER_TOKEN": _TOKEN, "LOCAL_KEY": "the-key-" + "of-the-local-one-0815"}
        headers = {"authorization": f"Bearer {_TOKEN}"}
        with (
            sandbox.serve("--mode", "once", variables=variables) as facts,
            httpx.Client(trust_env=False) as client,
        ):
            door = f"http://127.0.0.1:{facts['port']}/rpc"
            if client.post(door, json={}, headers=headers).status_code == 401:
                door = f"{facts['url']}/rpc"
            for way, items in by_http.items():
                for one in items:
                    answer = client.post(door, json=_message(way, one), headers=headers, timeout=30)
                    assert answer.status_code == 200, answer.text
                    if "error" in answer.json():
                        sandbox.say("an error of /rpc", answer.content)
            sandbox.say("/-/ledger", client.get(f"{facts['url']}/-/ledger").content)
        messages = [_message(way, one) for way, items in by_pipe.items() for one in items]
        lines = "".join(json.dumps(message) + "\n" for message in messages).encode()
        piped = ("serve", "--store", "llm", "--stdio", "--caller", "ci", "--mode", "once")
        said = len(sandbox.said)
        done = sandbox.run(*piped, stdin=lines, variables=variables)
        # An answer is for the caller, who asked for it; errors are ours.
        sandbox.said[said] = (
            "errors on stdio",
            b"\n".join(line for line in done.stdout.splitlines() if b'"error"' in line),
        )
        assert done.stdout.count(b"\n") == len(messages), done.stderr
        assert {one.tag for one in (*by_http["answer"], *by_pipe["answer"])} <= server.asked
    return sandbox.judged()


def _message(way: str, one: Planted) -> dict[str, Any]:
    text = one.text if way == "prompt" else f"Say {one.tag}."
    params: dict[str, Any] = {
        "provider": "local",
        "model": "m",
        "messages": [{"role": "user", "content": text}],
        "system_prompt": "Be brief.",
        "max_tokens": 16,
    }
    if way == "wrong request":
        wrong: list[dict[str, Any]] = [
            {"provider": one.written},
            {"model": one.written},
            {one.written: 1},
            {"messages": [{"role": one.written, "content": "x"}]},
            {"temperature": one.written},
        ]
        params |= Random(one.tag).choice(wrong)
    return {"jsonrpc": "2.0", "id": one.tag, "method": METHOD, "params": params}
