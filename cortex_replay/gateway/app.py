"""The gateway as an ASGI application: between sockets and the engine, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.destinations import destinations_of
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.offload import aside
from cortex_replay.engine.http.render import error_reply
from cortex_replay.engine.http.routes import METHODS
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import LlmError
from cortex_replay.faults import Fault, Faults
from cortex_replay.gateway.access import RPC_PATH, Access, Entry, Refusal, path_prefix
from cortex_replay.gateway.answering import Answering
from cortex_replay.gateway.closing import CLOSE, HELD
from cortex_replay.gateway.control import CONTROL, control
from cortex_replay.gateway.links import lead_through
from cortex_replay.gateway.mcp.requests import MCP_PATH, Request, server_at
from cortex_replay.gateway.pace import Pace
from cortex_replay.gateway.room import FREE_BYTES, NoRoom, Place, Room
from cortex_replay.gateway.visits import VISIT, Visit
from cortex_replay.modes import Mode
from cortex_replay.redact.logs import logger_of

if TYPE_CHECKING:
    from cortex_replay.admin.callers import Caller
    from cortex_replay.gateway.mcp.door import Door
    from cortex_replay.gateway.rpc import Rpc
    from cortex_replay.gateway.websockets import WebSockets

__all__ = ["App"]

logger = logger_of(__name__)

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_LOOK_AGAIN_S: Final = 0.05
_BODY_S: Final = 60.0
"""How long a client may take to send its body."""


class _Message(NamedTuple):
    """A message to the RPC, from somebody who may send one."""

    rpc: Rpc
    body: bytes
    caller: Caller


class _TooLarge(Exception):
    pass


class _Disconnect(Exception):
    """The client has left."""


class App:
    """Lets calls in, reads them, and sends what the engine answers.

    Args:
        engine: Who answers.
        access: Who may come in.
        pace: How fast recorded streams are replayed.
        faults: What is to go wrong.
        rpc: Who answers ``/rpc``, if anybody does.
        door: Makes who answers ``/mcp/``, for the first client that comes there.
        max_body: The largest body that is read.
        most_bodies: How many bytes of larger bodies are in memory at once.
    """

    def __init__(
        self,
        engine: Engine,
        access: Access,
        pace: Pace,
        faults: Faults,
        rpc: Rpc | None = None,
        max_body: int = 32 * 2**20,
        most_bodies: int = 64 * 2**20,
        *,
        door: Callable[[], Door] | None = None,
    ) -> None:
        self._make_door = door
        self._door: Door | None = None
        self._rpc = rpc
        self._room = Room(most_bodies)
        self.is_closing = False
        self._engine = engine
        self._answering = Answering(engine, faults)
        self._access = access
        self._sockets: WebSockets | None = None
        self._pace = pace
        self._max_body = max_body
        self._destinations = destinations_of(engine.upstreams)

    def set_faults(self, scope: str, faults: Faults | None) -> None:
        """Let a scope have faults of its own, or those of all again."""
        self._answering.set_faults(scope, faults)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._open_sockets().serve(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        with Place(self._room) as place:
            await self._serve(scope, receive, send, place)

    def _open_sockets(self) -> WebSockets:
        if self._sockets is None:
            # Most gateways see none.
            from cortex_replay.gateway.websockets import WebSockets  # noqa: PLC0415

            self._sockets = WebSockets(self._engine, self._access, self._pace, self._answering)
        return self._sockets

    async def _serve(self, scope: Message, receive: Receive, send: Send, place: Place) -> None:
        reply = None
        protocol = None
        try:
            prepared = await self._prepare(scope, receive, place)
            if isinstance(prepared, HttpReply):
                reply = prepared
            elif isinstance(prepared, _Message):
                await self._while_there(self._answer_message(prepared, send), receive)
                return
            elif isinstance(prepared, Request):
                if prepared.method == "GET":
                    scope[HELD] = True  # it gives way to others, and can come back
                await self._while_there(self._open_door().answer(prepared, send), receive)
                return
            else:
                asking, call, fault = prepared
                protocol = call.route.protocol
                sink = _HttpSink(self, send, scope, call)
                if fault is not None:
                    answering = self._answering.answer_faultily(asking, call, fault, sink)
                    await self._while_there(answering, receive)
                    return
                question, reply = await aside(len(call.body), self._engine.begin, asking, call)
                if reply is None:
                    await self._while_there(self._answering.answer(asking, call, question, sink), receive)
                    return
                reply = sink.lead_through(reply)
                if reply.events and not self._pace.is_instant:
                    await self._while_there(self.send(reply, send), receive)
                    return
        except _Disconnect:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, a client gets an answer and no traceback
            reply = self._answering.error_reply_of(error, protocol)
        await _send_reply(reply, send)

    async def _prepare(
        self, scope: Message, receive: Receive, place: Place
    ) -> tuple[Scope, Call, Fault | None] | _Message | Request | HttpReply:
        """The call that a client makes, with what is to go wrong; or what it is told instead."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        visit: Visit | None = scope.get(VISIT)
        entry = (visit or self._access).enter(scope["raw_path"].decode("latin-1"), headers)
        if isinstance(entry, Refusal):
            return error_reply(None, entry.status, f"cortex-replay: {entry.reason}", "permission_error")

        def header(name: str) -> str:
            wanted = name.encode()
            return next((value.decode("latin-1") for known, value in headers if known == wanted), "")

        method: str = scope["method"]
        own = None if visit is not None else await self._own(scope, entry, header, receive, place)
        if own is not None:
            return own
        if method not in METHODS:
            reason = f"cortex-replay: {method} is not passed on; there are {', '.join(sorted(METHODS))}"
            return error_reply(None, 405, reason, "invalid_request_error")
        server, addressed = None, ""
        if visit is None:
            route = self._engine.upstreams.route(method, entry.path, header)
        else:
            route, server = self._destinations.find(visit.server, method, entry.path, header)
            addressed = str(visit.server)
        if route is None:
            known = ", ".join(f"/{name}" for name in [*self._engine.upstreams.names, "mcp/NAME"])
            reason = f"cortex-replay: there is nothing at {entry.path}; a base URL ends in one of {known}"
            return error_reply(None, 404, reason, "not_found_error")
        body = await self._body_or_refusal(header("content-length"), receive, place, route.protocol)
        if isinstance(body, HttpReply):
            return body
        query = scope["query_string"].decode("latin-1")
        asking = self._engine.scope_of(entry.scope, route, query)
        is_quick = asking.mode is Mode.REPLAY and route.protocol is not None
        # Headers matter to whoever passes the call on, and there is no such thing in replay.
        shown = () if is_quick else [(k.decode("latin-1"), v.decode("latin-1")) for k, v in headers]
        call = Call(method, route, query, shown, body, server, addressed=addressed)
        return asking, call, self._answering.next_fault(entry.scope, entry.fault)

    async def _own(
        self, scope: Message, entry: Entry, header: Callable[[str], str], receive: Receive, place: Place
    ) -> _Message | Request | HttpReply | None:
        """What is asked of the gateway itself; ``None`` for a call that is for a provider."""
        if entry.path == RPC_PATH and self._rpc is not None:
            return await self._message(self._rpc, scope["method"], header, receive, place)
        if entry.path.startswith(CONTROL):
            body = await self._body_or_refusal(header("content-length"), receive, place, None)
            if isinstance(body, HttpReply):
                return body
            return control(entry.path, scope["method"], body, self._engine.run, self._answering.faults)
        if entry.path.startswith(MCP_PATH) and self._serves_mcp:
            return await self._mcp_request(scope, entry, header, receive, place)
        return None

    @property
    def _serves_mcp(self) -> bool:
        """Whether the path is free for this."""
        return self._make_door is not None and MCP_PATH.strip("/") not in self._engine.upstreams.names

    def _open_door(self) -> Door:
        assert self._make_door is not None  # noqa: S101 - there is no route to here otherwise
        if self._door is None:
            self._door = self._make_door()
        return self._door

    def end_streams(self) -> None:
        """Let connections go that only wait for what may come."""
        if self._door is not None:
            self._door.end_streams()

    async def aclose(self) -> None:
        """End the sessions of clients."""
        if self._door is not None:
            await self._door.aclose()

    async def _mcp_request(
        self, scope: Message, entry: Entry, header: Callable[[str], str], receive: Receive, place: Place
    ) -> Request | HttpReply:
        """What an MCP client asks."""
        found = server_at(entry.path)
        if found is None:
            reason = f"cortex-replay: there is nothing at {entry.path}; an MCP server is at /mcp/NAME"
            return error_reply(None, 404, reason, "not_found_error")
        read = b""
        if scope["method"] == "POST":
            body = await self._body_or_refusal(header("content-length"), receive, place, None)
            if isinstance(body, HttpReply):
                return body
            read = body
        server, part = found
        prefix = path_prefix(scope["raw_path"].decode("latin-1"))
        return Request(
            scope["method"],
            server,
            part,
            entry.scope,
            [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]],
            f"{prefix}{MCP_PATH}{quote(server, safe='')}",
            scope["query_string"].decode("latin-1"),
            read,
        )

    def lead_through(self, reply: HttpReply, call: Call, scope: Message) -> HttpReply:
        """An answer whose links to the provider lead a client back here, by the way that it came."""
        prefix = path_prefix(scope["raw_path"].decode("latin-1"))
        return lead_through(reply, f"http://{call.header('host')}{prefix}/{call.route.upstream}")

    async def _message(
        self, rpc: Rpc, method: str, header: Callable[[str], str], receive: Receive, place: Place
    ) -> _Message | HttpReply:
        """A message to the RPC. Who sends it is known before it is read."""
        if method != "POST":
            return HttpReply(405, (("allow", "POST"),))
        caller = rpc.callers.by_authorization(header("authorization"))
        if caller is None:
            return rpc.refusal()
        body = await self._body_or_refusal(header("content-length"), receive, place, None, rpc)
        return body if isinstance(body, HttpReply) else _Message(rpc, body, caller)

    async def _answer_message(self, message: _Message, send: Send) -> None:
        await _send_reply(await message.rpc.reply(message.body, message.caller), send)

    async def _body_or_refusal(
        self, length: str, receive: Receive, place: Place, protocol: str | None, rpc: Rpc | None = None
    ) -> bytes | HttpReply:
        """The body, or what a client is told whose body was not read, or not all of it."""
        try:
            return await self._body(length, receive, place)
        except _TooLarge:
            reason = f"cortex-replay: the body is larger than {self._max_body} bytes"
            return rpc.too_large() if rpc else error_reply(protocol, 413, reason, "request_too_large")
        except TimeoutError:
            return error_reply(protocol, 408, "cortex-replay: the body did not come", "timeout_error")
        except NoRoom:
            reason = "cortex-replay: too many large bodies are under way; try again in a moment"
            reply = error_reply(protocol, 503, reason, "overloaded_error", may_retry=True)
            return replace(reply, headers=[*reply.headers, ("retry-after", "1")])

    async def _body(self, length: str, receive: Receive, place: Place) -> bytes:
        size = int(length) if length.isdigit() and len(length) < 19 else 0
        if size > self._max_body or len(length) >= 19:
            raise _TooLarge
        if size > FREE_BYTES:
            await place.hold(size)
        async with place.reading(_BODY_S):
            message = await receive()
        if message["type"] == "http.disconnect":
            raise _Disconnect
        body: bytes = message.get("body", b"")
        pieces, size = [body], len(body)
        if size > self._max_body:
            raise _TooLarge
        if not message.get("more_body"):
            return body
        async with place.reading(_BODY_S):
            while message.get("more_body"):
                await place.hold_part(size)
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _Disconnect
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > self._max_body:
                    raise _TooLarge
        return b"".join(pieces)

    async def _while_there(self, answer: Coroutine[Any, Any, None], receive: Receive) -> None:
        """Answer while there is somebody to answer to: a client that leaves ends the call upstream."""
        answering = asyncio.ensure_future(answer)
        leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not answering.done():
                answering.cancel()
        try:
            await answering
        except (asyncio.CancelledError, LlmError) as error:
            # It is too late for another answer: the connection is closed in the middle of this one.
            logger.debug("an answer was not finished: %s", type(error).__name__)

    async def end(self, reply: HttpReply, scope: Message) -> None:
        """End an answer as its fault wants it: by a closed connection, or by none."""
        scope[HELD] = reply.ending == "hang"
        while reply.ending == "hang" and not self.is_closing:
            await asyncio.sleep(_LOOK_AGAIN_S)  # until the client gives up
        if reply.ending != "whole":
            scope[CLOSE](is_hard=reply.ending == "reset")

    async def send(self, reply: HttpReply, send: Send) -> None:
        if reply.status:
            is_paced = bool(reply.events) and not self._pace.is_instant
            if reply.live is None and not is_paced and reply.ending == "whole" and not reply.is_in_pieces:
                await _send_reply(reply, send)
                return
            await send(_start(reply))
            async for data in reply.live or self._pace.spread(reply.events):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        if reply.ending == "whole":
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class _HttpSink:
    """Where the answer to an HTTP call goes."""

    __slots__ = ("_app", "_call", "_scope", "_send")

    def __init__(self, app: App, send: Send, scope: Message, call: Call) -> None:
        self._app = app
        self._send = send
        self._scope = scope
        self._call = call

    def lead_through(self, reply: HttpReply) -> HttpReply:
        """A reply whose links lead a client back here, unless it addressed its provider itself."""
        is_addressed_here = self._call.route.protocol is None and not self._call.addressed
        return self._app.lead_through(reply, self._call, self._scope) if is_addressed_here else reply

    async def send(self, reply: HttpReply) -> None:
        await self._app.send(self.lead_through(reply), self._send)

    async def end(self, reply: HttpReply) -> None:
        await self._app.end(reply, self._scope)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_reply(reply: HttpReply, send: Send) -> None:
    start = _start(reply)
    if reply.status != 204:
        start["headers"].append((b"content-length", b"%d" % len(reply.body)))
    await send(start)
    await send({"type": "http.response.body", "body": reply.body})


def _start(reply: HttpReply) -> Message:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
    return {"type": "http.response.start", "status": reply.status, "headers": headers}
