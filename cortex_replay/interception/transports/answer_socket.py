"""A socket that leads nowhere: what is written to it is a request, and what is read is its answer.

So everything that a library does above its socket is its own: it parses, retries, follows, decodes and fails
as it always does.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from cortex_replay.engine.bypass import bypassing
from cortex_replay.engine.http.call import Call
from cortex_replay.interception.transports.active import Found
from cortex_replay.interception.transports.answers import SyncReply
from cortex_replay.interception.transports.http1 import SentRequest, sync_bytes

__all__ = ["AnswerSocket"]


class AnswerSocket:
    """The socket of one request of a connection of :mod:`http.client`.

    Args:
        found: Who answers it.
        connection: Whose socket it is.
        connect: Gives that connection its real socket, for a request that turns out to ask no model.
    """

    def __init__(self, found: Found, connection: Any, connect: Callable[[], object]) -> None:
        self._found = found
        self._connection = connection
        self._connect = connect
        self._sent = SentRequest()

    @classmethod
    def put(cls, found: Found, connection: Any, connect: Callable[[], object]) -> None:
        """Give a connection such a socket instead of the one that it may have."""
        before, connection.sock = connection.sock, cls(found, connection, connect)
        if before is not None:
            before.close()

    @classmethod
    def is_at(cls, connection: Any) -> bool:
        """Whether a connection has one already, for the request that it is about to write."""
        return isinstance(connection.sock, cls) and connection.sock.is_new

    @property
    def is_new(self) -> bool:
        """Whether nothing was written to it yet."""
        return not self._sent.written

    def sendall(self, data: Any) -> None:
        self._sent.feed(bytes(data))

    def makefile(self, mode: str = "rb", *_: object) -> Any:
        """What a client reads from, now that all of its request is written."""
        call = self._found.call(self._sent.body) if self._sent.is_http else None
        if call is not None:
            return io.BufferedReader(_AnswerFile(self._found, call))
        self._connection.sock = None
        with bypassing() if self._sent.is_http else nullcontext():  # else the guard says what it is
            self._connect()
            real = self._connection.sock
            real.sendall(bytes(self._sent.written))
        return real.makefile(mode)

    def settimeout(self, _: object) -> None:
        """There is nothing to wait for, but for the server that is asked: it has its own limit."""

    def close(self) -> None:
        """What reads from it has an end of its own."""

    def shutdown(self, _: object) -> None:
        self.close()


class _AnswerFile(io.RawIOBase):
    """The bytes of an answer, from the first read on: where a broken socket would raise, so does this."""

    def __init__(self, found: Found, call: Call) -> None:
        self._found = found
        self._call = call
        self._answer: SyncReply | None = None
        self._bytes: Iterator[bytes] = iter(())
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._answer is None:
            self._answer = SyncReply.to(self._found.interception, self._call)
            self._bytes = sync_bytes(self._answer, self._call.method)
        while not self._rest:
            try:
                self._rest = next(self._bytes)
            except StopIteration:
                return 0
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def close(self) -> None:
        if self._answer is not None and self._answer.live is not None:
            self._answer.live.close()
        super().close()
