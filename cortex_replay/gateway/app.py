"""The gateway as an ASGI application: between sockets and the engine, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.offload import aside
from cortex_replay.engine.http.question import Question
from cortex_replay.engine.http.render import error_reply
from cortex_replay.engine.http.routes import METHODS
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import FixtureIntegrityFailed, InvalidRequest, LlmError
from cortex_replay.faults import Fault, Faults
from cortex_replay.faults.replies import answers_alone, faulty_reply, refusal
from cortex_replay.gateway.access import RPC_PATH, Access, Refusal
from cortex_replay.gateway.closing import CLOSE
from cortex_replay.gateway.control import CONTROL, control
from cortex_replay.gateway.pace import Pace
from cortex_replay.gateway.room import FREE_BYTES, NoRoom, Place, Room
from cortex_replay.gateway.websockets import WebSockets
from cortex_replay.modes import Mode
from cortex_replay.redact.logs import logger_of

if TYPE_CHECKING:
    from cortex_replay.admin.callers import Caller
    from cortex_replay.gateway.rpc import Rpc

__all__ = ["HELD", "App"]

logger = logger_of(__name__)

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HELD: Final = "cortex_replay.held"
"""Is in the scope of a call that gets no answer, because it asked for none."""
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


class _Faulty(Exception):
    """Something went wrong, as it was asked to."""


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
    ) -> None:
        self._rpc = rpc
        self._room = Room(most_bodies)
        self.is_closing = False
        self._engine = engine
        self._faults = faults
        self._faults_of_scopes: dict[str, Faults] = {}
        self._access = access
        self._sockets = WebSockets(engine, access)
        self._pace = pace
        self._max_body = max_body

    def set_faults(self, scope: str, faults: Faults | None) -> None:
        """Let a scope have faults of its own, or those of all again."""
        if faults is None:
            self._faults_of_scopes.pop(scope, None)
        else:
            self._faults_of_scopes[scope] = faults

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets.serve(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        with Place(self._room) as place:
            await self._serve(scope, receive, send, place)

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
            else:
                asking, call, fault = prepared
                protocol = call.route.protocol
                if fault is not None:
                    answering = self._answer_faultily(asking, call, fault, send, scope)
                    await self._while_there(answering, receive)
                    return
                question, reply = await aside(len(call.body), self._engine.begin, asking, call)
                if reply is None:
                    await self._while_there(self._answer(asking, call, question, send), receive)
                    return
                if reply.events and not self._pace.is_instant:
                    await self._while_there(self._send(reply, send), receive)
                    return
        except _Disconnect:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, a client gets an answer and no traceback
            reply = self._error_reply_of(error, protocol)
        await _send_reply(reply, send)

    async def _prepare(
        self, scope: Message, receive: Receive, place: Place
    ) -> tuple[Scope, Call, Fault | None] | _Message | HttpReply:
        """The call that a client makes, with what is to go wrong; or what it is told instead."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        entry = self._access.enter(scope["raw_path"].decode("latin-1"), headers)
        if isinstance(entry, Refusal):
            return error_reply(None, entry.status, f"cortex-replay: {entry.reason}", "permission_error")

        def header(name: str) -> str:
            wanted = name.encode()
            return next((value.decode("latin-1") for known, value in headers if known == wanted), "")

        method: str = scope["method"]
        if entry.path == RPC_PATH and self._rpc is not None:
            return await self._message(self._rpc, method, header, receive, place)
        if entry.path.startswith(CONTROL):
            body = await self._body_or_refusal(header("content-length"), receive, place, None)
            if isinstance(body, HttpReply):
                return body
            return control(entry.path, method, body, self._engine.run, self._faults)
        if method not in METHODS:
            reason = f"cortex-replay: {method} is not passed on; there are {', '.join(sorted(METHODS))}"
            return error_reply(None, 405, reason, "invalid_request_error")
        route = self._engine.upstreams.route(method, entry.path, header)
        if route is None:
            known = ", ".join(f"/{name}" for name in self._engine.upstreams.names)
            reason = f"cortex-replay: there is nothing at {entry.path}; a base URL ends in one of {known}"
            return error_reply(None, 404, reason, "not_found_error")
        body = await self._body_or_refusal(header("content-length"), receive, place, route.protocol)
        if isinstance(body, HttpReply):
            return body
        asking = self._engine.run.scope(entry.scope)
        is_quick = asking.mode is Mode.REPLAY and route.protocol is not None
        # Headers matter to whoever passes the call on, and there is no such thing in replay.
        shown = () if is_quick else [(k.decode("latin-1"), v.decode("latin-1")) for k, v in headers]
        call = Call(method, route, scope["query_string"].decode("latin-1"), shown, body)
        faults = self._faults_of_scopes.get(entry.scope, self._faults)
        is_faulty = entry.fault or faults.are_any
        return asking, call, faults.next(entry.scope, entry.fault) if is_faulty else None

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

    async def _answer_faultily(
        self, asking: Scope, call: Call, fault: Fault, send: Send, scope: Message
    ) -> None:
        """Let something go wrong. The turn has then not ended, so that the recording goes on with it."""
        protocol = call.route.protocol
        faults = self._faults_of_scopes.get(asking.name, self._faults)
        if answers_alone(fault):
            faults.note(fault)
            reply = refusal(fault, protocol)
            await self._send(reply, send)
            await self._end(reply, scope)
            return
        faulty: HttpReply | None = None
        has_begun = False
        try:
            question = await aside(len(call.body), self._engine.read, asking, call)
            async with self._engine.answer(asking, call, question) as reply:
                has_begun = True
                # What is being recorded is not to be spoiled.
                is_recorded = not asking.mode.asks
                faulty = faulty_reply(fault, reply, protocol) if is_recorded else None
                await self._send(faulty or reply, send)
                if faulty is None:  # it has no place in this answer
                    return
                faults.note(fault)
                if not fault.is_chunking:
                    raise _Faulty
        except _Faulty:
            pass
        except LlmError as error:
            if has_begun:
                raise
            await _send_reply(self._error_reply_of(error, protocol), send)
            return
        if faulty is not None:
            await self._end(faulty, scope)

    async def _end(self, reply: HttpReply, scope: Message) -> None:
        """End an answer as its fault wants it: by a closed connection, or by none."""
        scope[HELD] = reply.ending == "hang"
        while reply.ending == "hang" and not self.is_closing:
            await asyncio.sleep(_LOOK_AGAIN_S)  # until the client gives up
        if reply.ending != "whole":
            scope[CLOSE](is_hard=reply.ending == "reset")

    async def _answer(self, asking: Scope, call: Call, question: Question | None, send: Send) -> None:
        has_begun = False
        try:
            async with self._engine.answer(asking, call, question) as reply:
                has_begun = True
                await self._send(reply, send)
        except LlmError as error:
            if has_begun:
                raise
            await _send_reply(self._error_reply_of(error, call.route.protocol), send)

    def _error_reply_of(self, error: Exception, protocol: str | None) -> HttpReply:
        """What a client is told when the gateway itself cannot go on; never anything that it holds."""
        if isinstance(error, FixtureIntegrityFailed):
            findings = "; ".join(f"{finding.path}: {finding.reason}" for finding in error.issues[:3])
            self._engine.run.ledger.damage(findings)
            reason = f"the store is not what its index says, and nothing is replayed: {findings}"
            return error_reply(protocol, 424, f"cortex-replay: {reason}", "integrity_error")
        if isinstance(error, InvalidRequest):
            return error_reply(protocol, 400, f"cortex-replay: {error}", "invalid_request_error")
        if isinstance(error, LlmError):
            return error_reply(protocol, 424, f"cortex-replay: {error}", "gateway_error")
        logger.error("a call could not be answered: %s", type(error).__name__)
        reason = f"cortex-replay: internal error ({type(error).__name__})"
        return error_reply(protocol, 424, reason, "gateway_error")

    async def _send(self, reply: HttpReply, send: Send) -> None:
        if reply.status:
            is_paced = bool(reply.events) and not self._pace.is_instant
            if reply.live is None and not is_paced and reply.ending == "whole" and not reply.is_in_pieces:
                await _send_reply(reply, send)
                return
            await send(_start(reply))
            async for data in reply.live or self._pace_events(reply):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        if reply.ending == "whole":
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pace_events(self, reply: HttpReply) -> AsyncIterator[bytes]:
        """The events of a recorded stream, each at its time."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        for at_ms, data in reply.events:
            pause = started + at_ms / 1000 * self._pace.factor - loop.time()
            # A moment at least, so that each event is a piece of its own on the way.
            await asyncio.sleep(max(0.0, pause))
            yield data


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
