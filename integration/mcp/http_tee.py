"""Stands between clients and a server over HTTP, and keeps each byte that a request is answered with."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import h11

__all__ = ["HttpTee", "teeing"]

_MOST_READ: Final = 65536
_ENDPOINT: Final = re.compile(rb"session_id=(\w+)")
_OF_A_CONNECTION: Final = (b"date", b"connection", b"transfer-encoding")
"""Headers that say nothing about an answer."""


class Answered(NamedTuple):
    """A request, and all that the server sent for it."""

    method: bytes
    target: bytes
    body: bytes
    after: bytes
    """The event that it goes on from."""
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    answer: bytes


class HttpTee:
    """What went over the connections to one server. A session's id is a new one each time, so it is left out.

    Args:
        own: Where it listens.
    """

    def __init__(self, own: str) -> None:
        self._own = own
        self._server = urlsplit("")
        self._connections: set[asyncio.Task[None]] = set()
        self._sessions: set[bytes] = set()
        self._kept: list[Answered] = []

    def lead_to(self, server: str) -> str:
        """The URL that stands for that of a server."""
        self._server = urlsplit(server)
        return self._server._replace(netloc=self._own).geturl()

    @property
    def answers(self) -> Counter[Answered]:
        """Each request with its answer. Which of two connections comes first is chance."""
        return Counter(
            one._replace(target=self._without_session(one.target), answer=self._without_session(one.answer))
            for one in self._kept
        )

    def _without_session(self, data: bytes) -> bytes:
        for session in self._sessions:
            data = data.replace(session, b"SESSION")
        return data

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A client connects."""
        self._connections.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def finish(self) -> None:
        """Wait until clients and server have closed their connections."""
        await asyncio.gather(*self._connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = h11.Connection(h11.SERVER)
        with contextlib.suppress(OSError, h11.RemoteProtocolError):
            while client.states[h11.CLIENT] is h11.IDLE:
                events = _events_of(client, reader)
                asked = await anext(events)
                if not isinstance(asked, h11.Request):
                    break
                body = b"".join([bytes(event.data) async for event in events if isinstance(event, h11.Data)])
                await self._answer(client, writer, asked, body)
                if client.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
                    client.start_next_cycle()
        writer.close()

    async def _answer(
        self, client: h11.Connection, writer: asyncio.StreamWriter, asked: h11.Request, body: bytes
    ) -> None:
        there, back = await asyncio.open_connection(self._server.hostname, self._server.port)
        server = h11.Connection(h11.CLIENT)
        given = [(name, value) for name, value in asked.headers if name not in (b"host", b"connection")]
        given += [(b"host", self._server.netloc.encode()), (b"connection", b"close")]
        for part in (
            h11.Request(method=asked.method, target=asked.target, headers=given),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            back.write(server.send(part) or b"")
        status, answer = 0, b""
        headers: tuple[tuple[bytes, bytes], ...] = ()
        try:
            async for event in _events_of(server, there):
                if isinstance(event, h11.Response):
                    status, headers = event.status_code, self._headers_of(event)
                elif isinstance(event, h11.Data):
                    answer += bytes(event.data)
                    self._sessions.update(_ENDPOINT.findall(bytes(event.data)))
                with contextlib.suppress(OSError):  # what a client that has left misses is kept here
                    writer.write(client.send(event) or b"")
                    await writer.drain()
        finally:
            back.close()
            after = dict(asked.headers).get(b"last-event-id", b"")
            self._kept.append(Answered(asked.method, asked.target, body, after, status, headers, answer))

    def _headers_of(self, response: h11.Response) -> tuple[tuple[bytes, bytes], ...]:
        headers = {name: value for name, value in response.headers if name not in _OF_A_CONNECTION}
        if b"mcp-session-id" in headers:
            self._sessions.add(headers[b"mcp-session-id"])
            headers[b"mcp-session-id"] = b"SESSION"
        return tuple(sorted(headers.items()))


async def _events_of(connection: h11.Connection, reader: asyncio.StreamReader) -> AsyncIterator[h11.Event]:
    """The events of one message of the peer."""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_MOST_READ))
            continue
        assert not isinstance(event, type)
        yield event
        if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return


@contextlib.contextmanager
def teeing() -> Iterator[HttpTee]:
    """A tee. Leave it when the server has ended, so that it has all that was sent."""
    ready, tees = threading.Event(), []
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        listener = socket.create_server(("127.0.0.1", 0))
        tee = HttpTee(f"127.0.0.1:{listener.getsockname()[1]}")
        async with await asyncio.start_server(tee.begin, sock=listener):
            tees.append(tee)
            stop.append(lambda: loop.call_soon_threadsafe(end.set))
            ready.set()
            await end.wait()
        await tee.finish()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield tees[0]
    finally:
        stop[0]()
        thread.join()
