"""What a server says belongs to a call, and comes in that order again."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.engine.mcp import keeping
from cortex_replay.engine.mcp.calls import Call
from cortex_replay.engine.mcp.keeping import Keeper
from cortex_replay.modes import Mode
from cortex_replay.store import Store
from tests.engine.mcp.harness import (
    Client,
    FakeServer,
    log,
    play,
    record,
    replay,
    result,
    run_at,
    text_of,
    without_ids,
)
from tests.waiting import until

Message = dict[str, Any]


def test_equal_calls_may_be_open_at_once(tmp_path: Path) -> None:
    waiting: list[Message] = []

    def reply(message: Message) -> list[Message]:
        waiting.append(message)
        if len(waiting) < 2:
            return []
        return [result(waiting[1], "second"), result(waiting[0], "first")]

    async def act(client: Client) -> None:
        await client.say("tools/call", {"name": "meet", "arguments": {}}, id=1)
        await client.say("tools/call", {"name": "meet", "arguments": {}}, id=2)
        await client.answer_to(1)

    recorded = record(tmp_path, act, reply)
    replayed = replay(tmp_path, act)

    assert [message["id"] for message in recorded.got] == [2, 1]
    assert {message["id"]: text_of(message) for message in replayed.got} == {1: "first", 2: "second"}


def test_progress_belongs_to_the_call_of_its_token(tmp_path: Path) -> None:
    def progress(token: Any, done: int) -> Message:
        return {"method": "notifications/progress", "params": {"progress": done, "progressToken": token}}

    asked: list[Message] = []

    def reply(message: Message) -> list[Message]:
        asked.append(message)
        if len(asked) < 2:
            return []
        return [progress("a", 1), progress("b", 1), progress("a", 2), *map(result, asked)]

    def act_as(first: str, second: str) -> Any:
        async def act(client: Client) -> None:
            for id, token in ((1, first), (2, second)):  # noqa: A001
                params = {"name": "t", "arguments": {"n": id}, "_meta": {"progressToken": token}}
                await client.say("tools/call", params, id)
            await client.answer_to(2)

        return act

    record(tmp_path, act_as("a", "b"), reply)
    replayed = replay(tmp_path, act_as("x", "y"))

    said = [message["params"] for message in replayed.got if "params" in message]
    assert said == [
        {"progress": 1, "progressToken": "x"},
        {"progress": 2, "progressToken": "x"},
        {"progress": 1, "progressToken": "y"},
    ]


def test_what_the_transport_tells_comes_before_the_latest_call(tmp_path: Path) -> None:
    asked: list[Message] = []

    def reply(message: Message) -> list[Message]:
        asked.append(message)
        return [] if len(asked) < 2 else [{**log("of one"), "about": 1}, log("of two"), *map(result, asked)]

    async def act(client: Client) -> None:
        for id in (1, 2):  # noqa: A001
            await client.say("tools/call", {"name": "t", "arguments": {"n": id}}, id)
        await client.answer_to(2)

    record(tmp_path, act, reply)
    replayed = replay(tmp_path, act)

    about = {
        m["params"]["data"]: out.about
        for m, out in zip(replayed.got, replayed.frames, strict=True)
        if "params" in m
    }
    assert about == {"of one": 1, "of two": 2}


def test_what_comes_behind_a_result_comes_behind_it_again(tmp_path: Path) -> None:
    def reply(message: Message) -> list[Message]:
        return [log("before"), result(message), log("behind"), {"method": "notifications/tools/list_changed"}]

    async def act(client: Client) -> None:
        await client.call("t", 1)
        await client.message("notifications/tools/list_changed")
        await client.call("u", 2)
        await client.message("notifications/tools/list_changed", 2)

    recorded, replayed = record(tmp_path, act, reply), replay(tmp_path, act)

    assert replayed.got == recorded.got
    assert [out.about for out in replayed.frames] == [1, 1, None, None, 2, 2, None, None]
    assert [out.is_end for out in replayed.frames] == [False, True, False, False] * 2


def test_what_follows_a_notification_of_the_client_follows_it_again(tmp_path: Path) -> None:
    def reply(message: Message) -> list[Message]:
        if message.get("method") == "notifications/initialized":
            return [{"id": 5, "method": "roots/list"}]
        return [result(message)] if "method" in message else [log("thanks")]

    async def act(client: Client) -> None:
        await client.say("notifications/initialized")
        await client.reply(await client.message("roots/list"), {"roots": []})
        await client.message("notifications/message")
        await client.call("t", 1)

    recorded, replayed = record(tmp_path, act, reply), replay(tmp_path, act)

    assert without_ids(replayed.got) == without_ids(recorded.got)


@pytest.mark.parametrize("silent", [(0,), (1,), (0, 2), (1, 2)])
def test_a_notification_that_nothing_followed_is_followed_by_nothing(
    tmp_path: Path, silent: tuple[int, ...]
) -> None:
    told = 0

    def reply(message: Message) -> list[Message]:
        nonlocal told
        if "id" in message:
            return [result(message)]
        told += 1
        return [] if told - 1 in silent else [log(f"heard {told}")]

    async def act(client: Client) -> None:
        for number in range(3):
            await client.say("notifications/roots/list_changed")
            if number not in silent:
                await client.message("notifications/message", number + 1 - sum(n < number for n in silent))
            await client.call("t", number, n=number)

    recorded, replayed = record(tmp_path, act, reply), replay(tmp_path, act)

    assert replayed.got == recorded.got


def test_pings_are_answered_and_not_recorded(tmp_path: Path) -> None:
    def reply(message: Message) -> list[Message]:
        if message.get("method") == "ping":
            return [{"id": message["id"], "result": {"of": "the server"}}]
        return [result(message), {"id": "p", "method": "ping"}] if "method" in message else [log("pinged")]

    async def act(client: Client) -> None:
        await client.call("t", 1)
        if client.run.mode is Mode.RECORD:
            await client.reply(await client.message("ping"), {})
            await client.message("notifications/message")
        await client.ask("ping", id=2)
        await client.call("u", 3)

    recorded, replayed = record(tmp_path, act, reply), replay(tmp_path, act)

    assert await_answer(recorded, 2)["result"] == {"of": "the server"}
    assert await_answer(replayed, 2)["result"] == {}
    assert [message.get("method") for message in replayed.got] == [None, "notifications/message", None, None]


def await_answer(client: Client, id: int) -> Message:  # noqa: A002
    return next(message for message in client.got if message.get("id") == id and "method" not in message)


def test_a_crash_behind_a_result_loses_nothing(tmp_path: Path) -> None:
    """What a client has got an answer to is staged; what came behind it, once the server pauses."""

    def staged() -> str:
        return "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())

    async def crash() -> None:
        client = Client(run_at(tmp_path, Mode.RECORD), FakeServer(lambda m: [result(m, "it"), log("behind")]))
        await client.call("t", 1)
        assert '"it"' in staged()
        await client.message("notifications/message")
        await until(lambda: "behind" in staged())

    asyncio.run(crash())


def test_a_flood_is_staged_in_steps_that_double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    amended: list[int] = []
    amend = keeping.Keeper.keep

    def count(keeper: keeping.Keeper, call: Any) -> None:
        amended.append(call.script.size)
        amend(keeper, call)

    monkeypatch.setattr(keeping.Keeper, "keep", count)
    monkeypatch.setattr(keeping, "_PAUSE_S", 3600)
    monkeypatch.setattr(keeping, "_MUCH", 100)
    flood = [log(str(n)) for n in range(100)]

    async def act(client: Client) -> None:
        await client.call("t", 1)
        await client.message("notifications/message", 100)

    recorded = record(tmp_path, act, lambda m: [result(m), *flood])
    replayed = replay(tmp_path, act)

    assert 3 < len(amended) <= 10
    assert replayed.got == recorded.got


def test_a_batch_is_answered_one_by_one(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        batch = [
            {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": f"t{n}"}} for n in (1, 2)
        ]
        await client.session.take(json.dumps(batch).encode())
        await client.answer_to(2)

    recorded = record(tmp_path, act, lambda m: [result(m, m["params"]["name"])])

    assert [text_of(message) for message in recorded.got] == ["t1", "t2"]
    assert replay(tmp_path, act).got == recorded.got


def test_a_frame_passes_as_it_is(tmp_path: Path) -> None:
    """While recording, neither side's bytes change: spaces, order, escapes."""
    asked = b'{"id": 1,  "params": {"b":1.0, "a":"\\u00e9"}, "method":"tools/call","jsonrpc":"2.0"}'
    said = b'{"result":{"z":1,"content":[ ]},"jsonrpc":"2.0", "id":1}'
    got: list[bytes] = []

    class Server(FakeServer):
        async def send(self, frame: bytes) -> None:
            got.append(frame)
            self.say_bytes(said)

    async def act(client: Client) -> None:
        await client.session.take(asked)
        await client.answer_to(1)

    recorded = play(tmp_path, Mode.RECORD, act, lambda: Server(lambda _: []))

    assert got == [asked]
    assert [out.frame for out in recorded.frames] == [said]


def test_two_scopes_ask_their_own_servers(tmp_path: Path) -> None:
    """A server has a state: what another session was told is not told to this one."""
    Store.open_or_create(tmp_path)

    async def both() -> list[FakeServer]:
        run = run_at(tmp_path, Mode.RECORD)
        servers = []
        for name in ("one", "two"):
            server = FakeServer(lambda message: [result(message)])
            client = Client(run, server, scope=name)
            await client.call("t", 1)
            await client.session.close()
            servers.append(server)
        return servers

    assert [len(server.heard) for server in asyncio.run(both())] == [1, 1]


def test_a_large_answer_is_kept_off_the_loop_and_before_what_the_client_says_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking through a picture takes seconds: other sessions of a gateway go on meanwhile."""
    threads: list[bool] = []
    keep = Keeper.keep

    def keep_and_tell(keeper: Keeper, call: Call) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        keep(keeper, call)

    monkeypatch.setattr(Keeper, "keep", keep_and_tell)

    def reply(message: dict[str, Any]) -> list[dict[str, Any]]:
        text = "x" * 100_000 if message["id"] == 1 else "small"
        return [{"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}}]

    async def ask_twice() -> list[dict[str, Any]]:
        run = run_at(tmp_path, Mode.RECORD)
        client = Client(run, FakeServer(reply))
        await client.say("tools/call", {"name": "draw"}, 1)
        await client.ask("tools/call", {"name": "draw"}, id=2)
        await client.session.close()
        run.commit()
        return client.got

    recorded = asyncio.run(ask_twice())

    assert threads == [False, True]
    assert [len(message["result"]["content"][0]["text"]) for message in recorded] == [100_000, 5]
    [(_, stored)] = Store.open(tmp_path).scan_exchanges()
    assert len(json.loads(stored)["then"]) == 1
