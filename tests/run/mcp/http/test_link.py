"""MCP servers that are reached over HTTP, good ones and others."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.config import load_settings
from cortex_replay.engine.mcp.link import Said
from cortex_replay.errors import LlmError, Transport
from cortex_replay.redact.redactor import Redactor
from cortex_replay.run.mcp.http import link as link_module
from cortex_replay.run.mcp.http.link import HttpLink
from cortex_replay.run.mcp.http.server import ClientHeaders
from cortex_replay.run.mcp.http.servers import HttpServers
from tests.run.mcp.http.web_server import Handle, Heard, WebServer, serving
from tests.waiting import until

VERSION = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
KEY = "sk-live-" + "a1B2c3D4e5F6" * 3


def call(id: int = 1, **params: Any) -> dict[str, Any]:  # noqa: A002
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "x", **params}}


class Side:
    """What a session has of a link."""

    def __init__(self, link: HttpLink) -> None:
        self.link = link
        self._frames = link.frames()

    async def send(self, message: dict[str, Any]) -> None:
        await self.link.send(json.dumps(message).encode())

    async def next(self) -> Said:
        return await asyncio.wait_for(anext(self._frames), 10)

    async def ask(self, message: dict[str, Any]) -> Said:
        await self.send(message)
        return await self.next()

    async def result_of(self, message: dict[str, Any]) -> Any:
        said = await self.ask(message)
        assert said.problem == ""
        assert said.about == message["id"]
        return json.loads(said.frame)["result"]


@contextlib.asynccontextmanager
async def linked(
    handle: Handle, path: str = "/mcp", client: ClientHeaders | None = None, **options: Any
) -> AsyncIterator[tuple[Side, WebServer]]:
    async with serving(handle) as web:
        servers = HttpServers(
            load_settings(Path("/"), {}, {}).settings,
            {},
            {},
            options.pop("redactor", None) or Redactor,
            lambda _: None,
            options.pop("timeout_ms", 60_000),
        )
        servers.add("tools", web.url + path, **options)
        link = await servers.connect("tools", client or ClientHeaders())()
        assert isinstance(link, HttpLink)
        try:
            yield Side(link), web
        finally:
            await link.close()
            await servers.aclose()


async def session(heard: Heard) -> None:
    """A server with sessions, and no stream of its own."""
    if heard.method != "POST":
        await heard.answer(405 if heard.method == "GET" else 200)
    elif heard.json.get("method") == "initialize":
        await heard.result({"protocolVersion": "2025-06-18"}, mcp_session_id="s-1")
    elif "id" in heard.json:
        await heard.result({"path": heard.target})
    else:
        await heard.answer(202)


def test_a_session_is_named_with_its_version_and_ended() -> None:
    async def check() -> None:
        async with linked(session, "/mcp?tenant=1") as (side, web):
            assert await side.result_of(INITIALIZE) == {"protocolVersion": "2025-06-18"}
            await side.send(INITIALIZED)
            assert await side.result_of(call()) == {"path": "/mcp?tenant=1"}
        first, *others = web.heard
        assert "mcp-session-id" not in first.headers
        assert first.headers["accept"] == "application/json, text/event-stream"
        said = [
            (one.method, one.headers["mcp-session-id"], one.headers["mcp-protocol-version"]) for one in others
        ]
        # The stream is open before the server is told that it may speak.
        assert said == [(method, "s-1", "2025-06-18") for method in ("GET", "POST", "POST", "DELETE")]

    asyncio.run(check())


def test_what_a_stream_says_belongs_to_its_request() -> None:
    async def handle(heard: Heard) -> None:
        await heard.stream()
        await heard.event({"method": "notifications/message"}, "1")
        await heard.event({"id": "s", "method": "roots/list"}, "2")
        await heard.event({"id": heard.json["id"], "result": {}}, "3")
        await heard.until_left()

    async def check() -> None:
        async with linked(handle) as (side, _):
            await side.send(call(7))
            said = [await side.next() for _ in range(3)]
            assert [one.about for one in said] == [7, 7, 7]

    asyncio.run(check())


def test_a_stream_that_breaks_is_gone_on_with() -> None:
    """From its last event, also when it breaks again."""

    async def handle(heard: Heard) -> None:
        last = heard.headers.get("last-event-id", "")
        await heard.stream()
        if not last:
            await heard.event(b"", "e0", retry=0)
            await heard.event({"method": "notifications/message"}, "e1")
        elif last == "e1":
            await heard.event({"method": "notifications/progress"}, "e2")
        else:
            await heard.event({"id": 1, "result": {"last": last}}, "e3")

    async def check() -> None:
        async with linked(handle) as (side, web):
            await side.send(call())
            said = [await side.next() for _ in range(3)]
            assert [one.about for one in said] == [1, 1, 1]
            assert json.loads(said[2].frame)["result"] == {"last": "e2"}
            assert [one.method for one in web.heard] == ["POST", "GET", "GET"]

    asyncio.run(check())


async def cut(heard: Heard) -> None:
    await heard.stream()
    await heard.event({"method": "notifications/message"})


async def cut_for_good(heard: Heard) -> None:
    if heard.method == "POST":
        await heard.stream()
        await heard.event({"method": "notifications/message"}, "e1", retry=0)
    else:
        await heard.answer(400)


async def nothing_at_all(heard: Heard) -> None:
    heard.writer.close()


async def unauthorized(heard: Heard) -> None:
    await heard.answer(401, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}})


async def broken(heard: Heard) -> None:
    await heard.answer(500, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "disk full"}})


async def elsewhere(heard: Heard) -> None:
    await heard.answer(307, location="http://127.0.0.1:9/mcp")


async def page(heard: Heard) -> None:
    await heard.answer(200, b"<html>", content_type="text/html")


async def rubbish(heard: Heard) -> None:
    await heard.answer(200, b"{nonsense")


async def other_request(heard: Heard) -> None:
    await heard.answer(200, {"jsonrpc": "2.0", "id": 99, "result": {}})


async def large(heard: Heard) -> None:
    await heard.answer(200, b" " * 3000)


async def large_event(heard: Heard) -> None:
    await heard.stream()
    with contextlib.suppress(ConnectionError):
        while True:
            heard.writer.write(b"data: " + b"x" * 500 + b"\n")
            await heard.writer.drain()


@pytest.mark.parametrize(
    ("handle", "words"),
    [
        (cut, "ended its answer before it was whole, and names no event to go on from"),
        (cut_for_good, "the rest of an answer is not there"),
        (nothing_at_all, "broke"),
        (unauthorized, "does not let this call in (status 401)"),
        (broken, "answered with status 500: disk full"),
        (elsewhere, "a redirect (status 307), which is never followed"),
        (page, "'text/html', which is neither JSON nor a stream of events"),
        (rubbish, "what is no message of MCP"),
        (other_request, "answered another request"),
        (large, "larger than 2000 bytes"),
        (large_event, "larger than 2000 bytes"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_server_that_does_not_answer_as_it_should_ends_the_call_with_a_reason(
    handle: Handle, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only this call: it is a failure, and no answer that could be recorded."""
    monkeypatch.setattr(link_module, "MOST_FRAME", 2000)

    async def check() -> None:
        async with linked(handle) as (side, _):
            said = await side.ask(call(5))
            while not said.problem:
                said = await side.next()
            assert said.about == 5
            assert words in said.problem

    asyncio.run(check())


def test_a_server_that_is_not_there() -> None:
    async def check() -> None:
        servers = HttpServers(
            load_settings(Path("/"), {}, {}).settings,
            {"mcp:tools": "http://127.0.0.1:9/mcp"},
            {},
            Redactor,
            lambda _: None,
            1000,
        )
        side = Side(await servers.connect("tools", ClientHeaders())())  # type: ignore[arg-type]
        assert "cannot connect to http://127.0.0.1:9" in (await side.ask(call())).problem
        with pytest.raises(
            Transport, match=r"nothing says where the MCP server other is \(known: tools\); name it with"
        ):
            await servers.connect("other", ClientHeaders())()
        await side.link.close()

    asyncio.run(check())


def test_a_head_that_does_not_come() -> None:
    async def handle(heard: Heard) -> None:
        await heard.until_left()

    async def check() -> None:
        async with linked(handle, timeout_ms=50) as (side, _):
            assert "50 ms" in (await side.ask(call())).problem

    asyncio.run(check())


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_a_server_that_takes_nothing_holds_up_only_what_it_did_not_take(
    transport: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def handle(heard: Heard) -> None:
        if heard.method == "GET" and transport == "sse":
            await heard.stream()
            await heard.event(b"/messages", name="endpoint")
        await heard.until_left()

    async def check() -> None:
        async with linked(handle, transport=transport) as (side, web):
            await side.send(call(1))
            await side.send(call(2))
            await until(lambda: len([one for one in web.heard if one.method == "POST"]) == 2)
            monkeypatch.setattr(side.link, "_quick_ms", 50)  # not before: a loaded machine takes longer
            with pytest.raises(LlmError, match="50 ms"):
                await side.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})

    asyncio.run(check())


def test_a_stream_that_names_no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "_QUICK_MS", 50)

    async def handle(heard: Heard) -> None:
        await heard.stream()
        await heard.until_left()

    async def check() -> None:
        async with linked(handle, transport="sse") as (side, _):
            with pytest.raises(LlmError, match="50 ms"):
                await side.send(call())

    asyncio.run(check())


def test_a_session_that_the_server_forgot() -> None:
    async def handle(heard: Heard) -> None:
        if heard.json.get("method") == "tools/call":
            await heard.answer(404, {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "gone"}})
        else:
            await session(heard)

    async def check() -> None:
        async with linked(handle) as (side, web):
            await side.ask(INITIALIZE)
            assert "has forgotten this session" in (await side.ask(call())).problem
            with pytest.raises(Transport, match="begin a new one"):
                await side.next()
        assert [one.method for one in web.heard] == ["POST", "POST"]  # there is nothing to end

    asyncio.run(check())


def test_a_notification_that_is_not_taken() -> None:
    async def handle(heard: Heard) -> None:
        await heard.answer(500)

    async def check() -> None:
        async with linked(handle) as (side, _):
            with pytest.raises(LlmError, match="status 500"):
                await side.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})

    asyncio.run(check())


def test_the_stream_of_what_belongs_to_no_request_comes_back() -> None:
    async def handle(heard: Heard) -> None:
        if heard.method != "GET":
            await session(heard)
            return
        await heard.stream()
        last = heard.headers.get("last-event-id", "")
        await heard.event({"method": f"notifications/after-{last}"}, f"{last}x", retry=0)
        if len(last) > 2:
            await heard.until_left()

    async def check() -> None:
        async with linked(handle) as (side, _):
            await side.ask(INITIALIZE)
            await side.send(INITIALIZED)
            said = [await side.next() for _ in range(4)]
            assert [json.loads(one.frame)["method"] for one in said] == [
                f"notifications/after-{'x' * count}" for count in range(4)
            ]
            assert {one.about for one in said} == {None}

    asyncio.run(check())


def test_an_event_without_end_on_that_stream_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "MOST_FRAME", 2000)

    async def handle(heard: Heard) -> None:
        await (large_event(heard) if heard.method == "GET" else session(heard))

    async def check() -> None:
        async with linked(handle) as (side, _):
            await side.ask(INITIALIZE)
            await side.send(INITIALIZED)
            with pytest.raises(Transport, match="larger than 2000 bytes"):
                await side.next()

    asyncio.run(check())


def older(endpoint: str) -> Handle:
    """A server that knows only the older transport."""
    opened: list[Heard] = []

    async def handle(heard: Heard) -> None:
        if heard.method == "GET":
            await heard.stream()
            await heard.event(endpoint.encode(), name="endpoint")
            opened.append(heard)
            await heard.until_left()
        elif heard.target.startswith("/messages"):
            await heard.answer(202)
            if "id" in heard.json:
                await opened[-1].event({"id": heard.json["id"], "result": {"at": heard.target}})
        else:
            await heard.answer(404, b"Cannot POST", content_type="text/html")

    return handle


@pytest.mark.parametrize("transport", ["", "sse"])
def test_the_older_transport_is_found(transport: Any) -> None:
    async def check() -> None:
        async with linked(older("/messages?session_id=1"), "/sse", transport=transport) as (side, web):
            for number in (0, 1):
                said = await side.ask(call(number))
                assert said.about is None
                assert json.loads(said.frame)["result"] == {"at": "/messages?session_id=1"}
            await side.send(INITIALIZED)
            posts = [one.target for one in web.heard if one.method == "POST"]
            assert posts[:1] == (["/sse"] if not transport else ["/messages?session_id=1"])

    asyncio.run(check())


def test_an_endpoint_on_another_server_gets_nothing() -> None:
    async def check() -> None:
        async with linked(older("http://127.0.0.1:9/messages"), "/sse", transport="sse") as (side, web):
            with pytest.raises(Transport, match="names an endpoint on another server"):
                await side.send(call())
            assert [one.method for one in web.heard] == ["GET"]

    asyncio.run(check())


def test_an_endpoint_that_is_no_url_is_said_at_once() -> None:
    async def check() -> None:
        async with linked(older("http://["), "/sse", transport="sse") as (side, _):
            with pytest.raises(Transport, match="names an endpoint that is no URL"):
                await side.send(call())

    asyncio.run(check())


@pytest.mark.parametrize("headers", [{"x-token": "€"}, {"x-token": f"{KEY}\r\nx: 1"}, {"x token": KEY}])
def test_a_header_that_is_none_ends_the_call_without_being_quoted(headers: dict[str, str]) -> None:
    async def check() -> None:
        async with linked(session, headers=headers) as (side, web):
            problem = (await side.ask(INITIALIZE)).problem
            assert "headers" in problem
            assert KEY not in problem
            assert web.heard == []

    asyncio.run(check())


@pytest.mark.parametrize("event", ["€", "\x01 é", " x "])
def test_an_event_may_be_called_whatever_a_server_likes(event: str) -> None:
    async def handle(heard: Heard) -> None:
        await heard.stream()
        if heard.method == "GET":
            await heard.event({"id": 1, "result": {}})
        else:
            await heard.event(b"", event, retry=1)

    async def check() -> None:
        async with linked(handle) as (side, web):
            assert await side.result_of(call()) == {}
            sent = web.heard[1].headers["last-event-id"]
            assert sent.encode("latin-1").decode() == event.strip()

    asyncio.run(check())


def test_a_server_that_has_neither_transport() -> None:
    async def handle(heard: Heard) -> None:
        await heard.answer(404, b"no", content_type="text/plain")

    async def check() -> None:
        async with linked(handle) as (side, web):
            assert "there is no MCP server at this URL" in (await side.ask(INITIALIZE)).problem
            assert [one.method for one in web.heard] == ["POST", "GET"]

    asyncio.run(check())


def test_the_end_of_the_older_stream_is_the_end_of_the_session() -> None:
    async def handle(heard: Heard) -> None:
        await heard.stream()
        await heard.event(b"/messages", name="endpoint")
        await heard.event({"method": "notifications/message"})

    async def check() -> None:
        async with linked(handle, transport="sse") as (side, _):
            with contextlib.suppress(LlmError):
                await side.send(INITIALIZED)
            await side.next()
            with pytest.raises(Transport, match="has ended its stream"):
                await side.next()

    asyncio.run(check())


def test_requests_that_stand_alone() -> None:
    """They say in headers what they are, belong to no session, and an error of the protocol is an answer."""

    async def handle(heard: Heard) -> None:
        error = {"code": -32601, "message": "no such method"}
        await heard.answer(404, {"jsonrpc": "2.0", "id": None, "error": error})

    async def check() -> None:
        brought = ClientHeaders([("mcp-param-region", "eu"), ("mcp-session-id", "mine"), ("accept", "x")])
        async with linked(handle, client=brought) as (side, web):
            said = await side.ask(call(3, _meta=VERSION))
            assert json.loads(said.frame) == {
                "jsonrpc": "2.0",
                "id": 3,
                "error": {"code": -32601, "message": "no such method"},
            }
        [heard] = web.heard
        routing = {name: value for name, value in heard.headers.items() if name.startswith("mcp-")}
        assert routing == {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "x",
            "mcp-param-region": "eu",
        }

    asyncio.run(check())


def test_their_cancellation_is_the_end_of_their_connection() -> None:
    left = asyncio.Event()

    async def handle(heard: Heard) -> None:
        await heard.stream()
        await heard.event({"method": "notifications/message"})
        await heard.until_left()
        left.set()

    async def check() -> None:
        async with linked(handle) as (side, web):
            await side.ask(call(3, _meta=VERSION))
            cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
            await side.send(cancel)
            await asyncio.wait_for(left.wait(), 10)
            assert len(web.heard) == 1

    asyncio.run(check())


def test_calls_may_be_under_way_at_the_same_time() -> None:
    waiting: list[Heard] = []

    async def handle(heard: Heard) -> None:
        waiting.append(heard)
        await until(lambda: len(waiting) == 3)
        await heard.result({"n": heard.json["id"]})

    async def check() -> None:
        async with linked(handle) as (side, _):
            for number in range(3):
                await side.send(call(number))
            assert {(await side.next()).about for _ in range(3)} == {0, 1, 2}

    asyncio.run(check())


# Keys


def servers_of(folder: Path, text: str, environment: dict[str, str], redactor: Redactor) -> HttpServers:
    (folder / "cortex-replay.toml").write_text(text)
    settings = load_settings(folder, environment, {}).settings
    return HttpServers(settings, {}, environment, lambda: redactor, lambda _: None, 5000)


async def brought_to(servers: HttpServers, web: WebServer, **headers: str) -> dict[str, str] | str:
    """The headers that a server gets; or why it gets nothing."""
    side = Side(await servers.connect("tools", ClientHeaders(headers.items()))())  # type: ignore[arg-type]
    said = await side.ask(call())
    await side.link.close()
    await servers.aclose()
    return said.problem or web.heard[-1].headers


def test_the_key_of_a_provider_takes_the_place_of_the_clients(tmp_path: Path) -> None:
    async def check() -> None:
        async with serving(session) as web:
            text = f'[providers.tools]\nkind = "mcp"\nbase_url = "{web.url}/mcp"\nkey_env = "TOOLS_KEY"\n'
            servers = servers_of(tmp_path, text, {"TOOLS_KEY": KEY}, Redactor())
            got = await brought_to(servers, web, authorization="Bearer of-the-client-1234567890")
            assert isinstance(got, dict)
            assert got["authorization"] == f"Bearer {KEY}"

    asyncio.run(check())


def test_a_clients_own_key_passes_on_and_is_known_as_a_secret(tmp_path: Path) -> None:
    async def check() -> None:
        redactor = Redactor()
        async with serving(session) as web:
            text = f'[providers.tools]\nkind = "mcp"\nbase_url = "{web.url}/mcp"\n'
            servers = servers_of(tmp_path, text, {}, redactor)
            got = await brought_to(servers, web, authorization=f"Bearer {KEY}", cookie="a=b", origin="x")
            assert isinstance(got, dict)
            assert got["authorization"] == f"Bearer {KEY}"
            assert not {"cookie", "origin"} & got.keys()
        assert redactor.text(f"it is {KEY}")[1]

    asyncio.run(check())


def test_a_key_goes_to_no_server_that_a_repository_names_without_consent(tmp_path: Path) -> None:
    async def check() -> None:
        text = (
            '[providers.tools]\nkind = "mcp"\nbase_url = "https://mcp.example/mcp"\nkey_env = "TOOLS_KEY"\n'
        )
        servers = servers_of(tmp_path, text, {"TOOLS_KEY": KEY, "CI": "1"}, Redactor())
        async with serving(session) as web:
            got = await brought_to(servers, web)
            assert "you have not allowed it; nothing was sent" in str(got)
            plain = text.replace('key_env = "TOOLS_KEY"\n', "")
            servers = servers_of(tmp_path, plain, {"CI": "1"}, Redactor())
            got = await brought_to(servers, web, authorization=f"Bearer {KEY}")
            assert "wants to send the key that a client brings to https://mcp.example" in str(got)

    asyncio.run(check())


def test_headers_that_were_given_with_a_server_are_known_as_secrets() -> None:
    redactor = Redactor()

    async def check() -> None:
        given = {"X-Api-Key": KEY}
        async with linked(session, headers=given, redactor=lambda: redactor) as (side, web):
            await side.ask(call())
            assert web.heard[0].headers["x-api-key"] == KEY

    asyncio.run(check())
    assert KEY not in redactor.text(f"it is {KEY}")[0]
