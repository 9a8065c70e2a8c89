"""uvicorn's WebSockets on our sockets; loaded with the first upgrade."""

from __future__ import annotations

from typing import Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from cortex_replay.gateway.closing import CLOSE, close_transport

__all__ = ["MOST_WEBSOCKETS", "WebSocketProtocol"]

MOST_WEBSOCKETS: Final = 128
"""Each stays open for as long as its client likes, and takes the place of other connections."""
_REFUSAL: Final = b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's protocol with a limit on connections, whose calls can close them in any way."""

    def handle_connect(self, event: Request) -> None:
        others = sum(isinstance(connection, WebSocketProtocol) for connection in self.connections)
        if others > MOST_WEBSOCKETS:
            self._refuse(b"503 Service Unavailable")
            return
        super().handle_connect(event)
        if not self.close_sent:
            self.scope[CLOSE] = self.close_connection  # type: ignore[typeddict-unknown-key]

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:  # it was no handshake, so there is nothing to close
            self._refuse(b"400 Bad Request")
            return
        super().handle_parser_exception()

    def close_connection(self, *, is_hard: bool) -> None:
        """Close without a close frame; hard, so that the client's system is told of a reset."""
        self.close_sent = True
        close_transport(self.transport, is_hard=is_hard)

    def _refuse(self, status: bytes) -> None:
        self.handshake_complete = self.close_sent = True
        self.transport.write(_REFUSAL % status)
        self.transport.close()
