"""Whatever wire a model's answer comes over, what it wants called is linked to the call of the tool."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import Any

import httpx
from websockets.sync.client import connect

from cortex_replay.engine.core import RunCore
from cortex_replay.gateway import Gateway
from cortex_replay.history.mcp_calls import read_mcp_calls
from tests.adapters.fake_provider import FakeProvider
from tests.engine.mcp.harness import Client, FakeServer
from tests.gateway.conftest import Opened
from tests.waiting import LONGEST_S

TOOL = "mcp__weather__look_up"
FUNCTION = {"name": TOOL, "parameters": {"type": "object", "properties": {}}}
CHAT: dict[str, Any] = {"model": "m", "tools": [{"type": "function", "function": FUNCTION}]}


def questions() -> list[tuple[str, str, dict[str, Any]]]:
    """Whom to ask, where, and what; each something else."""
    numbers = count(1)

    def said() -> list[dict[str, Any]]:
        return [{"role": "user", "content": f"weather {next(numbers)}?"}]

    asked: list[tuple[str, str, dict[str, Any]]] = []
    for stream in (False, True):
        anthropic = {
            "model": "m",
            "max_tokens": 9,
            "tools": [{"name": TOOL, "input_schema": {"type": "object"}}],
        }
        responses = {"model": "m", "tools": [{"type": "function", **FUNCTION}]}
        asked += [
            ("openai", "/v1/chat/completions", {**CHAT, "messages": said(), "stream": stream}),
            ("openai", "/v1/responses", {**responses, "input": said(), "stream": stream}),
            ("anthropic", "/v1/messages", {**anthropic, "messages": said(), "stream": stream}),
            ("ollama", "/api/chat", {**CHAT, "messages": said(), "stream": stream}),
        ]
        way = "streamGenerateContent?alt=sse" if stream else "generateContent"
        contents = [{"role": "user", "parts": [{"text": said()[0]["content"]}]}]
        tools = [{"functionDeclarations": [{"name": TOOL}]}]
        asked.append(("gemini", f"/v1beta/models/m:{way}", {"contents": contents, "tools": tools}))
    return asked


def ask_over_a_socket(gateway: Gateway) -> None:
    tools = [{"type": "function", **FUNCTION}]
    body = {"type": "response.create", "model": "m", "input": "weather over a socket?", "tools": tools}
    url = gateway.url("openai").replace("http://", "ws://")
    with connect(f"{url}/v1/responses", compression=None) as socket:
        socket.send(json.dumps(body))
        while json.loads(socket.recv(LONGEST_S))["type"] != "response.completed":
            pass


async def call_tools(run: RunCore, times: int) -> None:
    numbers = count(1)
    server = FakeServer(lambda message: [{"id": message["id"], "result": {"n": next(numbers)}}])
    client = Client(run, server, "weather")
    for number in range(1, times + 1):
        await client.ask("tools/call", {"name": "look_up", "arguments": {"city": "Paris"}}, id=number)
    await client.session.close()


def test_every_wire_causes_calls(opened: Opened, provider: FakeProvider) -> None:
    asked = questions()
    with opened("record", provider.url) as gateway:
        with httpx.Client() as client:
            for upstream, path, body in asked:
                reply = client.post(f"{gateway.url(upstream)}{path}", json=body)
                assert reply.status_code == 200, reply.text
        ask_over_a_socket(gateway)
        asyncio.run(call_tools(gateway.run, len(asked) + 2))
        gateway.run.commit()
        store = gateway.run.store

    causes = [call.cause for call in read_mcp_calls(store)]
    recorded = {stored.prompt_hash for stored in store.list()}
    assert {cause.prompt_hash for cause in causes if cause is not None} == recorded
    assert (len(recorded), causes[-1]) == (len(asked) + 1, None)
