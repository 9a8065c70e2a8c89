"""HTTP as the gateway speaks it: uvicorn's protocol, with limits on what a client may hold."""

from __future__ import annotations

import asyncio
import re
from itertools import chain
from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cortex_replay.gateway.closing import CLOSE, HELD, close_transport
from cortex_replay.gateway.visits import VISIT, Visit

__all__ = ["Protocol"]

_HEAD_S: Final = 10.0
"""How long a client may take to send its headers."""
_MOST_HEAD_BYTES: Final = 128 * 1024
_MOST_CONNECTIONS: Final = 512
_MOST_UNREAD_BYTES: Final = 32 * 2**20
_MOST_AHEAD: Final = 64
"""How many calls a connection may bring before the first of them is answered."""
_UPGRADE: Final = re.compile(rb"\A((?:(?:(?!\r\n\r\n).)*?\r\n)?)(upgrade[ \t]*:)", re.IGNORECASE | re.DOTALL)
"""In the head of a request. The parser would stop behind it and lose the body."""
_TO_WEBSOCKET: Final = re.compile(rb"(?:\A|\r\n)upgrade[ \t]*:[ \t]*websocket[ \t]*\r\n", re.IGNORECASE)
"""The one upgrade that is made; there is no body with it."""


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol with a limit on connections, and on the time and size of a request's head."""

    _deadline: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _is_in_head = True
    _is_behind_chunk_head = False
    _has_come_body = False
    _has_large_body = False
    _is_get = False
    _has_line = False
    """Whether a line of the head was read."""
    _unread_bytes = 0
    visit: Visit | None = None
    """Whom the client addressed, if it came through the proxy."""
    first = b""
    """What the proxy has read already."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._line = bytearray()
        """What has come of a line of the head that has not ended."""
        self._await_head()
        if len(self.connections) > _MOST_CONNECTIONS:
            self._make_room()
        if self.first:
            self.data_received(self.first)

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        cycle = getattr(self, "cycle", None)  # uvicorn's type does not say that there is none at first
        return cycle is None or cycle.response_complete

    def _make_room(self) -> None:
        """Close a connection that asks for nothing, else one whose body does not come, that wants no answer
        or does not read it, else this one."""
        others = [(c, c.cycle) for c in self.connections if isinstance(c, Protocol) and c is not self]
        idle = (c for c, _ in others if c.is_idle)
        slow = (c for c, cycle in others if cycle.more_body)
        held = (c for c, cycle in others if HELD in cycle.scope or c.flow.write_paused)
        leaving = next(chain(idle, slow, held), self).transport
        if leaving.get_write_buffer_size():  # it would stay until somebody reads that
            leaving.abort()
        else:
            leaving.close()

    def _await_head(self) -> None:
        self._is_in_head = True
        self._head_bytes = 0
        self._deadline = self.loop.call_later(_HEAD_S, self.transport.close)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_large_body = False
        self._unread_bytes = 0
        self.scope[CLOSE] = self.close_connection  # type: ignore[typeddict-unknown-key]
        if self.visit is not None:
            self.scope[VISIT] = self.visit  # type: ignore[typeddict-unknown-key]
        if self._deadline is None:
            self._await_head()

    def close_connection(self, *, is_hard: bool) -> None:
        close_transport(self.transport, is_hard=is_hard)

    def _should_upgrade_to_ws(self) -> bool:
        """Whether a WebSocket may take the connection over: nothing else is under way on it."""
        return self._is_get and self.is_idle

    def handle_websocket_upgrade(self) -> None:
        # Most gateways see none, and it takes longer to load than to answer a call.
        from cortex_replay.gateway.websocket_protocol import WebSocketProtocol  # noqa: PLC0415

        self.ws_protocol_class = WebSocketProtocol
        super().handle_websocket_upgrade()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if not self.url.startswith(b"/"):  # that is how one asks a proxy
            raise httptools.HttpParserError("the target is not a path")
        if len(self.pipeline) >= _MOST_AHEAD:  # each is kept until its turn comes
            raise httptools.HttpParserError("too many calls in advance")
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        super().on_headers_complete()
        if self._has_large_body:  # it may wait outside until somebody wants to read it
            self.flow.pause_reading()

    def on_chunk_header(self) -> None:
        self._is_behind_chunk_head = True

    def on_body(self, body: bytes) -> None:
        self._is_behind_chunk_head = False
        self._has_come_body = True
        if self.cycle.response_complete:  # whoever was refused may go on for a while, so as to see why
            self._unread_bytes += len(body)
            if self._unread_bytes > _MOST_UNREAD_BYTES:
                self.transport.close()
            return
        super().on_body(body)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            super().on_header(name, value)
            lowered = self.headers[-1][0]
            if lowered == b"transfer-encoding" or (lowered == b"content-length" and len(value) > 4):
                self._has_large_body = True
        else:  # behind a body: nobody needs them
            self._head_bytes += len(name) + len(value)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_head = True
        self._is_behind_chunk_head = self._has_line = False
        self._head_bytes = 0

    def _take_lines(self, data: bytes) -> bytes:
        """What of a head may be read: whole lines, so that no header is cut in two; and what follows it."""
        if not self._line and b"\r\n\r\n" in data:  # as nearly all come
            return data
        is_end = self._has_line and (self._line[:2] + data[:2]).startswith(b"\r\n")
        whole = is_end or b"\r\n\r\n" in self._line[-3:] + data
        is_request = self._has_line or (self._line or data)[:1].isupper()
        end = len(data) if whole or not is_request else data.rfind(b"\n") + 1
        if not end:
            self._line += data
            return b""
        lines = bytes(self._line) + data[:end]
        self._line = bytearray(data[end:])
        return lines

    def data_received(self, data: bytes) -> None:
        if self._is_in_head:
            self._head_bytes += len(data)
            data = self._take_lines(data)
            if not self._has_line and data:
                self._is_get = data.startswith(b"GET ")
            self._has_line = self._has_line or bool(data)
            has_upgrade = b"pgrade" in data or b"PGRADE" in data
            if has_upgrade and not (self._is_get and _TO_WEBSOCKET.search(data)):
                data = _UPGRADE.sub(rb"\1x-\2", data)
        was_behind_chunk_head = self._is_behind_chunk_head
        self._has_come_body = False
        if data:
            super().data_received(data)
        if was_behind_chunk_head and self._is_behind_chunk_head and not self._has_come_body:
            self._head_bytes += len(data)  # nothing of a chunk: these are headers behind the last one
        if self._head_bytes > _MOST_HEAD_BYTES:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)
