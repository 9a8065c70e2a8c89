"""Frames that are no messages, and more than a session takes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.engine.exchanges import ExchangeTurn
from cortex_replay.engine.mcp import session as sessions, uplink
from cortex_replay.engine.mcp.link import Said
from cortex_replay.errors import StoreIo
from cortex_replay.mcp import scripts
from cortex_replay.modes import Mode
from cortex_replay.store import Store
from tests.engine.mcp.harness import Client, FakeServer, log, play, record, replay, result, run_at, text_of
from tests.waiting import let_others_run

Message = dict[str, Any]


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"{", -32700),
        (b"hello", -32700),
        (b'{"a":1,"a":2}', -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"tools/call"}', -32600),
    ],
)
def test_a_frame_of_the_client_that_is_no_message_is_an_error_and_the_session_goes_on(
    tmp_path: Path, frame: bytes, code: int
) -> None:
    async def act(client: Client) -> None:
        await client.session.take(frame)
        assert client.got[0]["error"]["code"] == code
        assert client.got[0]["id"] is None
        await client.call("t", 1)

    recorded = record(tmp_path, act, lambda m: [result(m)])

    assert [message["method"] for message in recorded.servers[0].heard] == ["tools/call"]
    assert replay(tmp_path, act).got == recorded.got


def test_a_frame_of_the_server_that_is_no_message_passes_and_is_named(tmp_path: Path) -> None:
    class Server(FakeServer):
        async def send(self, frame: bytes) -> None:
            self.say_bytes(b"listening on stdio")
            self.say_bytes(b"\xff\xfe")
            await super().send(frame)

    async def act(client: Client) -> None:
        await client.call("t", 1)

    recorded = play(tmp_path, Mode.RECORD, act, lambda: Server(lambda m: [result(m)]))

    assert [out.frame for out in recorded.frames[:2]] == [b"listening on stdio", b"\xff\xfe"]
    assert any("2 frames" in note for note in recorded.run.ledger.remarks)
    assert [text_of(message) for message in replay(tmp_path, act).got] == ["done"]


def test_an_answer_that_cannot_be_stored_is_given_and_named(tmp_path: Path) -> None:
    odd = b'{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}'

    class Server(FakeServer):
        async def send(self, frame: bytes) -> None:
            self.say_bytes(odd)

    async def act(client: Client) -> None:
        await client.say("tools/call", {"name": "t", "arguments": {}}, id=1)
        await client.answer_to(1)
        assert client.frames[0].is_end

    recorded = play(tmp_path, Mode.RECORD, act, lambda: Server(lambda _: []))

    assert recorded.frames[0].frame == odd
    assert any("cannot be stored" in note for note in recorded.run.ledger.refused)


def test_an_error_that_is_about_no_request_passes(tmp_path: Path) -> None:
    error = {"id": None, "error": {"code": -32700, "message": "what?"}}

    async def act(client: Client) -> None:
        await client.call("t", 1)

    recorded = record(tmp_path, act, lambda m: [dict(error), result(m)])

    assert recorded.got[0]["error"]["message"] == "what?"


def test_an_answer_that_is_too_large_is_given_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "_MOST_BYTES", 2000)

    async def act(client: Client) -> None:
        assert text_of(await client.call("t", 1)) == "x" * 2000
        await client.call("small", 2)

    def reply(message: Message) -> list[Message]:
        return [result(message, "x" * 2000 if message["params"]["name"] == "t" else "y")]

    recorded = record(tmp_path, act, reply)

    assert recorded.run.ledger.refused == ["tool t of server tools: the answer is too large"]


def test_what_is_too_much_behind_a_call_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "_MOST_BEHIND", 500)
    flood = [log("x" * 100) for _ in range(20)]

    async def act(client: Client) -> None:
        await client.call("t", 1)

    async def listen(client: Client) -> None:
        await act(client)
        await client.message("notifications/message", 20)

    recorded = record(tmp_path, listen, lambda m: [result(m), *flood])
    replayed = replay(tmp_path, act)

    assert len(recorded.got) == 21
    assert 1 < len(replayed.got) < 5
    assert recorded.run.ledger.refused == [
        "tool t of server tools: the server said too much behind it; the end of that"
    ]


def test_an_id_that_is_in_use_is_refused(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.say("tools/call", {"name": "slow", "arguments": {}}, id=1)
        await client.say("tools/call", {"name": "quick", "arguments": {}}, id=1)
        assert client.got[0]["error"]["code"] == -32600
        await client.cancel(1)
        await client.call("quick", 1)

    record(tmp_path, act, lambda m: [result(m)] if m.get("params", {}).get("name") == "quick" else [])


def test_too_many_open_calls_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_OPEN", 3)

    async def act(client: Client) -> None:
        for id in range(5):  # noqa: A001
            await client.say("tools/call", {"name": "slow", "arguments": {"n": id}}, id=id)

    recorded = record(tmp_path, act, lambda _: [])

    assert [message["id"] for message in recorded.got] == [3, 4]
    assert "calls are open already" in recorded.got[0]["error"]["message"]


def test_a_frame_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_FRAME", 100)

    async def act(client: Client) -> None:
        await client.session.take(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x" * 100}).encode())

    [answer] = replay(tmp_path, act).got

    assert answer["error"]["code"] == -32600


def test_the_client_waits_for_a_server_that_takes_its_time_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for it is bounded; when the session ends, nobody waits any more."""
    monkeypatch.setattr(uplink, "_MOST_WAITING", 200)
    never = asyncio.Event

    async def act() -> None:
        client = Client(run_at(tmp_path, Mode.RECORD), FakeServer(lambda _: []))

        async def connect() -> FakeServer:
            await never().wait()
            raise AssertionError

        client.session._uplink._connect = connect
        taken = 0

        async def talk() -> None:
            nonlocal taken
            for id in range(50):  # noqa: A001
                await client.say("tools/call", {"name": "t", "arguments": {"n": id}}, id=id)
                taken += 1

        talking = asyncio.ensure_future(talk())
        await let_others_run()
        assert 1 < taken < 10
        await client.session.close()
        await asyncio.wait_for(talking, 5)

    asyncio.run(act())


def test_a_request_that_fails_alone_leaves_the_others(tmp_path: Path) -> None:
    """Over HTTP, each request has a connection of its own."""

    class Server(FakeServer):
        async def send(self, frame: bytes) -> None:
            message = json.loads(frame)
            if message["params"]["name"] == "broken":
                self._said.put_nowait(Said(b"", message["id"], "status 502"))
            else:
                await super().send(frame)

    async def act(client: Client) -> None:
        broken = await client.call("broken", 1)
        assert broken["error"]["message"] == "cortex-replay: tools: status 502"
        await client.call("t", 2)

    client = play(tmp_path, Mode.RECORD, act, lambda: Server(lambda m: [result(m)]))

    assert client.run.ledger.failures == ["tools: status 502"]


def test_a_full_disk_is_an_error_of_the_call_and_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_full = False

    def stage(*args: Any, **options: Any) -> Any:
        if is_full:
            raise StoreIo("no space left on the device")
        return add_exchange(*args, **options)

    add_exchange = Store.add_exchange
    monkeypatch.setattr(Store, "add_exchange", stage)

    async def act(client: Client) -> None:
        nonlocal is_full
        await client.call("t", 1)
        is_full = True
        client.servers[0].say(log("behind"))
        await client.message("notifications/message")
        assert "no space left" in (await client.call("u", 2))["error"]["message"]
        is_full = False
        await client.call("v", 3)

    client = record(tmp_path, act, lambda m: [result(m)])

    assert [note for note in client.run.ledger.refused if "no space left" in note]
    assert [message.get("id") for message in client.got if "result" in message] == [1, 3]


def test_a_recording_without_an_end_is_an_error_of_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store trusts none; if one came through, nobody should wait for its end."""
    monkeypatch.setattr(ExchangeTurn, "wire", property(lambda _: {"messages": []}))

    async def act(client: Client) -> None:
        answer = await client.call("t", 1)
        assert "has no end" in answer["error"]["message"]

    replay(tmp_path, act)
