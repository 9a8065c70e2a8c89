"""A provider in this process that says exactly what a test wants, byte by byte, and misbehaves on order.

It is a raw socket server, because most of what can go wrong (a cut stream, a lie about the length,
a compressed bomb) is what an HTTP library would not let a test say.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

Script = Callable[["Exchange"], Awaitable[None]]


@dataclass
class Received:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Exchange:
    """One connection's turn: what was asked, and the means to answer."""

    def __init__(self, received: Received, writer: asyncio.StreamWriter, provider: FakeProvider) -> None:
        self.received = received
        self.provider = provider
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in (headers or {}).items())]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def whole(
        self, body: bytes, status: int = 200, content_type: str = "application/json", **headers: str
    ) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        length = str(len(body))
        await self.head(status, {"content-type": content_type, "content-length": length} | named)
        await self.send(body)

    async def start_stream(self, content_type: str = "text/event-stream", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.head(200, {"content-type": content_type, "transfer-encoding": "chunked"} | named)

    async def piece(self, data: bytes) -> None:
        if data:  # an empty one would be the end
            await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        await self.send(b"0\r\n\r\n")

    def reset(self) -> None:
        self._writer.transport.abort()

    async def until_closed(self) -> None:
        """Wait until the client goes away."""
        while not self._writer.transport.is_closing():
            await asyncio.sleep(0.005)


@dataclass(repr=False)  # it has seen keys
class FakeProvider:
    """Answers each request with the next script, the last one again and again."""

    scripts: list[Script]
    received: list[Received] = field(default_factory=list)
    url: str = ""
    closed_early: int = 0
    """How many connections the client left in the middle of an answer."""
    sent: int = 0
    """Whatever a script wants to count."""
    kept: dict[str, Any] = field(default_factory=dict)
    """Whatever a script wants to keep."""
    _tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """At once, so that every connection is known, and closed in the end."""
        self._tasks[asyncio.create_task(self._serve(reader, writer))] = writer

    async def close(self) -> None:
        """Close all connections, also those whose task has not begun."""
        for task, writer in self._tasks.items():
            task.cancel()
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (received := await _read_request(reader)) is not None:
                self.received.append(received)
                script = self.scripts[min(len(self.received), len(self.scripts)) - 1]
                watch = asyncio.create_task(_watch(reader, writer))
                try:
                    await script(Exchange(received, writer, self))
                except ConnectionError:
                    self.closed_early += 1
                    return
                finally:
                    watch.cancel()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Notice that the client has left, while a script is not writing."""
    while not reader.at_eof():
        await asyncio.sleep(0.005)
    writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (ln.partition(":") for ln in lines if ln)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method, path, headers, body)


@asynccontextmanager
async def serving(*scripts: Script) -> AsyncIterator[FakeProvider]:
    """A provider in the running loop."""
    provider = FakeProvider(list(scripts))
    server = await asyncio.start_server(provider.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    provider.url = f"http://127.0.0.1:{port}"
    try:
        yield provider
    finally:
        server.close()
        await provider.close()


@contextmanager
def serving_in_thread(*scripts: Script) -> Iterator[FakeProvider]:
    """A provider with a loop of its own, for tests of the synchronous face."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    context = serving(*scripts)
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def whole(
    body: bytes | dict[str, Any], status: int = 200, content_type: str = "application/json", **headers: str
) -> Script:
    """A script that gives one whole answer."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def script(exchange: Exchange) -> None:
        await exchange.whole(raw, status, content_type, **headers)

    return script


def stream(pieces: Iterable[bytes], content_type: str = "text/event-stream", *, ends: bool = True) -> Script:
    """A script that streams; one that does not end cuts the connection instead."""
    given = list(pieces)

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream(content_type)
        for piece in given:
            await exchange.piece(piece)
        if ends:
            await exchange.end_stream()
        else:
            exchange.reset()

    return script


def held_back(first: bytes, rest: Iterable[bytes], may_end: threading.Event) -> Script:
    """A stream whose first piece comes at once, and the others when they may."""

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.piece(first)
        await asyncio.to_thread(may_end.wait)
        for piece in rest:
            await exchange.piece(piece)
        await exchange.end_stream()

    return script


async def silence(exchange: Exchange) -> None:
    """Never answer."""
    await exchange.until_closed()


async def hang_up(exchange: Exchange) -> None:
    """Close the connection instead of answering."""
    exchange.reset()
