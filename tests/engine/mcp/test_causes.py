"""Which tool call of a model caused a call of a server."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.engine.adapter import ScopeAdapter
from cortex_replay.engine.core import RunCore
from cortex_replay.engine.mcp.causes import Causes
from cortex_replay.engine.scope import Scope
from cortex_replay.history.mcp_calls import read_mcp_calls
from cortex_replay.mcp.messages import Message
from cortex_replay.modes import Mode
from cortex_replay.store import FixtureKey, Store
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk, ToolCall, ToolCallDelta
from tests.engine.mcp.harness import Client, FakeServer, run_at

KEY = FixtureKey("m", "0" * 64)
READ: dict[str, Any] = {"path": "a.txt"}


def asked(*messages: dict[str, Any]) -> LlmRequest:
    return LlmRequest("m", "", [{"role": "user", "content": "read it"}, *messages])


def tools_call(name: str, arguments: dict[str, Any] | None = None) -> Message:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments or {}}}


def cause_of(causes: Causes, message: Message) -> Any:
    meta: dict[str, Any] = {}
    causes.link(meta, "files", message)
    return meta.get("cause")


def test_equal_calls_are_taken_in_order_and_once() -> None:
    causes = Causes()
    calls = [ToolCall(id="a", name="files_read", arguments=READ), ToolCall(name="files_read", arguments=READ)]
    causes.note(KEY, 1, calls, asked)
    causes.note(KEY, 2, [ToolCall(id="c", name="read", arguments=READ)], asked)

    found = [cause_of(causes, tools_call("read", READ)) for _ in range(4)]

    of = {"model": "m", "prompt_hash": "0" * 64}
    assert found == [
        {**of, "answer": 1, "tool_call": 1, "id": "a"},
        {**of, "answer": 1, "tool_call": 2},
        {**of, "answer": 2, "tool_call": 1, "id": "c"},
        None,
    ]


@pytest.mark.parametrize(
    "message",
    [
        tools_call("read", {"path": "b.txt"}),
        tools_call("write", READ),
        {"method": "prompts/get", "params": {"name": "read", "arguments": READ}},
        {"method": "tools/call", "params": {"name": 7}},
        {"method": "tools/call"},
    ],
)
def test_what_differs_has_no_cause(message: Message) -> None:
    causes = Causes()
    causes.note(KEY, 1, [ToolCall(name="read", arguments=READ)], asked)

    assert cause_of(causes, message) is None
    assert cause_of(causes, tools_call("read", READ)) is not None


@pytest.mark.parametrize("id_of_call", ["a", None])
def test_a_call_that_the_conversation_has_left_behind_causes_nothing(id_of_call: str | None) -> None:
    """A user may refuse a tool; the model wishes for it again, and gets it."""
    causes = Causes()
    refused = ToolCall(id=id_of_call, name="read", arguments=READ)
    causes.note(KEY, 1, [refused], asked)

    def ask() -> LlmRequest:
        said = {"role": "assistant", "content": "", "tool_calls": [refused]}
        return asked(said, {"role": "tool", "content": "no", "tool_call_id": id_of_call or "x"})

    causes.note(FixtureKey("m", "1" * 64), 1, [ToolCall(id="b", name="read", arguments=READ)], ask)

    assert cause_of(causes, tools_call("read", READ))["id"] == "b"
    assert cause_of(causes, tools_call("read", READ)) is None


def test_what_is_remembered_has_bounds() -> None:
    causes = Causes()
    for number in range(300):
        causes.note(KEY, number, [ToolCall(name="read", arguments={"n": number})], asked)

    assert cause_of(causes, tools_call("read", {"n": 43})) is None
    assert cause_of(causes, tools_call("read", {"n": 44})) is not None


class Model(LlmAdapter):
    """Wants a file read, whole or in pieces."""

    adapter_id = "model"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        call = ToolCall(id="call_1", name="mcp__files__read", arguments=READ)
        return LlmResponse("", None, request.model, None, "", "tool_calls", (call,))

    async def stream(self, request: LlmRequest) -> Any:
        response = await self.complete(request)
        yield StreamChunk(
            "", "tool_calls", (ToolCallDelta.whole(0, response.tool_calls[0]),), response=response
        )


def server() -> FakeServer:
    return FakeServer(lambda message: [{"id": message["id"], "result": {"content": []}}])


async def ask_and_call(run: RunCore, scope: Scope, *, streams: bool = False) -> None:
    model = ScopeAdapter(scope, Model())
    if streams:
        async for _ in model.stream(asked()):
            pass
    else:
        await model.complete(asked())
    client = Client(run, server(), "files")
    await client.ask("tools/call", {"name": "read", "arguments": READ}, id=1)
    await client.ask("tools/call", {"name": "read", "arguments": {"path": "b.txt"}}, id=2)
    await client.session.close()
    run.commit()


@pytest.mark.parametrize("streams", [False, True])
def test_a_recorded_call_says_what_caused_it(tmp_path: Path, streams: bool) -> None:
    run = run_at(tmp_path, Mode.RECORD)
    asyncio.run(ask_and_call(run, run.scope(), streams=streams))
    store = Store.open(tmp_path)
    [fixture] = store.list()

    caused, other = sorted(read_mcp_calls(store), key=lambda call: str(call.arguments))

    assert caused.cause is not None
    assert caused.cause._asdict() == {
        "model": "m",
        "prompt_hash": fixture.prompt_hash,
        "answer": 1,
        "tool_call": 1,
        "id": "call_1",
    }
    assert other.cause is None
    assert (caused.run, caused.at is not None, caused.order, other.order) == (run.name, True, 1, 2)


def test_a_model_that_is_replayed_causes_what_is_recorded_now(tmp_path: Path) -> None:
    """In ``once`` the model's answer may be an old one, each time the same; the tool's is new."""

    async def ask_first() -> None:
        run = run_at(tmp_path, Mode.ONCE)
        await ScopeAdapter(run.scope(), Model()).complete(asked())
        run.commit()

    async def ask_twice() -> None:
        run = run_at(tmp_path, Mode.ONCE)
        numbers = count(1)
        client = Client(
            run, FakeServer(lambda message: [{"id": message["id"], "result": {"n": next(numbers)}}]), "files"
        )
        for number in (1, 2):
            await ScopeAdapter(run.scope(), Model()).complete(asked())
            await client.ask("tools/call", {"name": "read", "arguments": READ}, id=number)
        await client.session.close()
        run.commit()

    asyncio.run(ask_first())
    asyncio.run(ask_twice())
    causes = [call.cause for call in read_mcp_calls(Store.open(tmp_path))]

    assert [cause and cause.answer for cause in causes] == [1, 1]


@pytest.mark.parametrize("is_named", [False, True])
def test_another_scope_causes_nothing(tmp_path: Path, is_named: bool) -> None:
    """One that is named, or one that only its owner has."""
    run = run_at(tmp_path, Mode.RECORD)
    asyncio.run(ask_and_call(run, run.scope("a test") if is_named else run.open_scope()))

    assert [call.cause for call in read_mcp_calls(Store.open(tmp_path))] == [None, None]


class EagerModel(Model):
    """Says what it wants called before it has ended."""

    async def stream(self, request: LlmRequest) -> Any:
        response = await self.complete(request)
        yield StreamChunk("", None, (ToolCallDelta.whole(0, response.tool_calls[0]),))
        yield StreamChunk("", "tool_calls", response=response)


def test_a_client_that_does_not_wait_for_the_end_of_an_answer(tmp_path: Path) -> None:
    """It calls the tool in the middle of the stream; what caused that is known before the tool answers."""

    async def call_early() -> None:
        run = run_at(tmp_path, Mode.RECORD)
        slow = FakeServer(lambda _: [])
        client = Client(run, slow, "files")
        async for chunk in ScopeAdapter(run.scope(), EagerModel()).stream(asked()):
            if chunk.tool_calls:
                await client.say("tools/call", {"name": "read", "arguments": READ}, id=1)
        slow.say({"id": 1, "result": {"content": []}})
        await client.answer_to(1)
        await client.session.close()
        run.commit()

    asyncio.run(call_early())
    [call] = read_mcp_calls(Store.open(tmp_path))

    assert call.cause is not None
