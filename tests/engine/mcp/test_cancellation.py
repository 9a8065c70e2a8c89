"""Calls that the client gives up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from cortex_replay.modes import Mode
from tests.engine.mcp.harness import Client, FakeServer, log, play, record, replay, result, run_at, text_of
from tests.waiting import until

Message = dict[str, Any]


def slow(message: Message) -> list[Message]:
    """Answers the slow tool only when it is too late."""
    if message.get("method") == "notifications/cancelled":
        late = {"id": message["params"]["requestId"]}
        return [log("stopped"), result(late, "too late")]
    return [log("begun")] if message["params"]["name"] == "slow" else [result(message)]


async def give_up(client: Client) -> None:
    await client.say("tools/call", {"name": "slow", "arguments": {}}, id=1)
    await client.message("notifications/message")
    await client.cancel(1)
    await client.message("notifications/message", 2)
    await client.call("quick", 2)


def test_a_cancelled_call_is_silent_until_it_is_cancelled(tmp_path: Path) -> None:
    recorded = record(tmp_path, give_up, slow)
    replayed = replay(tmp_path, give_up)

    assert [message.get("id") for message in recorded.got] == [None, None, 2]  # the late result is dropped
    assert replayed.got == recorded.got
    assert [out.about for out in replayed.frames] == [1, None, 2]


def test_a_call_that_was_not_cancelled_then_may_be_now(tmp_path: Path) -> None:
    """Over a transport, a result may cross the cancellation."""

    async def act(client: Client) -> None:
        await client.call("quick", 1)
        await client.cancel(1)
        await client.call("quick", 2)

    recorded = record(tmp_path, act, lambda m: [result(m)] if "id" in m else [])

    assert replay(tmp_path, act).got == recorded.got


def test_a_closed_stream_is_a_cancellation(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.say("tools/call", {"name": "slow", "arguments": {}}, id=1)
        await client.message("notifications/message")
        await client.session.cancel(1)
        await client.session.cancel(1)  # it is over already
        await client.message("notifications/message", 2)

    server = FakeServer(slow)
    recorded = play(tmp_path, Mode.RECORD, act, lambda: server)
    replayed = replay(tmp_path, act)

    assert server.methods == ["tools/call", "notifications/cancelled"]
    assert replayed.got == recorded.got


def test_a_call_that_waits_for_the_client_may_be_cancelled(tmp_path: Path) -> None:
    def reply(message: Message) -> list[Message]:
        if message.get("method") == "tools/call":
            return [{"id": 1, "method": "elicitation/create", "params": {}}]
        return []

    async def act(client: Client) -> None:
        await client.say("tools/call", {"name": "t", "arguments": {}}, id=4)
        request = await client.message("elicitation/create")
        await client.cancel(4)
        await client.reply(request, {"too": "late"})

    record(tmp_path, act, reply)
    replayed = replay(tmp_path, act)

    assert [message.get("method") for message in replayed.got] == ["elicitation/create"]


def test_a_call_that_nobody_ended_is_not_recorded(tmp_path: Path) -> None:
    """The client has left in the middle: whoever replays would wait without end."""

    async def act(client: Client) -> None:
        await client.say("tools/call", {"name": "slow", "arguments": {}}, id=1)
        await client.message("notifications/message")

    record(tmp_path, act, slow)

    async def ask(client: Client) -> None:
        answer = await client.call("slow", 1)
        assert answer["error"]["data"] == {"type": "no_fixture"}

    replay(tmp_path, ask)


def test_the_call_behind_a_cancelled_one_is_the_next(tmp_path: Path) -> None:
    counted = 0

    def reply(message: Message) -> list[Message]:
        nonlocal counted
        if message.get("method") != "tools/call":
            return []
        counted += 1
        return [] if counted == 1 else [result(message, str(counted))]

    async def act(client: Client) -> None:
        await client.say("tools/call", {"name": "t", "arguments": {}}, id=1)
        await client.cancel(1)
        assert text_of(await client.call("t", 2)) == "2"
        assert text_of(await client.call("t", 3)) == "3"

    record(tmp_path, act, reply)
    replay(tmp_path, act)


def test_a_call_may_be_cancelled_before_the_server_is_there(tmp_path: Path) -> None:
    async def act() -> FakeServer:
        server = FakeServer(lambda _: [])
        client = Client(run_at(tmp_path, Mode.RECORD), server)
        is_there = asyncio.Event()

        async def connect() -> FakeServer:
            await is_there.wait()
            return server

        client.session._uplink._connect = connect
        await client.say("tools/call", {"name": "slow", "arguments": {}}, id=1)
        await client.cancel(1)
        is_there.set()
        await until(lambda: len(server.heard) == 2)
        await client.session.close()
        return server

    assert asyncio.run(act()).methods == ["tools/call", "notifications/cancelled"]
