"""An agent of two SDKs, for its model and for its tools: what caused what is recorded, and replays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import openai
import pytest
from mcp import ClientSession
from mcp.client.stdio import stdio_client

from cortex_replay import intercept
from cortex_replay.history.calls import read_calls
from cortex_replay.history.mcp_calls import read_mcp_calls
from cortex_replay.history.story import Story, tell_story
from cortex_replay.store import Store
from tests.adapters.fake_provider import Exchange, FakeProvider, Script, serving_in_thread
from tests.interception.conftest import point_at
from tests.interception.mcp.test_sessions import starts, talk, tools

QUESTION: Any = {"role": "user", "content": "Ask the tool."}
ARGUMENTS = {"text": "hello"}


def says(message: dict[str, Any], reason: str = "stop") -> Script:
    """A completion, whole or as a stream, as it is asked for."""

    async def script(exchange: Exchange) -> None:
        head = {"id": "c", "created": 1, "model": "m"}
        if exchange.received.json.get("stream"):
            await exchange.start_stream()
            deltas = [message, {}]
            for delta, finish in zip(deltas, [None, reason], strict=True):
                choice = {"index": 0, "delta": delta, "finish_reason": finish}
                event = json.dumps({**head, "object": "chat.completion.chunk", "choices": [choice]})
                await exchange.piece(f"data: {event}\n\n".encode())
            await exchange.piece(b"data: [DONE]\n\n")
            await exchange.end_stream()
            return
        choice = {"index": 0, "message": message, "finish_reason": reason}
        await exchange.whole(json.dumps({**head, "object": "chat.completion", "choices": [choice]}).encode())

    return script


def wish(name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(ARGUMENTS)}
    call = {"index": 0, "id": "call_7", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    first = says(wish("mcp__tools_server__ask"), "tool_calls")
    sampled = says({"role": "assistant", "content": "a model's word"})
    last = says({"role": "assistant", "content": "done"})
    with serving_in_thread(first, sampled, last) as serving:
        point_at(serving.url, monkeypatch)
        yield serving


async def agent(folder: Path, *, streams: bool) -> str:
    """Asks a model, calls the tool that it wants, which asks the model back, and says how it ends."""
    async with openai.AsyncOpenAI(max_retries=0) as model:

        async def complete(messages: list[Any]) -> Any:
            if not streams:
                return (await model.chat.completions.create(model="m", messages=messages)).choices[0].message
            async with model.chat.completions.stream(model="m", messages=messages) as stream:
                return (await stream.get_final_completion()).choices[0].message

        async def sample(_: object, request: types.CreateMessageRequestParams) -> types.CreateMessageResult:
            content = request.messages[0].content
            assert isinstance(content, types.TextContent)
            said = await complete([{"role": "user", "content": content.text}])
            text = types.TextContent(type="text", text=said.content)
            return types.CreateMessageResult(role="assistant", model="m", content=text)

        async def use(session: ClientSession) -> str:
            wished = await complete([QUESTION])
            [call] = wished.tool_calls
            tool = call.function.name.removeprefix("mcp__tools_server__")
            result = await session.call_tool(tool, json.loads(call.function.arguments))
            assert isinstance(result.content[0], types.TextContent)
            answer = {"role": "tool", "tool_call_id": call.id, "content": result.content[0].text}
            asked = {"role": "assistant", "tool_calls": [wish(call.function.name)["tool_calls"][0]]}
            final = await complete([QUESTION, asked, answer])
            return f"{result.content[0].text}, {final.content}"

        return str(await talk(stdio_client(tools(folder)), use, sampling_callback=sample))


def story_in(root: Path) -> Story:
    store = Store.open(root)
    return tell_story(read_calls(store).calls, read_mcp_calls(store))


@pytest.mark.parametrize("streams", [False, True])
def test_both_halves_are_recorded_linked_and_replayed(
    tmp_path: Path, provider: FakeProvider, streams: bool
) -> None:
    root = tmp_path / "llm"
    with intercept(root, "record"):
        recorded = asyncio.run(agent(tmp_path, streams=streams))
    with intercept(root, "replay"):
        replayed = asyncio.run(agent(tmp_path, streams=streams))

    assert recorded == replayed == "a model's word, done"
    assert (starts(tmp_path), len(provider.received)) == (1, 3)
    story = story_in(root)
    first, sampled, last = story.model_steps
    [called] = [step for step in story.mcp_steps if step.call.tool]
    assert called.call.cause is not None
    assert (called.caused_by, called.call.cause.id) == (1, "call_7")
    assert [(use.made, use.is_certain, use.result_in) for use in first.uses] == [(called.call, True, 3)]
    assert sampled.sampled_by is not None
    assert (sampled.sampled_by.made, last.sampled_by) == (called.call, None)
