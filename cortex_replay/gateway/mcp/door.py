"""MCP clients come in here, each with a session of its own."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

from cortex_replay.errors import Transport
from cortex_replay.gateway.mcp.requests import (
    Problem,
    Request,
    is_modern,
    problem_of_headers,
    status_of,
)
from cortex_replay.gateway.mcp.streams import Gone, Stream
from cortex_replay.gateway.mcp.visitors import Visitor
from cortex_replay.mcp.events import Event, event_bytes
from cortex_replay.mcp.headers import EVENT_STREAM, JSON, LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from cortex_replay.mcp.messages import (
    INITIALIZE,
    Message,
    NotAMessage,
    is_request,
    messages_in,
    render_message,
    request_id,
)
from cortex_replay.run.mcp.desk import Desk

__all__ = ["Door"]

Send = Callable[[dict[str, Any]], Awaitable[None]]

_MOST_VISITORS: Final = 256
_PATIENCE_S: Final = 0.2
"""How long a server's answer may take that comes as one document; one that takes longer comes as a stream,
which a client that loses it can go on with. On replay no clock decides which of them it is."""
_PING_S: Final = 15.0
_PRIMED_SINCE: Final = "2025-11-25"
"""From this version on a client knows an event that only says where to go on from."""


class Door:
    """Answers the requests of clients.

    Args:
        desk: Who opens their sessions.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._visitors: dict[str, Visitor] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def answer(self, request: Request, send: Send) -> None:
        """Send all of an answer. Cancelled when the client has left."""
        handler = {
            ("POST", ""): self._post,
            ("GET", ""): self._get,
            ("DELETE", ""): self._delete,
            ("GET", "sse"): self._open_older,
            ("POST", "messages"): self._post_older,
        }.get((request.method, request.part))
        if handler is None:
            allowed = {"": "GET, POST, DELETE", "sse": "GET", "messages": "POST"}[request.part]
            problem = Problem.of(405, f"{request.method} is not served here; there is {allowed}")
            await _refuse(Problem(405, problem.error, (("allow", allowed),)), send)
        elif (wrong := request.problem) is not None:
            await _refuse(wrong, send)
        else:
            await handler(request, send)

    def end_streams(self) -> None:
        """Let connections go that only wait for what belongs to no request."""
        for visitor in self._visitors.values():
            visitor.apart.end()

    async def aclose(self) -> None:
        """End all sessions, and keep what was recorded."""
        visitors = list(self._visitors.values())
        self._visitors.clear()
        closing = (visitor.close() for visitor in visitors)
        await asyncio.gather(*closing, *self._leaving, return_exceptions=True)
        await self._desk.http.aclose()

    # Streamable HTTP

    async def _post(self, request: Request, send: Send) -> None:
        try:
            messages = messages_in(request.body)
        except NotAMessage as error:
            await _refuse(Problem.of(400, str(error), error.code), send)
            return
        if is_modern(request, messages):
            await self._post_alone(request, messages, send)
            return
        visitor = self._visitor_for(request, messages)
        if isinstance(visitor, Problem):
            await _refuse(visitor, send)
            return
        self._see(visitor, request)
        asked = [found for one in messages if is_request(one) and (found := request_id(one)) is not None]
        if not asked:
            await visitor.take(request.body, messages)
            await _send_empty(202, visitor, send)
            return
        if len(set(asked)) < len(asked) or any(map(visitor.has_asked, asked)):
            await _refuse(Problem.of(400, "a request of this id is under way already"), send)
            return
        stream = visitor.open_stream(asked)
        visitor.begin(request.body, stream)
        is_first = messages[0].get("method") == INITIALIZE
        try:
            await self._answer_with(stream, visitor, request, send, is_single=len(messages) == 1)
        finally:
            stream.leave()
            if stream.is_broken:
                await self._leave(visitor)
            if is_first and stream.is_over and "error" in _message_in(stream.latest):
                await self._leave(visitor)  # it did not begin

    def _visitor_for(self, request: Request, messages: list[Message]) -> Visitor | Problem:
        """The session that a message is of, which may begin with it."""
        found = self._find(request, request.header(SESSION_ID))
        if found is not None:
            return found
        if [one.get("method") for one in messages] != [INITIALIZE]:
            reason = f"a session begins with {INITIALIZE}, and each further message names it in {SESSION_ID}"
            return Problem.of(400, reason)
        return self._admit(request)

    def _named_visitor(self, request: Request) -> Visitor | Problem:
        """The session that a request without a message names."""
        if is_modern(request, []):
            problem = Problem.of(405, "in this version of the protocol there is only POST")
            return Problem(405, problem.error, (("allow", "POST"),))
        found = self._find(request, request.header(SESSION_ID))
        return found or Problem.of(400, f"{SESSION_ID} is missing")

    def _find(self, request: Request, named: str) -> Visitor | Problem | None:
        if not named:
            return None
        visitor = self._visitors.get(named)
        if visitor is not None and visitor.client.is_forgotten:  # so that the client, too, begins anew
            self._close(self._visitors.pop(named))
            visitor = None
        if visitor is None or (visitor.server, visitor.scope) != (request.server, request.scope):
            return Problem.of(404, "there is no such session; begin a new one")
        return visitor

    def _admit(self, request: Request, *, is_older: bool = False) -> Visitor | Problem:
        if len(self._visitors) >= _MOST_VISITORS:
            idle = [one for one in self._visitors.values() if not one.is_busy]
            if not idle:
                return Problem.of(503, f"there are {_MOST_VISITORS} sessions already, and all are busy")
            oldest = min(idle, key=lambda one: one.seen_at)
            self._close(self._visitors.pop(oldest.id))
        visitor = Visitor(self._desk, request.server, request.scope, secrets.token_hex(16), is_older=is_older)
        self._visitors[visitor.id] = visitor
        return visitor

    @staticmethod
    def _see(visitor: Visitor, request: Request) -> None:
        visitor.client.latest = request.headers
        visitor.seen_at = asyncio.get_running_loop().time()

    async def _answer_with(
        self, stream: Stream, visitor: Visitor, request: Request, send: Send, *, is_single: bool
    ) -> None:
        """Answer by one document where that is all there is, else by a stream."""
        takes_json, takes_stream = request.accepts(JSON), request.accepts(EVENT_STREAM)
        if is_single and takes_json:
            await stream.until_told(_PATIENCE_S if takes_stream and visitor.may_ask else None)
            answer = await stream.sole_answer()
            if answer is None and not takes_stream:
                answer = await _last_of(stream)
            if answer is not None:
                status = 200 if visitor.id else status_of(_message_in(answer))
                await _send_json(status, answer, visitor, send, is_cut=stream.is_broken)
                visitor.drop(stream)
                return
        can_resume = bool(visitor.id)
        await _start_stream(visitor, send)
        if can_resume and request.header(PROTOCOL_VERSION) >= _PRIMED_SINCE:
            await _send_piece(event_bytes(Event(b"", id=stream.event_id(0))), send)
        await self._send_events(stream, None, send, has_ids=can_resume)

    async def _send_events(
        self, stream: Stream, after: int | None, send: Send, *, has_ids: bool = True
    ) -> None:
        events = stream.events(after, _PING_S)
        async with contextlib.aclosing(events):
            async for event in events:
                if event is None:
                    await _send_piece(b": ping\n\n", send)
                else:
                    await _send_piece(event_bytes(event if has_ids else event._replace(id="")), send)
        if stream.is_broken:
            raise Transport("the server has ended (on demand)")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _get(self, request: Request, send: Send) -> None:
        visitor = self._named_visitor(request)
        if isinstance(visitor, Problem):
            await _refuse(visitor, send)
            return
        self._see(visitor, request)
        stream, after = visitor.apart, None
        if last := request.header(LAST_EVENT_ID):
            found, after = _place_of(last, visitor)
            if found is None:
                await _refuse(Problem.of(400, "what follows this event is no longer kept"), send)
                return
            stream = found
        await _start_stream(visitor, send)
        await self._send_events(stream, after, send)

    async def _delete(self, request: Request, send: Send) -> None:
        visitor = self._named_visitor(request)
        if isinstance(visitor, Problem):
            await _refuse(visitor, send)
            return
        await self._leave(visitor)
        await _send_empty(200, None, send)

    async def _leave(self, visitor: Visitor) -> None:
        if self._visitors.pop(visitor.id, None) is not None:
            await asyncio.shield(self._close(visitor))

    def _close(self, visitor: Visitor) -> asyncio.Task[None]:
        """End a session, also if its client has no patience to wait for that."""
        task = asyncio.ensure_future(visitor.close())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        return task

    # Each request for itself

    async def _post_alone(self, request: Request, messages: list[Message], send: Send) -> None:
        if len(messages) != 1 or not isinstance(messages[0].get("method"), str):
            await _refuse(Problem.of(400, "the body is one request or one notification"), send)
            return
        [message] = messages
        about = request_id(message)
        if about is None:  # this era has none that a server acts on
            await _send_empty(202, None, send)
            return
        problem = problem_of_headers(request, message)
        if problem is not None:
            await _refuse(problem, send)
            return
        visitor = Visitor(self._desk, request.server, request.scope)
        self._see(visitor, request)
        stream = visitor.open_stream([about])
        try:
            visitor.begin(request.body, stream)
            await self._answer_with(stream, visitor, request, send, is_single=True)
        finally:
            await asyncio.shield(self._close(visitor))

    # The older transport

    async def _open_older(self, request: Request, send: Send) -> None:
        visitor = self._admit(request, is_older=True)
        if isinstance(visitor, Problem):
            await _refuse(visitor, send)
            return
        self._see(visitor, request)
        try:
            await _start_stream(None, send)
            endpoint = f"{request.base}/messages?session_id={visitor.id}".encode()
            await _send_piece(event_bytes(Event(endpoint, "endpoint")), send)
            await self._send_events(visitor.apart, None, send, has_ids=False)
        finally:
            await self._leave(visitor)

    async def _post_older(self, request: Request, send: Send) -> None:
        visitor = self._find(request, request.session) or Problem.of(400, "session_id is missing")
        if isinstance(visitor, Problem):
            await _refuse(visitor, send)
            return
        self._see(visitor, request)
        await visitor.take(request.body)
        await _send_empty(202, None, send)


def _place_of(event: str, visitor: Visitor) -> tuple[Stream | None, int]:
    """The stream that an event is of, and its number in it."""
    name, _, position = event.rpartition("-")
    if not (position.isdecimal() and len(event) < 40):
        return None, 0
    stream = visitor.stream(name)
    if stream is not None:
        try:
            stream.check(int(position))
        except Gone:
            stream = None
    return stream, int(position)


def _message_in(frame: bytes) -> Message:
    """The message of a frame; an empty one for what a server said and is none."""
    try:
        return messages_in(frame)[0]
    except NotAMessage:
        return {}


async def _last_of(stream: Stream) -> bytes:
    """The answer to a client that takes no stream: what else was said is not for it."""
    last = b""
    async with contextlib.aclosing(stream.events(None, _PING_S)) as events:
        async for event in events:
            last = last if event is None else event.data
    return last


def _session_header(visitor: Visitor | None) -> list[tuple[bytes, bytes]]:
    return [(SESSION_ID.encode(), visitor.id.encode())] if visitor is not None and visitor.id else []


async def _start_stream(visitor: Visitor | None, send: Send) -> None:
    headers = [
        (b"content-type", EVENT_STREAM.encode()),
        (b"cache-control", b"no-cache, no-transform"),
        *_session_header(visitor),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send_piece(data: bytes, send: Send) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _send_json(
    status: int, body: bytes, visitor: Visitor | None, send: Send, *, is_cut: bool = False
) -> None:
    headers = [
        (b"content-type", JSON.encode()),
        (b"content-length", b"%d" % (2 * len(body) if is_cut else len(body))),
        *_session_header(visitor),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": is_cut})
    if is_cut:
        raise Transport("the server has ended (on demand)")


async def _send_empty(status: int, visitor: Visitor | None, send: Send) -> None:
    headers = [(b"content-length", b"0"), *_session_header(visitor)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(problem: Problem, send: Send) -> None:
    body = render_message(problem.error)
    headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
    headers += [(name.encode(), value.encode()) for name, value in problem.headers]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
