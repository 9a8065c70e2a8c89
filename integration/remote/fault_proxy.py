"""A proxy before an S3 server, which answers as servers and networks do on a bad day.

It reads whole requests, and passes them on as they are, or else their signatures would be wrong.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import httpx

__all__ = ["FAULTS", "Exchange", "Fault", "FaultProxy", "start_fault_proxy"]

_LONGEST_HEAD: Final = 64 * 1024


@dataclass(slots=True)
class Exchange:
    """A request that is being answered."""

    method: str
    target: str
    head: bytes
    body: bytes
    client: asyncio.StreamWriter
    ask: Callable[[], Awaitable[tuple[bytes, bytes]]]
    """Passes the request on; the head and the body of what the server says."""
    stop: asyncio.Event
    """Set when the proxy is mended, or gone."""

    async def say(self, data: bytes) -> None:
        self.client.write(data)
        await self.client.drain()


Fault = Callable[[Exchange], Awaitable[None]]
"""Answers a request in its own way; the connection is closed after it."""


@dataclass(slots=True)
class FaultProxy:
    """A way to a server, as good as new until something is done to it."""

    endpoint: str
    requests: list[str] = field(default_factory=list)
    """The method and the path of all requests so far."""
    _faults: list[tuple[Fault, re.Pattern[str], range]] = field(default_factory=list)
    _seen: list[int] = field(default_factory=list)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None

    def add(self, fault: Fault, where: str = "", *, after: int = 0, times: int = 10**9) -> None:
        """Do something to requests whose ``METHOD /path?query`` matches a pattern.

        Args:
            fault: What is done.
            where: The pattern; all requests if it is empty.
            after: How many such requests are answered well first.
            times: How many are not, then.
        """
        self._faults.append((fault, re.compile(where), range(after, after + times)))
        self._seen.append(0)

    def mend(self) -> None:
        """Pass everything on again; what hangs is let go."""
        self._faults.clear()
        self._seen.clear()
        self.requests.clear()
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._let_go)

    def _let_go(self) -> None:
        self._stop.set()
        self._stop = asyncio.Event()

    def fault_for(self, line: str) -> Fault | None:
        """What is done to a request, which is counted."""
        self.requests.append(line)
        chosen = None
        for place, (fault, where, numbers) in enumerate(self._faults):
            if where.search(line):
                if chosen is None and self._seen[place] in numbers:
                    chosen = fault
                self._seen[place] += 1
        return chosen


@contextmanager
def start_fault_proxy(server: str) -> Iterator[FaultProxy]:
    """A proxy before the server of a URL, on a thread of this process, until the block ends."""
    ready: list[FaultProxy] = []
    started = threading.Event()
    ended: list[asyncio.Event] = []

    async def serve() -> None:
        upstream = httpx.URL(server)
        connections: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            connections.add(task)
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await _converse(proxy, upstream, reader, writer)
            connections.discard(task)
            writer.close()

        listening = await asyncio.start_server(connected, "127.0.0.1", 0, limit=_LONGEST_HEAD)
        host, port = listening.sockets[0].getsockname()
        proxy = FaultProxy(f"http://{host}:{port}")
        proxy._loop = asyncio.get_running_loop()  # noqa: SLF001
        end = asyncio.Event()
        ready.append(proxy)
        ended.append(end)
        started.set()
        await end.wait()
        listening.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    started.wait()
    proxy = ready[0]
    try:
        yield proxy
    finally:
        assert proxy._loop is not None  # noqa: SLF001
        proxy._loop.call_soon_threadsafe(ended[0].set)  # noqa: SLF001
        thread.join()


async def _converse(
    proxy: FaultProxy, upstream: httpx.URL, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the requests of one connection, until one is answered badly."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        if re.search(rb"\r\nexpect: *100-continue", head, re.IGNORECASE):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(_length(head))

        fault = proxy.fault_for(f"{method} {target}")
        last = fault is not None

        async def ask(
            head: bytes = head, body: bytes = body, method: str = method, last: bool = last
        ) -> tuple[bytes, bytes]:
            return await _ask(upstream, head, body, method, b"close" if last else b"keep-alive")

        if fault is not None:
            await fault(Exchange(method, target, head, body, writer, ask, proxy._stop))  # noqa: SLF001
            return
        answer_head, answer_body = await ask()
        writer.write(answer_head + answer_body)
        await writer.drain()


async def _ask(
    upstream: httpx.URL, head: bytes, body: bytes, method: str, connection: bytes
) -> tuple[bytes, bytes]:
    """One request on a connection of its own; the answer gets a length, whatever it came with."""
    reader, writer = await asyncio.open_connection(upstream.host, upstream.port)
    try:
        writer.write(_with_header(head, b"Connection", b"close") + body)
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        data = b"" if method == "HEAD" else await _body(reader, answer)
    finally:
        writer.close()
    if method != "HEAD":
        answer = _with_header(answer, b"Transfer-Encoding", b"")
        answer = _with_header(answer, b"Content-Length", b"%d" % len(data))
    return _with_header(answer, b"Connection", connection), data


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    if not re.search(rb"\r\ntransfer-encoding: *chunked", head, re.IGNORECASE):
        return await reader.readexactly(_length(head))
    pieces = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    return b"".join(pieces)


def _length(head: bytes) -> int:
    found = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return int(found[1]) if found else 0


def _with_header(head: bytes, name: bytes, value: bytes) -> bytes:
    """A head with another value of a header, or without it if there is no value."""
    kept = re.sub(rb"\r\n" + name + rb":[^\r]*", b"", head, flags=re.IGNORECASE)
    return kept[:-2] + name + b": " + value + b"\r\n\r\n" if value else kept


# --- What can go wrong -------------------------------------------------------------------------------------


def status(code: int, name: str, headers: str = "") -> Fault:
    """An error that the server has a name for."""

    async def fault(exchange: Exchange) -> None:
        text = f"<Error><Code>{name}</Code><Message>on demand</Message></Error>".encode()
        head = f"HTTP/1.1 {code} {name}\r\nContent-Type: application/xml\r\nContent-Length: {len(text)}\r\n"
        await exchange.say((head + headers + "Connection: close\r\n\r\n").encode() + text)

    return fault


async def reset(exchange: Exchange) -> None:
    """The connection breaks before anything is said."""
    _reset(exchange)


async def reset_halfway(exchange: Exchange) -> None:
    """The connection breaks in the middle of a body."""
    head, body = await exchange.ask()
    await exchange.say(head + body[: len(body) // 2])
    _reset(exchange)


async def hang(exchange: Exchange) -> None:
    """Nothing is said, and the connection stays."""
    await exchange.stop.wait()


async def stall(exchange: Exchange) -> None:
    """Half of a body comes, and the rest does not; the connection stays."""
    head, body = await exchange.ask()
    await exchange.say(head + body[: len(body) // 2])
    await exchange.stop.wait()


async def trickle(exchange: Exchange) -> None:
    """A body comes in many small pieces, slowly, and it is right."""
    head, body = await exchange.ask()
    await exchange.say(head)
    step = max(1, len(body) // 10)
    for start in range(0, len(body), step):
        await asyncio.sleep(0.02)
        await exchange.say(body[start : start + step])


async def truncate(exchange: Exchange) -> None:
    """A body ends before its length is reached."""
    head, body = await exchange.ask()
    await exchange.say(head + body[: len(body) // 2])


async def shorten(exchange: Exchange) -> None:
    """A body is cut, and its length says so: nothing but the hash can tell."""
    head, body = await exchange.ask()
    half = body[: len(body) // 2]
    await exchange.say(_with_header(head, b"Content-Length", b"%d" % len(half)) + half)


async def empty(exchange: Exchange) -> None:
    """An object without a byte."""
    head, _ = await exchange.ask()
    await exchange.say(_with_header(head, b"Content-Length", b"0"))


async def flip(exchange: Exchange) -> None:
    """One bit in the middle of a body is another."""
    head, body = await exchange.ask()
    changed = bytearray(body)
    if changed:
        changed[len(changed) // 2] ^= 1
    await exchange.say(head + bytes(changed))


async def bloat(exchange: Exchange) -> None:
    """A body has far more than it should."""
    head, body = await exchange.ask()
    size = 80 * 2**20
    with suppress(OSError):  # who reads need not read it all
        await exchange.say(_with_header(head, b"Content-Length", b"%d" % size))
        for _ in range(size // 2**20):
            await exchange.say((body or b"x")[:1] * 2**20)


def _reset(exchange: Exchange) -> None:
    connection = exchange.client.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange.client.transport.abort()


FAULTS: Final[dict[str, Fault]] = {
    "500": status(500, "InternalError"),
    "503 slow down": status(503, "SlowDown", "Retry-After: 1\r\n"),
    "403": status(403, "AccessDenied"),
    "no bucket": status(404, "NoSuchBucket"),
    "reset": reset,
    "reset halfway": reset_halfway,
    "hang": hang,
    "stall": stall,
    "truncated": truncate,
    "shortened": shorten,
    "empty": empty,
    "a bit flipped": flip,
    "bloated": bloat,
}
"""What keeps a command from doing its work; a body that is only slow does not."""
