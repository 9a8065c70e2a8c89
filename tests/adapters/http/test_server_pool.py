"""Connections to one server: used again while they are good, and closed when they are not."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpcore
import httpx
import pytest

from cortex_replay.adapters.http import Endpoint, HttpClient, server_pool
from cortex_replay.adapters.http.server_pool import ServerTransport


class _Connection(httpcore.AsyncConnectionInterface):
    """Answers each request with its own number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_open, self.is_done, self.is_stale, self.is_broken = True, True, False, False
        self.stops_before: str = ""
        """Where the call on it is cancelled: before it sends, or before it lets the answer go."""

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        assert self.is_open
        if self.stops_before == "sending":
            raise asyncio.CancelledError
        if self.is_broken:
            self.is_open = False
            raise httpcore.ReadError("broken")
        self.is_done = False
        return httpcore.Response(200, content=_Content(self))

    async def aclose(self) -> None:
        self.is_open = False

    def has_expired(self) -> bool:
        return self.is_stale

    def is_idle(self) -> bool:
        return self.is_open and self.is_done


class _Content:
    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"%d" % self._connection.number
        self._connection.is_done = True

    async def aclose(self) -> None:
        if self._connection.stops_before == "letting go":
            raise asyncio.CancelledError
        self._connection.is_open = self._connection.is_open and self._connection.is_done


class _Server:
    """A transport whose connections lead nowhere, and which knows all of them."""

    def __init__(self) -> None:
        self.transport = ServerTransport(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self.connections: list[_Connection] = []
        self.transport._pool.create_connection = self._connect  # type: ignore[method-assign, assignment]

    def _connect(self, _: httpcore.Origin) -> _Connection:
        self.connections.append(_Connection(len(self.connections)))
        return self.connections[-1]

    async def send(self) -> httpx.Response:
        return await self.transport.handle_async_request(httpx.Request("GET", "http://server.test/"))

    async def ask(self) -> int:
        """The number of the connection that answered."""
        response = await self.send()
        number = int(await response.aread())
        await response.aclose()
        return number

    async def ask_at_once(self, count: int) -> None:
        for response in [await self.send() for _ in range(count)]:
            await response.aread()
            await response.aclose()

    @property
    def open_numbers(self) -> list[int]:
        return [one.number for one in self.connections if one.is_open]


def _with_server(steps: Callable[[_Server], Awaitable[None]]) -> None:
    asyncio.run(steps(_Server()))  # type: ignore[arg-type]


def test_a_call_takes_the_connection_of_the_call_before() -> None:
    async def steps(server: _Server) -> None:
        assert [await server.ask() for _ in range(3)] == [0, 0, 0]

    _with_server(steps)


def test_calls_at_once_have_a_connection_each() -> None:
    async def steps(server: _Server) -> None:
        await server.ask_at_once(3)
        assert server.open_numbers == [0, 1, 2]
        assert await server.ask() == 2

    _with_server(steps)


def test_what_the_server_has_closed_meanwhile_is_not_used() -> None:
    async def steps(server: _Server) -> None:
        await server.ask_at_once(3)
        server.connections[1].is_stale = server.connections[2].is_stale = True

        assert await server.ask() == 0
        assert server.open_numbers == [0]

    _with_server(steps)


def test_an_answer_that_is_left_halfway_takes_its_connection_along() -> None:
    async def steps(server: _Server) -> None:
        await (await server.send()).aclose()

        assert await server.ask() == 1
        assert server.open_numbers == [1]

    _with_server(steps)


def test_a_connection_that_broke_is_not_used_again() -> None:
    async def steps(server: _Server) -> None:
        await server.ask()
        server.connections[0].is_broken = True

        with pytest.raises(httpx.ReadError, match="broken"):
            await server.ask()
        assert await server.ask() == 1
        await server.transport.aclose()

    _with_server(steps)


@pytest.mark.parametrize("moment", ["sending", "letting go"])
def test_a_call_that_is_cancelled_leaves_no_connection_open(moment: str) -> None:
    async def steps(server: _Server) -> None:
        await server.ask()
        server.connections[0].stops_before = moment

        with pytest.raises(asyncio.CancelledError):
            await (await server.send()).aclose()
        assert server.open_numbers == []
        assert await server.ask() == 1

    _with_server(steps)


def test_only_a_few_are_kept_to_spare() -> None:
    async def steps(server: _Server) -> None:
        await server.ask_at_once(server_pool._MOST_SPARE + 2)
        assert server.open_numbers == list(range(2, server_pool._MOST_SPARE + 2))

    _with_server(steps)


def test_what_nobody_took_for_a_while_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(server: _Server) -> None:
        await server.ask_at_once(2)
        monkeypatch.setattr(time, "monotonic", lambda: now + server_pool._SPARE_S + 1)
        assert await server.ask() == 1  # which says itself whether it is too old
        assert server.open_numbers == [1]

    now = time.monotonic()
    _with_server(steps)


def test_closing_takes_every_connection_along() -> None:
    async def steps(server: _Server) -> None:
        await server.ask_at_once(2)
        under_way = await server.send()

        await server.transport.aclose()
        assert server.open_numbers == []
        await under_way.aclose()
        assert await server.ask() == 2  # none of those that were closed

    _with_server(steps)


def test_a_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def handle(pool: object, _: object) -> httpcore.Response:
        asked.append(type(pool))
        return httpcore.Response(200)

    async def call() -> None:
        client = HttpClient(Endpoint("http://server.test"))
        own = (await client._client()).client
        await own.get("http://server.test/")
        await client.aclose()

    monkeypatch.setattr(httpcore.AsyncHTTPProxy, "handle_async_request", handle)
    monkeypatch.setenv("http_proxy", "http://proxy.test:8080")
    asyncio.run(call())
    assert asked == [httpcore.AsyncHTTPProxy]
