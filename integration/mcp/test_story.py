"""An agent behind gateway and shim, with a server of the registry: recorded, told as a story, replayed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration import install
from integration.mcp.reference_servers import entry_of, reference_servers
from tests.adapters.fake_provider import Exchange, FakeProvider, serving_in_thread

AGENT = Path(__file__).with_name("clients") / "agent.py"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get-sum", {"a": 2, "b": 40}),
    ("trigger-sampling-request", {"prompt": "greet", "maxTokens": 9}),
    ("echo", {"message": "hello"}),
]


async def answer(exchange: Exchange) -> None:
    """Calls tools, greets who asks for it, and ends."""
    last = exchange.received.json["messages"][-1]
    message: dict[str, Any] = {"role": "assistant", "content": "done"}
    if last["role"] == "user" and last["content"] == "Use your tools.":
        functions = [{"name": f"mcp__every__{name}", "arguments": json.dumps(given)} for name, given in CALLS]
        message["content"] = None
        message["tool_calls"] = [
            {"id": f"call_{number}", "type": "function", "function": function}
            for number, function in enumerate(functions)
        ]
    elif last["role"] == "user":
        message["content"] = "hello there"
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    await exchange.whole(json.dumps({**head, "choices": [choice]}).encode())


@pytest.fixture
def model() -> Iterator[FakeProvider]:
    with serving_in_thread(answer) as serving:
        yield serving


def replay(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cortex_replay", *map(str, arguments)]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=False)


def run_agent(command: str, store: Path, server: Path, **environment: str) -> dict[str, Any]:
    shim = [sys.executable, "-m", "cortex_replay", "mcp", "every", "--", "node", str(server)]
    agent = [sys.executable, str(AGENT), *shim]
    options = ["--fail-on", "miss", "--fail-on", "unused"] if command == "replay" else []
    done = replay(command, "--store", store, *options, "--", *agent, **environment)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return {**said, "ledger": done.stderr}


def test_an_agent_is_recorded_told_and_replayed(tmp_path: Path, model: FakeProvider) -> None:
    install.needed("node", "run MCP servers")
    store = tmp_path / "store"
    keys = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "sk-of-this-test-1234"}
    recorded = run_agent("record", store, entry_of(reference_servers(), "everything"), **keys)
    replayed = run_agent("replay", store, tmp_path / "there is none")

    assert recorded["said"] == replayed["said"] == "done"
    assert recorded["results"] == replayed["results"]
    assert "hello there" in recorded["results"][1]
    assert len(model.received) == 3
    assert "cortex-replay: MCP server every: 5 hits" in replayed["ledger"]
    steps: Any = json.loads(replay("show", "latest", "--store", store, "--json").stdout)["steps"]
    models = [step for step in steps if step["kind"] == "model"]
    tools = [step for step in steps if step["kind"] == "mcp" and step["tool"]]
    assert [(step["tool"], step["caused_by"], step["cause"]["id"]) for step in tools] == [
        (name, 1, f"call_{number}") for number, (name, _) in enumerate(CALLS)
    ]
    assert [call["result_in"] for call in models[0]["tool_calls"]] == [3, 3, 3]
    assert models[1]["sampled_by"] == {
        **{name: tools[1][name] for name in ("server", "key", "path", "answer")},
        "request": 1,
    }
