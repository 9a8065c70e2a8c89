"""WebSockets of clients: who may open one, and what serves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.render import error_reply
from cortex_replay.errors import InvalidRequest
from cortex_replay.gateway.access import Access, Refusal
from cortex_replay.gateway.answering import Answering
from cortex_replay.gateway.control import CONTROL
from cortex_replay.gateway.pace import Pace
from cortex_replay.gateway.responses_socket import ResponsesSocket
from cortex_replay.gateway.session_socket import Played, SessionSocket
from cortex_replay.gateway.websocket_connection import Connection, Gone

__all__ = ["WebSockets"]

_Message = dict[str, Any]


class WebSockets:
    """Lets clients open WebSockets, by the same rules as their calls.

    Args:
        engine: Who answers.
        access: Who may come in.
        pace: How fast recorded streams are replayed.
        answering: What is to go wrong.
    """

    def __init__(self, engine: Engine, access: Access, pace: Pace, answering: Answering) -> None:
        self._engine = engine
        self._access = access
        self._pace = pace
        self._answering = answering
        self._played = Played()

    async def serve(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """Serve one of them until it is closed."""
        await receive()  # the wish to connect
        connection = Connection(scope, receive, send)
        try:
            serving = self._open(scope, connection)
            if isinstance(serving, HttpReply):
                await connection.deny(serving)
            else:
                await serving.serve()
        except Gone:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, a client gets no traceback
            self._answering.error_reply_of(error, None)
            await connection.close(1011, f"cortex-replay: internal error ({type(error).__name__})")
        finally:
            await connection.aclose()

    def _open(self, scope: _Message, connection: Connection) -> ResponsesSocket | SessionSocket | HttpReply:
        """What serves a connection, or what the client is told instead."""
        raw: list[tuple[bytes, bytes]] = scope["headers"]
        entry = self._access.enter(scope["raw_path"].decode("latin-1"), raw)
        if isinstance(entry, Refusal):
            return error_reply(None, entry.status, f"cortex-replay: {entry.reason}", "permission_error")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw]

        def header(name: str) -> str:
            return next((value for known, value in headers if known == name), "")

        is_control = entry.path.startswith(CONTROL)
        upstreams = self._engine.upstreams
        route = None if is_control else upstreams.route("GET", entry.path, header)
        posting = None if is_control else upstreams.route("POST", entry.path, header)
        if route is None or posting is None:
            return _nothing_at(entry.path)
        asking = self._engine.run.scope(entry.scope)
        opening = Call("GET", route, scope["query_string"].decode("latin-1"), headers)
        parts = connection, self._engine, self._answering, self._pace, asking, opening
        if posting.protocol == "openai-responses":
            return ResponsesSocket(*parts, posting, entry.fault)
        if posting.protocol is not None:
            return _nothing_at(entry.path)
        try:
            fault = self._answering.next_fault(entry.scope, entry.fault)
        except InvalidRequest as error:
            return self._answering.error_reply_of(error, None)
        parts = connection, self._engine, self._answering, self._pace, asking.now, opening
        return SessionSocket(*parts, fault, self._played)


def _nothing_at(path: str) -> HttpReply:
    """A refusal at which clients that can do without go over to HTTP; at others they try again."""
    reason = f"cortex-replay: there is no WebSocket at {path}; ask over HTTP"
    return error_reply(None, 426, reason, "invalid_request_error")
