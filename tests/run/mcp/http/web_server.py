"""A web server in the loop of a test, which does just what the test says."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from cortex_replay.mcp.events import Event, event_bytes

Handle = Callable[["Heard"], Awaitable[None]]


@dataclass
class Heard:
    """A request, and the way to answer it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}

    async def answer(self, status: int, body: Any = b"", **headers: str) -> None:
        """All of an answer; JSON unless it is bytes."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"content_type": "application/json"} | headers | {"content_length": str(len(data))}
        self._head(status, given)
        self.writer.write(data)
        await self.writer.drain()

    async def result(self, value: Any, **headers: str) -> None:
        """The answer to a request, as one document."""
        await self.answer(200, {"jsonrpc": "2.0", "id": self.json["id"], "result": value}, **headers)

    async def stream(self, **headers: str) -> None:
        """The head of a stream, which lasts until the connection ends."""
        self._head(200, {"content_type": "text/event-stream"} | headers)
        await self.writer.drain()

    async def event(
        self,
        message: Any,
        id: str = "",  # noqa: A002
        name: str = "message",
        retry: int | None = None,
    ) -> None:
        """One event of a stream."""
        data = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.writer.write(event_bytes(Event(data, name, id, retry)))
        await self.writer.drain()

    async def until_left(self) -> None:
        """Wait until the client closes the connection."""
        while await self.reader.read(1000):
            pass

    def _head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join([f"HTTP/1.1 {status} OK", *lines, "connection: close"])
        self.writer.write(f"{head}\r\n\r\n".encode())


class WebServer:
    """Hands each request to a function; every connection has one."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.heard: list[Heard] = []
        self.url = ""
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """At once, so that every connection is known, and closed in the end."""
        self._tasks[asyncio.create_task(self._serve(reader, writer))] = writer

    async def close(self) -> None:
        """Close all connections: one that nobody closes shows up as a warning in some later test."""
        for task, writer in self._tasks.items():
            task.cancel()
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.heard.append(Heard(method, target, headers, body, reader, writer))
            await self._handle(self.heard[-1])
        writer.close()


@contextlib.asynccontextmanager
async def serving(handle: Handle) -> AsyncIterator[WebServer]:
    web = WebServer(handle)
    server = await asyncio.start_server(web.accept, "127.0.0.1", 0)
    web.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield web
    finally:
        server.close()
        await web.close()
