"""Load on an HTTP server, from one thread and with next to no work of its own.

A client library takes longer for a call than a fast server does, and would be what is measured. Here
requests are bytes that were made before, and of an answer only its status and its end are looked for.
"""

from __future__ import annotations

import gc
import re
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from types import TracebackType
from typing import NamedTuple, Self

__all__ = ["Load", "answers", "drive", "rendered"]

_PATIENCE_S = 30
_HEAD_END = b"\r\n\r\n"
_LAST_CHUNK = b"\r\n0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SIZE_LINE = re.compile(rb"([0-9a-fA-F]+)[^\r]*\r\n")


class Load(NamedTuple):
    """What came of some load; times are seconds by the wall clock."""

    requests: int
    wall: float
    p50: float
    p99: float
    busy: float
    """The share of the time for which the generator itself was at work; near 1 it is what was measured."""

    @property
    def per_request(self) -> float:
        """The time between two answers, of whichever connection."""
        return self.wall / self.requests


def rendered(path: str, body: bytes) -> bytes:
    """A request as a client of some provider sends it."""
    lines = [
        f"POST {path} HTTP/1.1",
        "host: 127.0.0.1:PORT",
        "accept: application/json",
        "content-type: application/json",
        "user-agent: cortex-replay-bench",
        "authorization: Bearer nobody",
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _addressed(requests: Sequence[bytes], port: int) -> list[bytes]:
    """The requests with the port in their ``Host``, by which a careful server knows its clients."""
    return [request.replace(b"127.0.0.1:PORT", f"127.0.0.1:{port}".encode(), 1) for request in requests]


def drive(port: int, requests: Sequence[bytes], connections: int, *, seconds: float, count: int) -> Load:
    """Ask in turn, each connection again as soon as it has its answer.

    Args:
        port: Where the server listens, on this machine.
        requests: What to ask, over and over.
        connections: How many are kept open, and so how many requests are under way.
        seconds: After how long no more are sent.
        count: After how many no more are sent.
    """
    waiting = islice(cycle(_addressed(requests, port)), count)
    taken: list[float] = []
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        opened = [stack.enter_context(_Connection(port)) for _ in range(connections)]
        for connection in opened:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        gc.collect()
        clock = time.perf_counter
        busy, start = time.process_time(), clock()
        deadline = start + seconds
        open_count = sum(connection.ask(waiting) for connection in opened)
        while open_count:
            ready = selector.select(_PATIENCE_S)
            if not ready:
                raise TimeoutError(f"no answer in {_PATIENCE_S} s")
            for key, _ in ready:
                connection = key.data
                if connection.has_answer():
                    now = clock()
                    taken.append(now - connection.asked_at)
                    if now >= deadline or not connection.ask(waiting):
                        open_count -= 1
        wall, busy = clock() - start, time.process_time() - busy
    taken.sort()
    return Load(len(taken), wall, taken[len(taken) // 2], taken[len(taken) * 99 // 100], busy / wall)


def answers(port: int, requests: Sequence[bytes]) -> Iterator[bytes]:
    """The body of each answer, in order, asked for on one connection."""
    waiting = iter(_addressed(requests, port))
    with _Connection(port) as connection:
        connection.socket.settimeout(_PATIENCE_S)
        while connection.ask(waiting):
            while not connection.has_answer():
                pass
            yield connection.body()


class _Connection:
    """One kept-alive connection, with at most one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), _PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked_at = 0.0
        self._received = bytearray()
        self._body_at = 0
        self._end: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def ask(self, waiting: Iterator[bytes]) -> bool:
        """Send the next request, if there is one."""
        request = next(waiting, None)
        if request is None:
            return False
        self._received.clear()
        self._body_at, self._end = 0, None
        self.asked_at = time.perf_counter()
        self.socket.sendall(request)
        return True

    def has_answer(self) -> bool:
        """Read what is there, and tell whether that is all of the answer."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError(f"closed in the middle of an answer: {bytes(self._received[:500])!r}")
        received = self._received
        received += data
        if not self._body_at:
            end = received.find(_HEAD_END)
            if end < 0:
                return False
            self._body_at = end + len(_HEAD_END)
            if not received.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(f"an answer that is none: {bytes(received[:500])!r}")
            length = _LENGTH.search(received, 0, end)
            self._end = self._body_at + int(length[1]) if length else None
        if self._end is not None:
            return len(received) >= self._end
        return received.endswith(_LAST_CHUNK)

    def body(self) -> bytes:
        """The body of an answer that is all there."""
        if self._end is not None:
            return bytes(self._received[self._body_at : self._end])
        pieces, at = [], self._body_at
        while size := _SIZE_LINE.match(self._received, at):
            length = int(size[1], 16)
            pieces.append(bytes(self._received[size.end() : size.end() + length]))
            at = size.end() + length + 2
            if not length:
                break
        return b"".join(pieces)
