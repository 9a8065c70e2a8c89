"""WebSockets of clients: who may open one, and what serves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from cortex_replay.engine.http.call import HttpReply
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.render import error_reply
from cortex_replay.gateway.access import Access, Refusal

__all__ = ["WebSockets"]

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class WebSockets:
    """Lets clients open WebSockets, by the same rules as their calls.

    Args:
        engine: Who answers.
        access: Who may come in.
    """

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access

    async def serve(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one of them until it is closed."""
        await receive()
        await _deny(self._refusal(scope), send)

    def _refusal(self, scope: Message) -> HttpReply:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        entry = self._access.enter(scope["raw_path"].decode("latin-1"), headers)
        if isinstance(entry, Refusal):
            return error_reply(None, entry.status, f"cortex-replay: {entry.reason}", "permission_error")
        reason = f"cortex-replay: there is no WebSocket at {entry.path}; ask over HTTP"
        return error_reply(None, 426, reason, "invalid_request_error")


async def _deny(reply: HttpReply, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
    await send({"type": "websocket.http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": reply.body})
