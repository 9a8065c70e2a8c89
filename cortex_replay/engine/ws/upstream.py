"""Responses asked over a WebSocket, handed on as if they had come over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import orjson

from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.relay import Relay
from cortex_replay.engine.ws.responses import create_event, event_of_frame, is_last
from cortex_replay.errors import ResponseParse, Timeout, Transport

if TYPE_CHECKING:
    from cortex_replay.adapters.http import RelayReply
    from cortex_replay.adapters.http.sockets import UpgradeRefused, UpstreamSocket

__all__ = ["ResponsesUpstream"]

_TELLING: Final = (401, 429)
"""Refusals of an upgrade that are about the client; at others the same is asked over HTTP."""
_MAX_ANSWER: Final = 64 * 2**20
_WAIT_MS: Final = 600_000
"""How long a server may be silent in the middle of a response."""
_STREAM: Final = "text/event-stream"


class ResponsesUpstream:
    """Asks for the responses of one client over one WebSocket, since its server may know them by it alone.

    It is opened when something has to be asked. Where the server opens none, everything is asked over HTTP.

    Args:
        relay: Who has the keys.
        opening: The client's own upgrade.
    """

    def __init__(self, relay: Relay, opening: Call) -> None:
        self._relay = relay
        self._opening = opening
        self._socket: UpstreamSocket | None = None
        self._has_none = False

    @asynccontextmanager
    async def send(self, call: Call, environment: Mapping[str, str]) -> AsyncIterator[RelayReply]:
        """What the upstream answers to a body; see :meth:`Relay.send`."""
        from cortex_replay.adapters.http import RelayReply  # noqa: PLC0415 - replay needs no client

        before = self._socket
        opened = None if self._has_none else await self._open(environment)
        if opened is None:
            async with self._relay.send(call, environment) as reply:
                yield reply
            return
        if isinstance(opened, tuple):
            yield RelayReply(opened.status, opened.headers, _Whole(opened.body, "application/json"))
            return
        await self._relay.check_frame(call, call.body, environment)
        if opened is before:  # opening it was a turn
            await self._relay.take_turn(self._opening, environment)
        is_over = False
        try:
            await opened.send(create_event(call.body))
            frame = await _next(opened)
            status, body = _error_in(frame)
            if status:
                is_over = True
                yield RelayReply(status, [("content-type", "application/json")], _Whole(body, ""))
                return
            stream = _Frames(opened, frame)
            yield RelayReply(200, [("content-type", _STREAM)], stream)
            is_over = stream.is_over
        finally:
            if not is_over:  # what is still to come of it would be taken for the next answer
                await self.aclose()

    async def aclose(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.aclose()

    async def _open(self, environment: Mapping[str, str]) -> UpstreamSocket | UpgradeRefused | None:
        """The open socket, a refusal that the client should see, or nothing if there is no WebSocket."""
        if self._socket is not None and self._socket.close_frame is not None:
            await self.aclose()
        if self._socket is None:
            opened = await self._relay.open_socket(self._opening, environment)
            if isinstance(opened, tuple):
                self._has_none = opened.status not in _TELLING and opened.status < 500
                return None if self._has_none else opened
            self._socket = opened
        return self._socket


async def _next(socket: UpstreamSocket) -> str:
    try:
        async with asyncio.timeout(_WAIT_MS / 1000):
            message = await socket.receive()
    except TimeoutError:
        raise Timeout(_WAIT_MS) from None
    if message is None:
        raise Transport("the WebSocket was closed in the middle of a response")
    return message if isinstance(message, str) else message.decode(errors="replace")


def _error_in(frame: str) -> tuple[int, bytes]:
    """The status and body that an answer would have over HTTP, if a message is a refusal."""
    try:
        event = orjson.loads(frame)
    except orjson.JSONDecodeError:
        return 0, b""
    match event:
        case {"type": "error", "error": {**error}}:
            status = event.get("status")
            is_error = isinstance(status, int) and 400 <= status <= 599
            return int(status) if is_error else 400, orjson.dumps({"error": error})
    return 0, b""


class _Whole:
    """A body that is there."""

    def __init__(self, body: bytes, content_type: str) -> None:
        self._body = body
        self.content_type: Final = content_type

    async def read(self) -> bytes:
        body, self._body = self._body, b""
        return body

    async def read_all(self) -> bytes:
        return await self.read()

    async def aclose(self) -> None:
        pass


class _Frames:
    """The messages of one response as the body of a stream."""

    content_type: Final = _STREAM

    def __init__(self, socket: UpstreamSocket, first: str) -> None:
        self._socket = socket
        self._first: str | None = first
        self._size = 0
        self.is_over = False
        """Whether the last message of the response has come."""

    async def read(self) -> bytes:
        if self.is_over:
            return b""
        frame, self._first = self._first, None
        if frame is None:
            frame = await _next(self._socket)
        self._size += len(frame)
        if self._size > _MAX_ANSWER:
            raise ResponseParse(f"the answer is larger than {_MAX_ANSWER} bytes")
        self.is_over = is_last(frame)
        return event_of_frame(frame)

    async def read_all(self) -> bytes:
        pieces = []
        while data := await self.read():
            pieces.append(data)
        return b"".join(pieces)

    async def aclose(self) -> None:
        pass
