"""MCP clients over HTTP: sessions, streams, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.gateway.mcp import door as door_module, streams
from cortex_replay.mcp.messages import NO_FIXTURE
from cortex_replay.modes import Mode
from tests.gateway.mcp.client import VERSION, house_at, request
from tests.waiting import let_others_run, until


def answer(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A server with a few tools."""
    about, params = message.get("id"), message.get("params", {})
    match message:
        case {"method": "initialize"}:
            return [{"id": about, "result": {"protocolVersion": "2025-11-25"}}]
        case {"method": "tools/call", "params": {"name": "progress"}}:
            told = [{"method": "notifications/message", "params": {"data": n}} for n in range(3)]
            return [*told, {"id": about, "result": {"content": "done"}}]
        case {"method": "tools/call", "params": {"name": "trailing"}}:
            told = [{"method": "notifications/tools/list_changed"}]
            return [{"id": about, "result": {"content": "done"}}, *told]
        case {"method": "tools/call", "params": {"name": "flood"}}:
            told = [{"method": "notifications/message", "params": {"data": n}} for n in range(300)]
            return [*told, {"id": about, "result": {}}]
        case {"method": "tools/call", "params": {"name": "asks"}}:
            return [{"id": "s1", "method": "roots/list"}]
        case {"id": "s1", "result": _}:
            return [{"id": 7, "result": {"content": "answered"}}]
        case {"method": "tools/call", "params": {"name": "silent"}}:
            return []
        case {"method": "tools/call", "params": {"name": "hangs"}}:
            return [{"method": "notifications/message", "params": {"data": "begun"}}]
        case {"method": "tools/call"}:
            return [{"id": about, "result": {"content": params.get("name")}}]
        case {"method": "unknown"}:
            return [{"id": about, "error": {"code": -32601, "message": "no such method"}}]
    return []


def test_a_short_answer_is_a_document_and_a_longer_one_a_stream(tmp_path: Path) -> None:
    async def check(mode: Mode) -> list[bytes]:
        async with house_at(tmp_path, mode, answer) as house:
            session = await house.begin()
            short = await house.call(session, "plain", 1)
            assert short.headers["content-type"] == "application/json"
            assert short.headers["mcp-session-id"] == session
            assert short.json == {"jsonrpc": "2.0", "id": 1, "result": {"content": "plain"}}
            longer = await house.call(session, "progress", 2)
            assert longer.headers["content-type"] == "text/event-stream"
            said = [one["params"]["data"] if "params" in one else one["result"] for one in longer.messages]
            assert said == [0, 1, 2, {"content": "done"}]
            assert [event.id for event in longer.events] == ["r2-1", "r2-2", "r2-3", "r2-4"]
            return [short.body, *(event.data for event in longer.events)]

    asyncio.run(check(Mode.RECORD))
    replays = [asyncio.run(check(Mode.REPLAY)) for _ in range(3)]
    assert replays[0] == replays[1] == replays[2]


def test_notifications_and_answers_are_accepted(tmp_path: Path) -> None:
    async def check(mode: Mode) -> None:
        async with house_at(tmp_path, mode, answer) as house:
            session = await house.begin()
            told = await house.ask("POST", request("notifications/initialized"), mcp_session_id=session)
            assert (told.status, told.body) == (202, b"")
            call = house.open("POST", request("tools/call", 7, name="asks"), mcp_session_id=session)
            [asked] = await call.until(1)
            assert asked["method"] == "roots/list"
            given = {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}
            assert (await house.ask("POST", given, mcp_session_id=session)).status == 202
            assert (await call.until(2))[1]["result"] == {"content": "answered"}

    asyncio.run(check(Mode.RECORD))
    asyncio.run(check(Mode.REPLAY))


def test_what_belongs_to_no_request_waits_for_its_stream(tmp_path: Path) -> None:
    """Also when it came before the stream was opened, and when the stream broke in between."""

    async def check(mode: Mode) -> None:
        async with house_at(tmp_path, mode, answer) as house:
            session = await house.begin()
            await house.call(session, "trailing", 1)
            await let_others_run()
            first = house.open("GET", mcp_session_id=session)
            assert [one["method"] for one in await first.until(1)] == ["notifications/tools/list_changed"]
            await first.leave()
            await house.call(session, "trailing", 2)
            second = house.open("GET", mcp_session_id=session)
            assert [event.id for event in (await second.until(1)) and second.events] == ["0-2"]
            again = house.open("GET", mcp_session_id=session, last_event_id="0-0")
            await again.until(2)
            await until(lambda: second.is_whole)  # the later connection has it now

    asyncio.run(check(Mode.RECORD))
    asyncio.run(check(Mode.REPLAY))


def test_connections_are_written_in_the_order_in_which_things_were_said(tmp_path: Path) -> None:
    """What follows an answer comes behind it, and before the next one, though on another connection."""

    async def check(mode: Mode) -> None:
        async with house_at(tmp_path, mode, answer) as house:
            session = await house.begin()
            stream = house.open("GET", mcp_session_id=session)
            await until(lambda: stream.status)
            house.written.clear()
            for number in range(1, 6):
                await house.call(session, "trailing", number)
                await until(lambda number=number: len(stream.events) == number)  # type: ignore[misc]
            assert [method for method, _ in house.written] == ["POST", "GET"] * 5

    asyncio.run(check(Mode.RECORD))
    asyncio.run(check(Mode.REPLAY))


def test_a_client_that_loses_a_stream_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "_PATIENCE_S", 0)

    async def record() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin(mcp_protocol_version="2025-11-25")
            call = house.open(
                "POST",
                request("tools/call", 1, name="hangs"),
                mcp_session_id=session,
                mcp_protocol_version="2025-11-25",
            )
            await call.until(1)
            assert [event.id for event in call.events] == ["r1-0", "r1-1"]  # from before anything came
            await call.leave()
            await let_others_run()
            house.servers[0].say({"id": 1, "result": {"content": "late"}})
            rest = await house.ask("GET", mcp_session_id=session, last_event_id="r1-1")
            assert [one.get("result") for one in rest.messages] == [{"content": "late"}]
            both = await house.ask("GET", mcp_session_id=session, last_event_id="r1-0")
            assert len(both.messages) == 2

    async def replay() -> None:
        async with house_at(tmp_path, Mode.REPLAY) as house:
            session = await house.begin(mcp_protocol_version="2025-11-25")
            call = await house.call(session, "hangs", 1, mcp_protocol_version="2025-11-25")
            rest = await house.ask("GET", mcp_session_id=session, last_event_id="r1-1")
            assert rest.messages == call.messages[1:]

    asyncio.run(record())
    asyncio.run(replay())


def test_sessions_are_apart(tmp_path: Path) -> None:
    """Equal ids of requests, streams of their own; a session of another server or scope is none."""

    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            sessions = [await house.begin() for _ in range(3)]
            assert len(set(sessions)) == 3
            asked = [request("tools/call", 1, name="hangs", arguments={"n": n}) for n in range(3)]
            pairs = zip(asked, sessions, strict=True)
            calls = [house.open("POST", call, mcp_session_id=session) for call, session in pairs]
            for call in calls:
                await call.until(1)
            for number, server in enumerate(house.servers):
                server.say({"id": 1, "result": {"n": number}})
            assert [(await call.until(2))[1]["result"]["n"] for call in calls] == [0, 1, 2]
            for other in ({"scope": "another"}, {"server": "another"}):
                assert (await house.call(sessions[0], "plain", 2, **other)).status == 404

    asyncio.run(check())


def test_a_session_that_is_not_there(tmp_path: Path) -> None:
    """404 for one that is unknown, as after a restart: clients then begin anew. 400 where none is named."""

    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            assert (await house.ask("DELETE", mcp_session_id=session)).status == 200
            for method, body in (("POST", request("tools/list", 1)), ("GET", None), ("DELETE", None)):
                gone = await house.ask(method, body, mcp_session_id=session)
                assert (gone.status, gone.json["error"]["message"]) == (
                    404,
                    "cortex-replay: there is no such session; begin a new one",
                )
                assert (await house.ask(method, body)).status == 400

    asyncio.run(check())


def test_a_session_that_the_server_forgot_is_none_here_either(tmp_path: Path) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            house.brought[0].is_forgotten = True
            assert (await house.call(session, "plain", 1)).status == 404

    asyncio.run(check())


def test_what_is_no_message_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            broken = await house.ask("POST", b'{"a', mcp_session_id=session)
            assert (broken.status, broken.json["error"]["code"]) == (400, -32700)
            other = await house.ask("POST", b'{"a": 1}', mcp_session_id=session)
            assert (other.status, other.json["error"]["code"]) == (400, -32600)
            text = await house.ask(
                "POST", request("ping", 1), mcp_session_id=session, content_type="text/plain"
            )
            assert text.status == 415
            picky = await house.ask("POST", request("ping", 1), mcp_session_id=session, accept="text/html")
            assert picky.status == 406
            assert (await house.ask("GET", mcp_session_id=session, accept="application/json")).status == 406
            put = await house.ask("PUT", mcp_session_id=session)
            assert (put.status, put.headers["allow"]) == (405, "GET, POST, DELETE")
            old = await house.ask("GET", mcp_session_id=session, last_event_id="7-1")
            assert old.status == 400
            assert (await house.call(session, "plain", 1)).status == 200  # the session goes on

    asyncio.run(check())


def test_one_id_is_under_way_once(tmp_path: Path) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            call = house.open("POST", request("tools/call", 1, name="hangs"), mcp_session_id=session)
            await call.until(1)
            assert (await house.call(session, "plain", 1)).status == 400
            house.servers[0].say({"id": 1, "result": {}})
            await call.until(2)
            assert (await house.call(session, "plain", 1)).status == 200

    asyncio.run(check())


def test_a_request_that_is_cancelled_gets_an_answer_that_ends_its_stream(tmp_path: Path) -> None:
    """Clients come back to a stream without an end again and again."""

    async def check(mode: Mode) -> None:
        async with house_at(tmp_path, mode, answer) as house:
            session = await house.begin()
            call = house.open("POST", request("tools/call", 1, name="hangs"), mcp_session_id=session)
            await call.until(1)
            cancel = request("notifications/cancelled", requestId=1)
            assert (await house.ask("POST", cancel, mcp_session_id=session)).status == 202
            assert (await call.until(2))[1]["error"]["code"] == -32800
            await until(lambda: call.is_whole)

    asyncio.run(check(Mode.RECORD))
    asyncio.run(check(Mode.REPLAY))


def test_no_clock_has_a_hand_in_a_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the machine is slow: a document stays one, and a call that waits for its client is a stream
    from the start."""

    async def check(mode: Mode) -> list[tuple[str, bytes]]:
        async with house_at(tmp_path, mode, answer) as house:
            session = await house.begin()
            short = await house.call(session, "plain", 1)
            given_up = house.open("POST", request("tools/call", 2, name="silent"), mcp_session_id=session)
            await until(lambda: len(house.servers[0].heard) == 3 if house.servers else given_up.status)
            cancel = request("notifications/cancelled", requestId=2)
            await house.ask("POST", cancel, mcp_session_id=session)
            await until(lambda: given_up.is_whole)
            return [(one.headers["content-type"], one.body) for one in (short, given_up)]

    asyncio.run(check(Mode.RECORD))
    replays = []
    for patience in (0, 0.2, 60):
        monkeypatch.setattr(door_module, "_PATIENCE_S", patience)
        replays.append(asyncio.run(check(Mode.REPLAY)))

    assert replays[0] == replays[1] == replays[2]
    assert [kind for kind, _ in replays[0]] == ["application/json", "text/event-stream"]


def test_the_ids_of_events_do_not_depend_on_other_requests(tmp_path: Path) -> None:
    async def check(mode: Mode, *ids: int | str) -> list[list[str]]:
        async with house_at(tmp_path, mode, answer) as house:
            session = await house.begin()
            told = {}
            for about in ids:
                body = request("tools/call", about, name="progress")
                told[about] = await house.ask("POST", body, mcp_session_id=session)
            return [[event.id for event in told[about].events] for about in (1, 2, "2", "a\nb" * 99)]

    first = asyncio.run(check(Mode.RECORD, 1, 2, "2", "a\nb" * 99))

    assert asyncio.run(check(Mode.REPLAY, "a\nb" * 99, "2", 2, 1)) == first
    assert len({event for events in first for event in events}) == 16
    assert all(len(event) < 24 for events in first for event in events)


def test_a_client_that_takes_only_documents(tmp_path: Path) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin(accept="application/json")
            call = await house.call(session, "progress", 1, accept="application/json")
            assert call.json["result"] == {"content": "done"}

    asyncio.run(check())


def test_a_batch_is_answered_by_a_stream(tmp_path: Path) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            batch = [request("tools/call", 1, name="a"), request("tools/call", 2, name="b")]
            answers = await house.ask("POST", batch, mcp_session_id=session)
            assert {one["id"]: one["result"]["content"] for one in answers.messages} == {1: "a", 2: "b"}

    asyncio.run(check())


def test_a_flood_reaches_a_client_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than is kept: the server waits for the client, also on replay."""
    monkeypatch.setattr(streams, "_MOST_EVENTS", 100)

    async def check(mode: Mode) -> None:
        async with house_at(tmp_path, mode, answer) as house:
            session = await house.begin()
            call = await house.call(session, "flood", 1)
            assert [one["params"]["data"] for one in call.messages[:-1]] == list(range(300))

    asyncio.run(check(Mode.RECORD))
    asyncio.run(check(Mode.REPLAY))


def test_a_flood_for_a_client_that_has_left_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_MOST_EVENTS", 100)

    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            call = house.open("POST", request("tools/call", 1, name="silent"), mcp_session_id=session)
            await until(lambda: len(house.servers[0].heard) == 2)
            await call.leave()
            for number in range(300):
                house.servers[0].say({"method": "notifications/message", "params": {"data": number}})
            house.servers[0].say({"id": 1, "result": {"content": "late"}})
            assert (await house.call(session, "plain", 2)).messages[-1]["result"] == {"content": "plain"}
            rest = await house.ask("GET", mcp_session_id=session, last_event_id="r1-201")
            assert rest.messages[-1]["result"] == {"content": "late"}

    asyncio.run(check())


def test_what_nobody_reads_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MOST_EVENTS", 100)

    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            for number in range(300):
                house.servers[0].say({"method": "notifications/message", "params": {"data": number}})
            await let_others_run()
            await house.call(session, "plain", 1)
            stream = house.open("GET", mcp_session_id=session)
            told = [one["params"]["data"] for one in await stream.until(100)]
            assert told == list(range(200, 300))
            gone = await house.ask("GET", mcp_session_id=session, last_event_id="0-5")
            assert gone.status == 400

    asyncio.run(check())


def test_there_are_only_so_many_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was idle longest makes room; one that waits for something does not."""
    monkeypatch.setattr(door_module, "_MOST_VISITORS", 2)

    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            first, second = await house.begin(), await house.begin()
            busy = [
                house.open("POST", request("tools/call", 1, name="hangs"), mcp_session_id=one)
                for one in (first,)
            ]
            await busy[0].until(1)
            third = await house.begin()
            assert (await house.call(second, "plain", 1)).status == 404
            streams = [house.open("GET", mcp_session_id=one) for one in (first, third)]
            await until(lambda: all(stream.status for stream in streams))
            full = await house.ask("POST", request("initialize", 0, protocolVersion="2025-11-25"))
            assert full.status == 503

    asyncio.run(check())


def test_a_session_that_did_not_begin_is_none(tmp_path: Path) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer):
            pass
        async with house_at(tmp_path, Mode.REPLAY) as house:
            miss = await house.ask("POST", request("initialize", 0, protocolVersion="2025-11-25"))
            assert miss.json["error"]["code"] == NO_FIXTURE
            assert (await house.call(miss.headers["mcp-session-id"], "plain", 1)).status == 404

    asyncio.run(check())


def test_a_session_that_ends_before_it_has_begun(tmp_path: Path) -> None:
    """Its server is silent, and the gateway stops."""

    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD) as house:
            opening = house.open("POST", request("initialize", 0, protocolVersion="2025-11-25"))
            await until(lambda: house.servers)
        assert opening.task is not None
        await asyncio.wait_for(opening.task, 10)
        assert (opening.is_whole, opening.messages) == (True, [])

    asyncio.run(check())


def test_a_miss_is_an_answer(tmp_path: Path) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            await house.begin()
        async with house_at(tmp_path, Mode.REPLAY) as house:
            session = await house.begin()
            miss = await house.call(session, "plain", 1)
            assert (miss.status, miss.json["error"]["code"]) == (200, NO_FIXTURE)
            assert house.servers == []

    asyncio.run(check())


def modern(method: str, id: int | None = 1, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:  # noqa: A002
    message = request(method, id, **params, _meta=VERSION)
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": method}
    return message, headers | ({"mcp_name": params["name"]} if "name" in params else {})


def test_requests_that_stand_alone_need_no_session(tmp_path: Path) -> None:
    async def check(mode: Mode) -> None:
        async with house_at(tmp_path, mode, answer) as house:
            message, headers = modern("tools/call", name="plain")
            alone = await house.ask("POST", message, **headers)
            assert (alone.status, alone.json["result"]) == (200, {"content": "plain"})
            assert "mcp-session-id" not in alone.headers
            message, headers = modern("tools/call", name="progress")
            stream = await house.ask("POST", message, **headers)
            assert len(stream.messages) == 4
            assert {event.id for event in stream.events} == {""}
            message, headers = modern("unknown")
            assert (await house.ask("POST", message, **headers)).status == 404
            message, headers = modern("notifications/cancelled", None)
            assert (await house.ask("POST", message, **headers)).status == 202
            for method in ("GET", "DELETE"):
                only = await house.ask(method, mcp_protocol_version="2026-07-28")
                assert (only.status, only.headers["allow"]) == (405, "POST")

    asyncio.run(check(Mode.RECORD))
    asyncio.run(check(Mode.REPLAY))


@pytest.mark.parametrize("header", ["mcp_protocol_version", "mcp_method", "mcp_name"])
def test_headers_that_say_something_else_are_refused(tmp_path: Path, header: str) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            message, headers = modern("tools/call", name="plain")
            for wrong in (headers | {header: "other"}, {**headers, header: ""}):
                refused = await house.ask("POST", message, **wrong)
                assert (refused.status, refused.json["error"]["code"], refused.json["id"]) == (400, -32020, 1)
            assert house.servers == []

    asyncio.run(check())


def test_a_version_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            unknown = await house.call(session, "plain", 1, mcp_protocol_version="1999-01-01")
            assert unknown.status == 400

    asyncio.run(check())


def test_closing_the_connection_cancels_a_request_that_stands_alone(tmp_path: Path) -> None:
    """It is recorded as cancelled, and the replay is silent from there on."""

    async def check(mode: Mode) -> None:
        async with house_at(tmp_path, mode, answer) as house:
            message, headers = modern("tools/call", name="hangs")
            call = house.open("POST", message, **headers)
            await call.until(1)
            await let_others_run()
            assert not call.is_whole
            await call.leave()
            if mode.asks:
                heard = [one["method"] for one in house.servers[0].heard]
                assert heard == ["tools/call", "notifications/cancelled"]
            assert house.run.ledger.misses == []

    asyncio.run(check(Mode.RECORD))
    asyncio.run(check(Mode.REPLAY))


def test_leaving_does_not_cancel_in_a_session(tmp_path: Path) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            call = house.open("POST", request("tools/call", 1, name="hangs"), mcp_session_id=session)
            await call.until(1)
            await call.leave()
            house.servers[0].say({"id": 1, "result": {"content": "late"}})
            await let_others_run()
            assert [one["method"] for one in house.servers[0].heard] == ["initialize", "tools/call"]
        async with house_at(tmp_path, Mode.REPLAY) as house:
            session = await house.begin()
            assert (await house.call(session, "hangs", 1)).messages[-1]["result"] == {"content": "late"}

    asyncio.run(check())


def test_the_older_transport(tmp_path: Path) -> None:
    """And it replays what was recorded over the newer one."""

    async def record() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            await house.call(session, "progress", 2)

    async def replay() -> None:
        async with house_at(tmp_path, Mode.REPLAY) as house:
            stream = house.open("GET", part="sse")
            await until(lambda: stream.events)
            [endpoint] = stream.events
            path, _, query = endpoint.data.decode().partition("?")
            assert (endpoint.name, path) == ("endpoint", "/mcp/tools/messages")
            for message in (
                request("initialize", 1, protocolVersion="2025-11-25"),
                request("tools/call", 2, name="progress"),
            ):
                told = await house.ask("POST", message, part="messages", query=query)
                assert told.status == 202
            await until(lambda: len(stream.events) == 6)
            assert [event.name for event in stream.events[1:]] == ["message"] * 5
            await stream.leave()
            gone = await house.ask("POST", request("ping", 3), part="messages", query=query)
            assert gone.status == 404
            assert (await house.ask("POST", request("ping", 3), part="messages")).status == 400

    asyncio.run(record())
    asyncio.run(replay())


def test_the_headers_of_a_client_are_those_of_its_latest_request(tmp_path: Path) -> None:
    """A token may be renewed within a session."""

    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin(authorization="Bearer one")
            await house.call(session, "plain", 1, authorization="Bearer two", x_tenant="t")
            beside = house.brought[0].beside(routing={}, has_routing=False)
            assert beside == {"authorization": "Bearer two", "x-tenant": "t"}

    asyncio.run(check())


def test_streams_end_when_the_gateway_does(tmp_path: Path) -> None:
    async def check() -> None:
        async with house_at(tmp_path, Mode.RECORD, answer) as house:
            session = await house.begin()
            stream = house.open("GET", mcp_session_id=session)
            await until(lambda: stream.status)
            house.door.end_streams()
            with contextlib.suppress(asyncio.CancelledError):
                await until(lambda: stream.is_whole)

    asyncio.run(check())
