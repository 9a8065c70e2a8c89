"""A client's WebSocket that is recorded and replayed message by message: realtime APIs, and whatever else."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchange_lookup import look_up_exchange
from cortex_replay.engine.exchanges import ask_opaquely, nothing, take_turn
from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.engine import Engine, refusal_of
from cortex_replay.engine.http.offload import aside
from cortex_replay.engine.http.relay import client_headers
from cortex_replay.engine.http.render import error_reply
from cortex_replay.engine.scope import Scope
from cortex_replay.engine.ws.sessions import (
    Playback,
    Recorded,
    SessionMiss,
    SessionTape,
    opening_request,
    recorded_sessions,
)
from cortex_replay.errors import LlmError, Transport
from cortex_replay.faults import Fault
from cortex_replay.faults.replies import answers_alone, refusal
from cortex_replay.gateway.answering import Answering
from cortex_replay.gateway.pace import Pace
from cortex_replay.gateway.websocket_connection import Connection, Gone
from cortex_replay.modes import Mode
from cortex_replay.redact.clearance import STORE_GATE
from cortex_replay.redact.sensitivity import refuse_value_above
from cortex_replay.store.frames import WEBSOCKET

if TYPE_CHECKING:
    from cortex_replay.adapters.http.sockets import UpgradeRefused, UpstreamSocket

__all__ = ["Played", "SessionSocket"]

Played = Counter[tuple[str, str, int]]
"""How often each session was replayed in each scope."""
_POLICY: Final = 1008
_BROKEN: Final = 1011
_NO_CODE: Final = (1005, 1006, 1015)
"""What stands for a close frame that did not come, and cannot be sent."""
_GREETING_S: Final = 10.0
"""How long a server may take to say what it says first."""


class SessionSocket:
    """Serves one session: from the store, or from its provider while it is recorded.

    Args:
        connection: The client's.
        engine: Who has the keys.
        answering: What is to go wrong.
        pace: How fast recorded messages are replayed.
        asking: Whose connection it is.
        opening: The upgrade.
        fault: What is to go wrong with it.
        played: What was replayed before.
    """

    def __init__(
        self,
        connection: Connection,
        engine: Engine,
        answering: Answering,
        pace: Pace,
        asking: Scope,
        opening: Call,
        fault: Fault | None,
        played: Played,
    ) -> None:
        self._connection = connection
        self._engine = engine
        self._answering = answering
        self._pace = pace
        self._asking = asking
        self._opening = opening
        self._fault = fault
        self._played = played
        self._request = opening_request(opening)
        self._what = f"{WEBSOCKET} {opening.route.path}"
        self._sent = 0
        self._binder = asking.run.binder(asking.store.key_rules.bindings)

    async def serve(self) -> None:
        """Serve it until it is closed.

        Raises:
            Gone: The client has left.
        """
        if self._fault is not None and answers_alone(self._fault):
            await self._fail(self._fault)
            return
        mode = self._asking.mode
        sessions = self._sessions() if mode in (Mode.REPLAY, Mode.ONCE) else []
        if sessions:
            await self._play(sessions)
        elif mode.asks:
            await self._record()
        else:
            await self._connection.accept(self._connection.subprotocol)
            await self._miss("")

    def _sessions(self) -> list[Recorded]:
        """What may be replayed; what this scope has not had yet comes first."""
        found = recorded_sessions(self._asking.store, self._request, self._asking.owner, self._binder)
        return sorted(found, key=lambda session: self._played[self._asking.name, session.key, session.n])

    async def _play(self, sessions: list[Recorded]) -> None:
        playback = Playback(sessions, self._binder)
        await self._connection.accept(playback.session.subprotocol or self._connection.subprotocol)
        message: str | bytes = ""
        try:
            await self._break_off()
            while True:
                await self._say(playback.due())
                if playback.close is not None:
                    await self._connection.close(playback.close.code, playback.close.reason)
                    break
                message = await self._connection.receive()
                playback.take(message)
        except Gone:
            pass
        except SessionMiss as miss:
            if self._asking.mode is Mode.ONCE and playback.is_at_first:
                await self._record(message, self._sent)
                return
            await self._miss(str(miss), message)
            return
        session = playback.session
        self._played[self._asking.name, session.key, session.n] += 1
        self._asking.serve(nothing, session.key, session.exchange)

    async def _say(self, messages: list[tuple[int, str | bytes]]) -> None:
        if not messages:
            return
        started = messages[0][0]
        timed = [(float(at_ms - started), message) for at_ms, message in messages]
        if self._pace.is_instant:
            for _, message in timed:
                await self._send(message)
        else:
            async for message in self._pace.spread(timed):
                await self._send(message)

    async def _send(self, message: str | bytes) -> None:
        await self._connection.send(message)
        self._sent += 1
        await self._break_off()

    async def _break_off(self) -> None:
        """Cut the connection, or let it hang, once as many messages were sent as a fault wants."""
        fault = self._fault
        if fault is None or fault.kind not in ("cut", "stall") or self._sent != fault.events:
            return
        self._answering.note_fault(self._asking.name, fault)
        if fault.kind == "cut":
            self._connection.cut(is_hard=False)
        await self._connection.gone.wait()
        raise Gone

    async def _fail(self, fault: Fault) -> None:
        self._answering.note_fault(self._asking.name, fault)
        reply = refusal(fault, None)
        if reply.status:
            await self._connection.deny(reply)
        elif reply.ending == "reset":
            self._connection.cut(is_hard=True)
        else:
            await self._connection.wait_until_gone()

    async def _miss(self, differences: str, message: str | bytes = "") -> None:
        """Tell the client what is not recorded, and end: what it would say next has no answer either."""
        query = "&".join("=".join(map(str, pair)) for pair in _pairs(self._request["query"]))
        place = f"{self._opening.route.path}{'?' if query else ''}{query} of {self._opening.route.upstream}"
        lines = [f"cortex-replay: nothing is recorded for this WebSocket at {place}."]
        lines += [differences] if differences else []
        if self._asking.mode is Mode.ONCE:
            lines.append("A session that goes on in another way is recorded anew by the mode record only.")
        lines.append(f"To record it: {self._asking.how_to_record}")
        explained = self._asking.clean("\n".join(lines))
        self._asking.count_miss(self._what, explained, nothing)
        await self._tell(explained, "no_fixture", message)

    async def _tell(self, text: str, kind: str, message: str | bytes = "") -> None:
        error = {"type": kind, "code": kind, "message": text, "param": None, "event_id": _event_id(message)}
        event = {"type": "error", "event_id": "event_cortex_replay", "error": error}
        await self._connection.send(orjson.dumps(event).decode())
        await self._connection.close(_POLICY, text.partition("\n")[0])

    async def _record(self, first: str | bytes | None = None, greeted: int = 0) -> None:
        """Pass everything on, both ways, and take it down.

        Args:
            first: What the client has said already, to a recorded session that does not go on with it.
            greeted: How many messages of that session the client has got.
        """
        mode = self._asking.mode
        try:
            async with ask_opaquely(self._asking.run, self._what) as attempt:
                self._asking.observe(nothing, None)
                environment = self._engine.environment_of(self._asking)
                opened = await self._engine.relay.open_socket(self._opening, environment)
                if isinstance(opened, tuple):
                    await self._refuse(_reply_of(self._opening, opened), is_open=first is not None)
                    return
                tape = SessionTape(self._request, opened.subprotocol)
                try:
                    if first is None:
                        await self._connection.accept(opened.subprotocol)
                    await self._relay(opened, tape, first, greeted)
                finally:
                    await opened.aclose()
                attempt.is_good = True
        except LlmError as error:
            if self._connection.is_open:
                await self._tell(f"cortex-replay: {error}", "api_error")
            else:
                await self._refuse(refusal_of(self._opening, error), is_open=False)
            return
        if mode is Mode.LIVE or tape.is_empty:
            return
        if tape.is_too_large:
            self._asking.run.ledger.refuse(f"{self._what}: the session is too large to be recorded")
            return
        exchange = tape.exchange()
        look = look_up_exchange(self._binder, exchange.request or {})
        async with take_turn(self._asking, look) as turn:
            if turn.stored is None:
                await aside(tape.size, turn.keep, exchange.wire, self._what, self._opening.query)

    async def _refuse(self, reply: HttpReply, *, is_open: bool) -> None:
        if is_open:
            await self._tell(reply.body.decode(errors="replace"), "api_error")
        else:
            await self._connection.deny(reply)

    async def _relay(
        self, opened: UpstreamSocket, tape: SessionTape, first: str | bytes | None, greeted: int
    ) -> None:
        """Pass messages on until either side has closed.

        Raises:
            LlmError: The upstream broke off, or a message must not leave.
        """
        await self._skip_greeting(opened, tape, greeted)
        if first is not None:
            await self._pass_on(first, opened, tape)
        await _first_of(self._to_upstream(opened, tape), self._to_client(opened, tape))

    async def _skip_greeting(self, opened: UpstreamSocket, tape: SessionTape, greeted: int) -> None:
        try:
            async with asyncio.timeout(_GREETING_S):
                for _ in range(greeted):
                    message = await opened.receive()
                    if message is None:
                        raise Transport("the WebSocket was closed at once")
                    tape.add_received(message)
        except TimeoutError:
            pass  # it says less than when it was recorded

    async def _to_upstream(self, opened: UpstreamSocket, tape: SessionTape) -> None:
        try:
            while True:
                await self._pass_on(await self._connection.receive(), opened, tape)
        except Gone:
            pass

    async def _pass_on(self, message: str | bytes, opened: UpstreamSocket, tape: SessionTape) -> None:
        said = tape.add_sent(message)
        refuse_value_above(said, self._engine.most, "message")
        if self._asking.mode is not Mode.LIVE:
            refuse_value_above(said, self._asking.store.clearance, "message", STORE_GATE)
        environment = self._engine.environment_of(self._asking)
        await self._engine.relay.check_frame(self._opening, message, environment)
        await opened.send(message)

    async def _to_client(self, opened: UpstreamSocket, tape: SessionTape) -> None:
        while (message := await opened.receive()) is not None:
            tape.add_received(message)
            await self._connection.send(message)
        code, reason = opened.close_frame or (_BROKEN, "")
        code = 1000 if code in _NO_CODE else code
        tape.add_close(code, reason)
        await self._connection.close(code, reason)


async def _first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Do several things until one of them has ended."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        error = task.exception()
        if error is not None and not isinstance(error, Gone):
            raise error


def _reply_of(opening: Call, refused: UpgradeRefused) -> HttpReply:
    """What a client gets instead of a WebSocket that its provider does not open."""
    if 300 <= refused.status < 400:
        message = f"cortex-replay: {opening.route.upstream} answered with a redirect, which is never followed"
        return error_reply(None, 502, message, "api_error")
    headers = [pair for pair in client_headers(refused.headers) if pair[0] in ("content-type", "retry-after")]
    return HttpReply(refused.status, headers, refused.body)


def _pairs(query: JsonValue) -> list[list[JsonValue]]:
    return [pair for pair in query if isinstance(pair, list)] if isinstance(query, list) else []


def _event_id(message: str | bytes) -> str | None:
    """The id of a client's event, which an error about it repeats."""
    try:
        event = orjson.loads(message)
    except orjson.JSONDecodeError:
        return None
    event_id = event.get("event_id") if isinstance(event, dict) else None
    return event_id if isinstance(event_id, str) else None
