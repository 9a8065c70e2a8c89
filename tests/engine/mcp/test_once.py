"""``once``: what is recorded is played, and a server that is started for the rest is told what it missed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.engine.mcp import past, uplink
from cortex_replay.errors import Transport
from cortex_replay.modes import Mode
from tests.engine.mcp.harness import (
    Act,
    Client,
    FakeServer,
    log,
    play,
    record,
    replay,
    result,
    run_at,
    text_of,
)
from tests.waiting import let_others_run, until

Message = dict[str, Any]
INIT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def counter() -> FakeServer:
    """Counts within a session; ``add`` asks the client how much."""
    total = 0
    asked: list[Message] = []

    def reply(message: Message) -> list[Message]:
        nonlocal total
        if "method" not in message:
            total += message["result"]["by"]
            return [result(asked.pop(0), str(total))]
        if message["method"] == "notifications/initialized":
            return [log("welcome")]
        if message["method"] == "ping":
            return [{"id": message["id"], "result": {}}]
        if message["method"] == "initialize":
            return [{"id": message["id"], "result": {"protocolVersion": "2025-11-25"}}]
        if "id" not in message:
            return []
        if message["params"]["name"] == "add":
            asked.append(message)
            return [{"id": 70 + total, "method": "elicitation/create", "params": {"message": "how much"}}]
        total += 1
        return [result(message, str(total))]

    return FakeServer(reply)


def start(*names: str) -> Act:
    """A client that opens a session and calls tools."""

    async def act(client: Client) -> None:
        await client.ask("initialize", INIT, id=0)
        await client.say("notifications/initialized")
        await client.message("notifications/message")
        for number, name in enumerate(names, start=1):
            if name == "add":
                asked = names[:number].count("add")
                await client.say("tools/call", {"name": "add", "arguments": {}}, id=number)
                await client.reply(await client.message("elicitation/create", asked), {"by": 10})
                await client.answer_to(number)
            else:
                await client.call(name, number)

    return act


def texts(client: Client) -> list[str]:
    return [text_of(message) for message in client.got if "content" in message.get("result", {})]


def once(root: Path, act: Act) -> Client:
    return play(root, Mode.ONCE, act, counter)


def test_nothing_is_started_while_all_is_recorded(tmp_path: Path) -> None:
    first = once(tmp_path, start("one", "add"))
    second = once(tmp_path, start("one", "add"))

    assert (first.connections, second.connections) == (1, 0)
    assert texts(first) == texts(second) == ["1", "11"]


def test_a_late_server_is_told_what_the_client_has_said(tmp_path: Path) -> None:
    once(tmp_path, start("one", "add"))
    client = once(tmp_path, start("one", "add", "two"))

    [server] = client.servers
    assert server.methods == ["initialize", "notifications/initialized", *["tools/call"] * 3]
    assert texts(client) == ["1", "11", "12"]
    assert [m["method"] for m in client.got if "method" in m] == [
        "notifications/message",
        "elicitation/create",
    ]
    assert texts(replay(tmp_path, start("one", "add", "two"))) == ["1", "11", "12"]


def test_what_the_server_says_to_the_past_is_not_said_again(tmp_path: Path) -> None:
    """Also what it says to a notification, to which it gives no answer."""
    once(tmp_path, start())
    client = once(tmp_path, start("one"))

    [server] = client.servers
    assert server.methods == ["initialize", "notifications/initialized", "ping", "tools/call"]
    assert [message.get("method") for message in client.got] == [None, "notifications/message", None]


def test_a_server_hears_of_what_was_played_in_between(tmp_path: Path) -> None:
    once(tmp_path, start("one", "two", "three"))
    client = once(tmp_path, start("new", "two", "newer", "three", "newest"))

    assert client.connections == 1
    assert texts(client) == ["1", "2", "3", "3", "5"]  # three is recorded as the third


def test_ids_of_the_client_are_not_used_for_the_past(tmp_path: Path) -> None:
    once(tmp_path, start("one"))
    [server] = once(tmp_path, start("one", "two")).servers

    ids = [message["id"] for message in server.heard if "id" in message and "method" in message]
    assert [str(id).startswith("cortex-replay-past-") for id in ids] == [True, True, False]  # noqa: A001


def test_calls_wait_until_the_server_is_told(tmp_path: Path) -> None:
    """Those that come meanwhile keep their order."""
    once(tmp_path, start("one"))

    async def act(client: Client) -> None:
        await start("one")(client)
        for id in (5, 6, 7):  # noqa: A001
            await client.say("tools/call", {"name": f"t{id}", "arguments": {}}, id)
        await client.answer_to(7)

    assert texts(once(tmp_path, act)) == ["1", "2", "3", "4"]


def test_a_call_that_was_cancelled_then_is_cancelled_again(tmp_path: Path) -> None:
    def silent() -> FakeServer:
        return FakeServer(lambda m: [result(m)] if m.get("params", {}).get("name") == "quick" else [])

    def act_with(last: int) -> Act:
        async def act(client: Client) -> None:
            await client.say("tools/call", {"name": "slow", "arguments": {}}, id=1)
            await client.cancel(1)
            for id in range(2, last):  # noqa: A001
                await client.call("quick", id, n=id)

        return act

    play(tmp_path, Mode.ONCE, act_with(3), silent)
    [server] = play(tmp_path, Mode.ONCE, act_with(4), silent).servers

    asked, cancelled = server.heard[:2]
    assert (asked["method"], cancelled["method"]) == ("tools/call", "notifications/cancelled")
    assert cancelled["params"] == {"requestId": asked["id"]}


def test_a_server_that_does_not_answer_again_is_an_error_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uplink, "_PATIENCE_S", 0.01)
    once(tmp_path, start("one"))

    async def act(client: Client) -> None:
        await start("one", "two")(client)

    client = play(tmp_path, Mode.ONCE, act, lambda: FakeServer(lambda _: []))

    error = client.got[-1]["error"]
    assert "did not answer initialize within" in error["message"]
    assert client.run.ledger.failed + client.run.ledger.unsent == 1


def test_a_server_that_cannot_be_had_is_an_error_of_the_calls_that_wait(tmp_path: Path) -> None:
    once(tmp_path, start("one"))

    def gone() -> FakeServer:
        raise OSError(2, "No such file or directory")

    client = play(tmp_path, Mode.ONCE, start("one", "two", "one"), gone)

    assert "No such file" in client.got[-2]["error"]["message"]
    assert texts(client) == ["1", "1"]


def test_a_server_that_has_ended_is_started_again_and_told_all(tmp_path: Path) -> None:
    """Also what it was asked itself, and what the client answered it then."""

    async def act(client: Client) -> None:
        await start("one", "add")(client)
        client.servers[0].die("it crashed")
        await until(lambda: not client.session._uplink.is_open)
        await client.call("two", 9)

    client = once(tmp_path, act)

    assert texts(client) == ["1", "11", "12"]
    assert len(client.servers) == 2
    assert client.servers[1].methods == ["initialize", "notifications/initialized", *["tools/call"] * 3]
    assert [m["method"] for m in client.got if "method" in m].count("elicitation/create") == 1


def test_a_call_that_was_open_when_the_server_ended_is_an_error(tmp_path: Path) -> None:
    def server() -> FakeServer:
        made = counter()
        reply = made._reply

        def reply_or_die(message: Message) -> list[Message]:
            if message.get("params", {}).get("name") == "die":
                made.die("it crashed")
                return []
            return reply(message)

        made._reply = reply_or_die
        return made

    async def act(client: Client) -> None:
        await start("one")(client)
        assert "it crashed" in (await client.call("die", 8))["error"]["message"]
        await client.call("two", 9)

    client = play(tmp_path, Mode.ONCE, act, server)

    assert texts(client) == ["1", "2"]
    assert [m["params"].get("name") for m in client.servers[1].heard if m.get("method") == "tools/call"] == [
        "one",
        "two",
    ]


def test_in_record_a_server_that_has_ended_stays_ended(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.call("one", 1)
        await client.say("tools/call", {"name": "die", "arguments": {}}, id=2)
        await client.answer_to(2)
        await client.call("two", 3)

    def reply(message: Message) -> list[Message]:
        if message["params"]["name"] == "die":
            server.die("it crashed")
            return []
        return [result(message)]

    server = FakeServer(reply)
    client = play(tmp_path, Mode.RECORD, act, lambda: server)

    errors = [message["error"]["message"] for message in client.got if "error" in message]
    assert errors == ["cortex-replay: tools: it crashed"] * 2
    assert client.connections == 1
    assert server.is_closed
    replayed = replay(tmp_path, lambda client: client.call("one", 1))  # type: ignore[arg-type, return-value]
    assert texts(replayed) == ["done"]


def test_a_past_that_is_too_long_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once(tmp_path, start("one"))
    monkeypatch.setattr(past, "_MOST_DEEDS", 2)

    client = once(tmp_path, start("one", "two"))

    assert "too long" in client.got[-1]["error"]["message"]
    assert client.connections == 0


def test_only_once_remembers_what_was_said(tmp_path: Path) -> None:
    async def look(mode: Mode) -> object:
        return Client(run_at(tmp_path, mode), counter).session._past

    assert [asyncio.run(look(mode)) is None for mode in Mode] == [mode is not Mode.ONCE for mode in Mode]


def test_a_failed_call_leaves_its_number_to_the_next(tmp_path: Path) -> None:
    tries = 0

    def server() -> FakeServer:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError(2, "busy")
        return counter()

    async def act(client: Client) -> None:
        for id in (1, 2, 3):  # noqa: A001
            await client.call("one", id)

    client = play(tmp_path, Mode.ONCE, act, server)

    assert texts(client) == ["1", "2"]
    assert texts(replay(tmp_path, act))[:2] == ["1", "2"]


def test_a_notification_starts_no_server(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.say("notifications/roots/list_changed")
        await let_others_run()

    assert once(tmp_path, act).connections == 0


def test_a_call_that_failed_takes_no_recorded_answer_with_it(tmp_path: Path) -> None:
    async def three(client: Client) -> None:
        for id in (1, 2, 3):  # noqa: A001
            await client.call("one", id)

    async def one(client: Client) -> None:
        for id in (1, 2):  # noqa: A001
            await client.call("one", id)

    tries = 0

    class Late(FakeServer):
        async def send(self, frame: bytes) -> None:
            nonlocal tries
            tries += 1
            if tries == 1:
                raise Transport("not yet")
            await super().send(frame)

    play(tmp_path, Mode.RECORD, three, counter)
    again = play(tmp_path, Mode.RECORD, one, lambda: Late(lambda message: [result(message, "new")]))

    assert "not yet" in again.got[0]["error"]["message"]
    assert texts(replay(tmp_path, three)) == ["new", "2", "3"]


def test_a_session_in_record_starts_with_the_first_frame(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.say("notifications/initialized")
        await client.message("notifications/message")

    assert record(tmp_path, act, counter()._reply).connections == 1
