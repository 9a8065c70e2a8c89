"""One session of MCP between a client and a server that may not be there."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.exchanges import ExchangeTurn, take_turn
from cortex_replay.engine.mcp.link import Connect, Outgoing, Said, SendToClient, ServerLink
from cortex_replay.engine.mcp.lookups import look_up_tool
from cortex_replay.engine.mcp.playback import Playback
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import LlmError, Transport
from cortex_replay.mcp.messages import (
    CANCELLED,
    INITIALIZE,
    INITIALIZED,
    NO_FIXTURE,
    PING,
    PROGRESS,
    Message,
    NotAMessage,
    RequestId,
    error_message,
    is_answer,
    is_notification,
    is_request,
    messages_in,
    parameters_of,
    progress_token,
    render_message,
    request_id,
)
from cortex_replay.mcp.questions import question_of
from cortex_replay.mcp.scripts import Script
from cortex_replay.misses.explanation import explain_opaque_exhaustion, explain_opaque_miss
from cortex_replay.redact.logs import logger_of
from cortex_replay.store.exchange import Exchange

__all__ = ["Session"]

logger = logger_of(__name__)
_PARSE_ERROR: Final = -32700
_INTERNAL_ERROR: Final = -32603
_SETTLE_S: Final = 1.0
"""How long the client's next frame waits until this one is on its way."""


def _nothing() -> None:
    return None


@dataclass(eq=False)
class _Call:
    """Something that the client said, and what came of it."""

    message: Message
    frame: bytes
    script: Script
    id: RequestId | None = None
    turn: ExchangeTurn | None = None
    playback: Playback | None = None
    is_kept: bool = False
    is_amended: bool = False
    """Whether more came than what is kept."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether it is on its way, so that the next may follow."""
    ended: asyncio.Future[tuple[bytes, Message] | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """What the server answered; ``None`` if the client gave it up."""
    delivered: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def method(self) -> str:
        return str(self.message["method"])


class Session:
    """Answers a client: from what is recorded, or by a real server, which is recorded.

    Args:
        scope: Whose calls these are.
        server: The name of the server.
        connect: Starts or reaches the real one; never called in replay.
        send: Takes what the client gets.
    """

    def __init__(self, scope: Scope, server: str, connect: Connect, send: SendToClient) -> None:
        self._scope = scope
        self._server = server
        self._connect = connect
        self._send = send
        self._link: ServerLink | None = None
        self._connecting = asyncio.Lock()
        self._calls: dict[RequestId, _Call] = {}
        self._anchor: _Call | None = None
        """What the client said last, or the latest call that is open: to it belongs what the server says."""
        self._said: list[_Call] = []
        """What the client has said, for a server that is started later."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._pump: asyncio.Task[None] | None = None
        self._scripted = 0

    async def take(self, frame: bytes) -> None:
        """A frame of the client. Returns when the next one may come."""
        try:
            messages = messages_in(frame)
        except NotAMessage as error:
            await self._tell(error_message(None, _PARSE_ERROR, f"cortex-replay: {error}"))
            return
        for message in messages:
            alone = frame if len(messages) == 1 else render_message(message)
            if is_answer(message):
                await self._take_answer(alone, message)
            elif message.get("method") == CANCELLED:
                await self._cancel(alone, message)
            elif message.get("method") == PROGRESS or not (is_request(message) or is_notification(message)):
                await self._pass_on_if_linked(alone)
            else:
                await self._begin(alone, message)

    async def close(self) -> None:
        """The client has left: keep what came, and end the server."""
        for call in list(self._calls.values()):
            if call.playback is not None:
                call.playback.cancel()
            if not call.ended.done():
                call.ended.set_result(None)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._link is not None:
            await self._link.close()
        if self._pump is not None:
            self._pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pump
        self._amend()

    # What the client says

    async def _begin(self, frame: bytes, message: Message) -> None:
        self._amend()
        about = request_id(message)
        call = _Call(message, frame, Script(about, progress_token(message)), about)
        if about is not None:
            self._calls[about] = call
        self._anchor = call
        self._said.append(call)
        task = asyncio.ensure_future(self._serve(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        waiter = asyncio.ensure_future(call.settled.wait())
        await asyncio.wait({waiter, task}, timeout=_SETTLE_S, return_when=asyncio.FIRST_COMPLETED)
        waiter.cancel()

    async def _serve(self, call: _Call) -> None:
        try:
            if call.method == PING:
                await self._serve_ping(call)
            elif call.id is None:
                await self._serve_notification(call)
            else:
                await self._serve_request(call)
        except LlmError as error:
            await self._refuse(call, _INTERNAL_ERROR, f"cortex-replay: {error}")
        finally:
            call.settled.set()
            call.delivered.set()
            if call.id is not None:
                self._calls.pop(call.id, None)

    async def _serve_ping(self, call: _Call) -> None:
        """How often a client pings is a matter of time: it is not recorded."""
        if self._link is None:
            await self._tell({"jsonrpc": "2.0", "id": call.id, "result": {}}, call.id, is_end=True)
        else:
            await self._ask(call)

    async def _serve_request(self, call: _Call) -> None:
        scope = self._scope
        look = self._look_up(call)
        async with take_turn(scope, look) as turn:
            wire = turn.wire
            if wire is not None:
                turn.serve()
                scope.serve(_nothing, look.key, Exchange(wire, key=look.key))
                await self._play(call, wire)
                turn.end()
                return
            if not scope.mode.asks:
                await self._miss(call, look, is_exhausted=turn.exhausted)
                return
            scope.run.ledger.ask()
            is_good = False
            try:
                call.turn = turn
                call.script.meta = {"run": scope.run.name, "asked_at": _now()}
                is_good = await self._ask(call)
            finally:
                if not is_good:
                    scope.run.ledger.fail("", is_sent=True)

    async def _serve_notification(self, call: _Call) -> None:
        """Pass it on; or let the server say what it said after it, if it said anything."""
        look = self._look_up(call)
        async with take_turn(self._scope, look) as turn:
            wire = turn.wire
            if wire is not None:
                turn.serve()
                await self._play(call, wire)
                turn.end()
            elif self._scope.mode.asks:
                call.turn = turn
                link = await self._linked(call)
                await link.send(call.frame)

    def _look_up(self, call: _Call) -> ExchangeLookUp:
        return look_up_tool(self._scope, question_of(self._server, call.method, parameters_of(call.message)))

    async def _ask(self, call: _Call) -> bool:
        """Have the server answer, and keep that before the client has it; whether it did."""
        link = await self._linked(call)
        await link.send(call.frame)
        call.settled.set()
        ended = await call.ended
        if call.turn is not None and not call.script.is_empty:
            self._keep(call)
        if ended is not None:
            await self._send(Outgoing(ended[0], call.id, is_end=True))
        return ended is not None

    def _keep(self, call: _Call) -> None:
        assert call.turn is not None  # noqa: S101 - whoever asks has it
        what = f"{self._server} {call.method}"
        call.is_kept, call.is_amended = True, False
        if call.script.is_too_large:
            self._scope.run.ledger.refuse(f"{what}: the answer is too large")
        else:
            call.turn.keep(call.script.wire(), what, "")

    async def _take_answer(self, frame: bytes, message: Message) -> None:
        """The client answers the server, or what was recorded of it."""
        about = request_id(message)
        for call in self._said:
            if call.playback is not None and call.playback.take_answer(message):
                return
            if about is not None and call.script.has_asked(about):
                call.script.answer(message, len(frame))
                call.is_amended = True
        await self._pass_on_if_linked(frame)

    async def _cancel(self, frame: bytes, message: Message) -> None:
        parameters = parameters_of(message)
        found = parameters.get("requestId")
        call = self._calls.get(found) if isinstance(found, str | int) else None
        if call is not None:
            if call.playback is not None:
                call.playback.cancel()
            elif not call.ended.done():
                call.script.cancel(parameters.get("reason"))
                call.ended.set_result(None)
        await self._pass_on_if_linked(frame)

    async def _pass_on_if_linked(self, frame: bytes) -> None:
        if self._link is not None:
            await self._link.send(frame)

    # What is recorded

    async def _play(self, call: _Call, wire: dict[str, JsonValue]) -> None:
        self._scripted += 1
        call.playback = Playback(wire, call.message, self._send, f"cortex-replay-{self._scripted}")
        call.settled.set()
        differs = await call.playback.play()
        if differs and call.id is not None:
            await self._refuse(call, NO_FIXTURE, self._scope.clean(f"cortex-replay: {differs}"))

    async def _miss(self, call: _Call, look: ExchangeLookUp, *, is_exhausted: bool) -> None:
        scope = self._scope
        if is_exhausted:
            explanation = explain_opaque_exhaustion(look.asked, look.key, scope.how_to_record)
        else:
            redactor = scope.run.redactor
            explanation = explain_opaque_miss(
                scope.store, look.request, look.key, scope.how_to_record, redactor
            )
        explained = scope.clean(explanation)
        scope.count_miss(f"{self._server} {call.method}", explained, _nothing)
        await self._refuse(call, NO_FIXTURE, explained)

    async def _refuse(self, call: _Call, code: int, text: str) -> None:
        if call.id is None:
            logger.warning("%s", text)
            return
        kind = "no_fixture" if code == NO_FIXTURE else "error"
        await self._tell(error_message(call.id, code, text, {"type": kind}), call.id, is_end=True)

    async def _tell(self, message: Message, about: RequestId | None = None, *, is_end: bool = False) -> None:
        await self._send(Outgoing(render_message(message), about, is_end))

    def _amend(self) -> None:
        """Keep what the server said behind the end of a call."""
        call = self._anchor
        if call is None or call.turn is None or not call.is_amended:
            return
        call.is_amended = False
        if not call.is_kept:
            call.turn.claim = None  # its time is over
            self._keep(call)
        elif not call.script.is_too_large:
            call.turn.amend(call.script.wire())

    # What the server says

    async def _linked(self, call: _Call) -> ServerLink:
        async with self._connecting:
            if self._link is None:
                link = await self._connect()
                self._link = link
                for before in self._said:
                    if before is not call and before.method in (INITIALIZE, INITIALIZED):
                        await link.send(before.frame)
                self._pump = asyncio.ensure_future(self._read(link))
            return self._link

    async def _read(self, link: ServerLink) -> None:
        problem = "the server has ended"
        try:
            async for said in link.frames():
                await self._take_from_server(said)
        except Transport as error:
            problem = str(error)
        finally:
            self._link = None
            for call in list(self._calls.values()):
                if not call.ended.done():
                    call.ended.set_exception(Transport(f"{self._server}: {problem}"))

    async def _take_from_server(self, said: Said) -> None:
        try:
            messages = messages_in(said.frame)
        except NotAMessage:
            await self._send(Outgoing(said.frame, said.about))
            return
        for message in messages:
            frame = said.frame if len(messages) == 1 else render_message(message)
            if is_answer(message):
                await self._take_result(frame, message)
                continue
            call = self._owner_of(message, said.about)
            if call is not None and message.get("method") != PING:
                if is_request(message):
                    call.script.ask(message, len(frame))
                else:
                    call.script.notify(message, len(frame))
                call.is_amended = True
            is_open = call is not None and call.id in self._calls
            await self._send(Outgoing(frame, call.id if call is not None and is_open else None))

    async def _take_result(self, frame: bytes, message: Message) -> None:
        about = request_id(message)
        call = self._calls.get(about) if about is not None else None
        if call is None or call.ended.done() or call.playback is not None:
            return  # it answers what was replayed, or given up
        call.script.end(message, len(frame))
        call.ended.set_result((frame, message))
        await call.delivered.wait()

    def _owner_of(self, message: Message, about: RequestId | None) -> _Call | None:
        """The call that a message belongs to: what the transport or its token tells, else the latest."""
        if about is not None and about in self._calls:
            return self._calls[about]
        token = parameters_of(message).get("progressToken")
        for call in self._calls.values():
            if call.script.is_of_token(token):
                return call
        open_calls = [call for call in self._calls.values() if call.playback is None]
        return open_calls[-1] if open_calls else self._anchor


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
