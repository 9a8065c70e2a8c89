"""MCP at a gateway with sockets: who is let in, and a recording made over HTTP from both sides."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from cortex_replay import Store
from cortex_replay.config import Settings
from cortex_replay.config.provider import ProviderSettings
from cortex_replay.gateway import Gateway
from cortex_replay.gateway.mcp import door
from cortex_replay.modes import Mode
from cortex_replay.run import Run
from tests.gateway.conftest import Opened, gateway_over
from tests.gateway.mcp.client import BOTH, house_at, request
from tests.gateway.mcp.test_door import answer
from tests.waiting import wait_until

KEY = "sk-live-" + "Zz9Yy8Xx7Ww6" * 3


Clients = Callable[[str], "Client"]


class Client:
    """A client with a connection for each request."""

    def __init__(self, url: str, stack: contextlib.ExitStack) -> None:
        self._parts = urlsplit(url)
        self._stack = stack
        self.headers: dict[str, str] = {}

    def open(self, method: str, body: Any = None, path: str = "", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._parts.netloc, timeout=30)
        self._stack.callback(connection.close)
        given = {"Accept": BOTH, "Content-Type": "application/json", **self.headers}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body)
        connection.request(method, path or self._parts.path, data, given)
        return self._stack.enter_context(contextlib.closing(connection.getresponse()))

    def ask(self, method: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        response = self.open(method, body, **headers)
        return response.status, response.read()

    def begin(self) -> None:
        response = self.open("POST", request("initialize", 0, protocolVersion="2025-11-25"))
        assert response.status == 200, response.read()
        self.headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
        self.headers["MCP-Protocol-Version"] = "2025-11-25"

    def call(self, name: str, id: int) -> list[Any]:  # noqa: A002
        status, body = self.ask("POST", request("tools/call", id, name=name))
        assert status == 200, body
        if body.startswith(b"{"):
            return [json.loads(body)]
        data = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(one) for one in data if one]


@pytest.fixture
def client_of() -> Iterator[Callable[[str], Client]]:
    """Makes clients whose connections are closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda url: Client(url, stack)


def recorded_at(root: Path) -> None:
    """A recording of a few calls."""

    async def record() -> None:
        async with house_at(root, Mode.RECORD, answer) as house:
            session = await house.begin()
            await house.ask("POST", request("notifications/initialized"), mcp_session_id=session)
            for number, name in enumerate(("trailing", "plain", "progress"), start=1):
                await house.call(session, name, number)

    asyncio.run(record())


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"Origin": "http://evil.example"}, 403), ({"Host": "evil.example"}, 403)],
    ids=["no token", "a web page", "another name"],
)
def test_who_may_not_come_in_is_told_so(
    opened: Opened, client_of: Clients, headers: dict[str, str], status: int
) -> None:
    with opened("record") as gateway:
        client = client_of(f"http://{gateway.host}:{gateway.port}/mcp/tools")
        assert client.ask("POST", request("initialize", 0), **headers)[0] == status
        assert client.ask("GET", **headers)[0] == status


def test_a_body_may_not_be_larger_than_others(opened: Opened, client_of: Clients) -> None:
    with opened("record", max_body=1000) as gateway:
        client = client_of(gateway.url("mcp/tools"))
        assert client.ask("POST", request("initialize", 0, x="y" * 2000))[0] == 413


def test_there_is_no_such_place(opened: Opened, client_of: Clients) -> None:
    with opened("record") as gateway:
        assert client_of(gateway.url("mcp/tools/other")).ask("GET")[0] == 404
        assert b"mcp/NAME" in client_of(gateway.url("nothing")).ask("GET")[1]


def test_a_server_that_nobody_named_is_an_error_that_says_how(opened: Opened, client_of: Clients) -> None:
    with opened("record") as gateway:
        _, body = client_of(gateway.url("mcp/tools")).ask("POST", request("initialize", 0))
        assert "--upstream mcp:tools=URL" in json.loads(body)["error"]["message"]


def test_a_recording_from_a_server_over_http_replays_without_it(tmp_path: Path, client_of: Clients) -> None:
    """The server is a gateway that replays: what comes of its recording is equal to it."""
    recorded_at(tmp_path / "first")
    with gateway_over(tmp_path / "first") as server:
        provider = ProviderSettings(kind="mcp", base_url=server.url("mcp/tools"))
        run = Run(
            Settings(providers={"mine": provider}),
            "record",
            Store.open_or_create(tmp_path / "second"),
            environment={},
        )
        with Gateway(run).running() as gateway:
            client = client_of(gateway.url("mcp/mine"))
            client.headers["Authorization"] = f"Bearer {KEY}"
            client.begin()
            assert client.ask("POST", request("notifications/initialized"))[0] == 202
            before = [client.call(name, n) for n, name in enumerate(("trailing", "plain", "progress"), 1)]
            assert client.ask("DELETE")[0] == 200
            assert client.ask("GET")[0] == 404
        run.commit()
    assert run.ledger.recorded == 4
    with gateway_over(tmp_path / "second") as gateway:
        client = client_of(gateway.url("mcp/mine"))
        client.begin()
        assert [client.call(name, n) for n, name in enumerate(("trailing", "plain", "progress"), 1)] == before
        assert gateway.run.ledger.misses == []
    kept = b"".join(path.read_bytes() for path in (tmp_path / "second").rglob("*") if path.is_file())
    assert KEY.encode() not in kept


def test_a_server_is_asked_only_for_what_is_missing(tmp_path: Path, client_of: Clients) -> None:
    """In ``once``: nothing reaches it before, and then it is told first what the client has said."""
    recorded_at(tmp_path / "first")
    store = tmp_path / "second"
    with gateway_over(tmp_path / "first") as server:
        provider = ProviderSettings(kind="mcp", base_url=server.url("mcp/tools"))
        for mode, at_first, in_all in ((Mode.RECORD, 2, 2), (Mode.ONCE, 0, 3), (Mode.REPLAY, 0, 0)):
            settings = Settings(providers={"mine": provider})
            run = Run(settings, mode, Store.open_or_create(store), environment={})
            before = server.run.ledger.hits
            with Gateway(run).running() as gateway:
                client = client_of(gateway.url("mcp/mine"))
                client.begin()
                assert client.call("plain", 1)[-1]["result"] == {"content": "plain"}
                assert server.run.ledger.hits - before == at_first
                if mode is not Mode.RECORD:
                    assert client.call("progress", 2)[-1]["result"] == {"content": "done"}
            assert server.run.ledger.hits - before == in_all
            if run.mode.writes:
                run.commit()


def test_a_stream_that_breaks_on_replay_goes_on(
    tmp_path: Path, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client goes on from the event that it had last."""
    monkeypatch.setattr(door, "_PATIENCE_S", 0)
    recorded_at(tmp_path)
    with gateway_over(tmp_path) as gateway:
        client = client_of(gateway.url("mcp/tools"))
        client.begin()
        response = client.open("POST", request("tools/call", 2, name="progress"))
        first = b"".join(iter(response.readline, b"data: \n"))  # only where to go on from
        assert b"id: r2-0" in first
        response.close()
        status, rest = client.ask("GET", Last_Event_ID="r2-0")
        assert status == 200
        assert [line for line in rest.splitlines() if line.startswith(b"id: ")] == [
            b"id: r2-1",
            b"id: r2-2",
            b"id: r2-3",
            b"id: r2-4",
        ]


def test_the_older_transport_leads_back_by_the_way_that_the_client_came(
    opened: Opened, client_of: Clients
) -> None:
    with opened("record") as gateway:
        url = gateway.url("mcp/tools/sse", "a scope")
        stream = client_of(url).open("GET")
        assert stream.readline() == b"event: endpoint\n"
        endpoint = stream.readline().removeprefix(b"data: ").strip().decode()
        assert endpoint.startswith(f"{urlsplit(url).path.removesuffix('/sse')}/messages?session_id=")
        client = client_of(url)
        response = client.open("POST", request("ping", 1), endpoint)
        assert response.status == 202
        assert [stream.readline() for _ in range(3)][2] == b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n'


def test_an_open_stream_ends_well_when_the_gateway_stops(tmp_path: Path, client_of: Clients) -> None:
    recorded_at(tmp_path)
    with gateway_over(tmp_path) as gateway:
        client = client_of(gateway.url("mcp/tools"))
        client.begin()
        stream = client.open("GET")
        wait_until(lambda: stream.status == 200)
    assert stream.read() == b""
