"""One session of MCP between a client and a server that may not be there."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Final

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.mcp.calls import Call
from cortex_replay.engine.mcp.counts import CallKind
from cortex_replay.engine.mcp.keeping import Keeper
from cortex_replay.engine.mcp.link import Connect, Outgoing, Said, SendToClient
from cortex_replay.engine.mcp.lookups import look_up_tool
from cortex_replay.engine.mcp.misses import refuse_call
from cortex_replay.engine.mcp.open_calls import OpenCalls
from cortex_replay.engine.mcp.past import Past
from cortex_replay.engine.mcp.playback import Answered, Playback
from cortex_replay.engine.mcp.rules import Interruption
from cortex_replay.engine.mcp.turns import CallTurn, begin_turn
from cortex_replay.engine.mcp.uplink import Uplink, words_of
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import LlmError
from cortex_replay.mcp.messages import (
    CANCELLED,
    INITIALIZE,
    INITIALIZED,
    LISTEN,
    MOST_FRAME,
    NO_FIXTURE,
    OWN_IDS,
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
    outcome_of,
    parameters_of,
    render_message,
    request_id,
)
from cortex_replay.mcp.questions import question_of
from cortex_replay.modes import Mode
from cortex_replay.redact.logs import logger_of
from cortex_replay.store.exchange import Exchange

__all__ = ["Session"]

logger = logger_of(__name__)
_INVALID: Final = -32600
_INTERNAL: Final = -32603
_HANDSHAKE: Final = (INITIALIZE, INITIALIZED)
_MOST_OPEN: Final = 10_000
"""Calls at once, and requests of the server that the client has not answered."""


def _nothing() -> None:
    return None


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
        self._send = send
        may_be_live = scope.mode is Mode.REPLAY and scope.run.call_rules.may_pass(server)
        self._past = Past() if scope.mode is Mode.ONCE or may_be_live else None
        self._uplink = Uplink(
            connect, self._take_from_server, self._fail, self._lose_server, self._is_busy, self._past
        )
        self._keeper = Keeper(scope, server)
        self._calls = OpenCalls()
        self._anchor: Call | None = None
        """What the client said last: to it belongs what the server says while no call is open."""
        self._playbacks: dict[str, Call] = {}
        self._played = 0
        self._questions: dict[RequestId, tuple[Call, Message]] = {}
        """What the server has asked the client, and which call it belongs to."""
        self._strange = 0

    async def take(self, frame: bytes) -> None:
        """A frame of the client. Returns when the next one may come."""
        try:
            if len(frame) > MOST_FRAME:
                raise NotAMessage(f"a frame of more than {MOST_FRAME // 2**20} MB is not taken", _INVALID)
            messages = messages_in(frame)
        except NotAMessage as error:
            await self._tell(error_message(None, error.code, f"cortex-replay: {error}"))
            return
        for message in messages:
            await self._take_message(frame if len(messages) == 1 else render_message(message), message)

    async def cancel(self, about: RequestId, reason: str | None = None) -> None:
        """The client has given a request up without a word: it closed what the answer would come through."""
        parameters: dict[str, JsonValue] = {"requestId": about}
        parameters |= {"reason": reason} if reason else {}
        message: Message = {"jsonrpc": "2.0", "method": CANCELLED, "params": parameters}
        if about in self._calls:
            await self._cancel(render_message(message), message)

    async def finish(self, timeout_s: float) -> None:
        """Wait for the end of open calls; the client says nothing more."""
        await self._calls.wait_for_none(timeout_s)

    async def close(self, *, keep: bool = True) -> None:
        """The client has left: keep what came, and end the server.

        Args:
            keep: Whether what came behind the last call is kept; not if nobody may record any more.
        """
        for call in self._calls:
            if call.playback is None and not call.is_kept and call.method != LISTEN:
                self._withdraw(call, "")
        if keep:
            self._keeper.follow(self._anchor)  # before a server takes its time to end
        else:
            self._keeper.drop()
        await self._uplink.close()
        if self._strange:
            lines = (
                "1 frame that is no message"
                if self._strange == 1
                else f"{self._strange} frames that are none"
            )
            self._scope.run.ledger.remark(
                f"{self._server}: {lines} of JSON-RPC; the client got what was said"
            )

    # What the client says

    async def _take_message(self, frame: bytes, message: Message) -> None:
        if is_answer(message):
            await self._take_answer(frame, message)
        elif message.get("method") == CANCELLED:
            await self._cancel(frame, message)
        elif message.get("method") == PROGRESS:
            await self._pass_on(frame)
        elif is_request(message) or is_notification(message):
            await self._begin(Call.of(frame, message))
        else:
            await self._tell(error_message(None, _INVALID, "cortex-replay: it is no message of JSON-RPC 2.0"))

    async def _begin(self, call: Call) -> None:
        if call.id is not None and call.id in self._calls:
            text = f"cortex-replay: the request {call.id} is open still; each has an id of its own"
            await self._send(Outgoing(render_message(error_message(call.id, _INVALID, text)), None))
            return
        if len(self._calls) >= _MOST_OPEN:
            await self._refuse(call, _INTERNAL, f"cortex-replay: {_MOST_OPEN} calls are open already")
            return
        if call.method == PING and not self._uplink.is_open:
            await self._tell({"jsonrpc": "2.0", "id": call.id, "result": {}}, call.id, is_end=True)
            return
        self._calls.add(call)
        try:
            if call.method == PING:  # how often a client pings is a matter of time: it is not recorded
                await self._uplink.send(call.frame, call)
                return
            self._keeper.follow(self._anchor)
            self._anchor = call
            if self._past is not None:
                call.deed = self._past.add(call.frame, call.message)
            await self._serve(call)
        except LlmError as error:
            await self._fail(call, words_of(error))

    async def _serve(self, call: Call) -> None:
        scope = self._scope
        ruled = scope.run.call_rules.decide(scope.name, self._server, call.message)
        if isinstance(ruled, Interruption):
            await self._interrupt(call, ruled)
            return
        if ruled == "live":
            await self._pass_through(call)
            return
        look = look_up_tool(scope, question_of(self._server, call.method, parameters_of(call.message)))
        turn = begin_turn(scope, look, is_notification=call.id is None)
        wire = turn.wire
        if wire is not None:
            turn.serve()
            await self._play(call, wire, look)
        elif call.id is None:
            await self._pass_on_notification(call, turn)
        elif not scope.mode.asks:
            await self._miss(call, look, is_exhausted=turn.exhausted)
        else:
            call.turn = turn
            call.script.meta = {"run": scope.run.name, "asked_at": _now()}
            if turn.state is not None:
                call.script.meta["call"] = turn.state.call
            self._keeper.link_cause(call)
            scope.run.ledger.ask()
            self._count("live")
            await self._uplink.send(call.frame, call)

    async def _interrupt(self, call: Call, by: Interruption) -> None:
        """Give the client what the rules of the run want it to get. No server hears of the call, a later one
        neither."""
        if call.deed is not None:
            call.deed.state = "failed"
        if by.is_policy and call.id is not None:
            self._scope.run.ledger.decline()
        if by.frame is not None and call.id is not None:
            await self._deliver(Outgoing(by.frame, call.id, is_end=True, closes=by.closes))

    async def _pass_through(self, call: Call) -> None:
        """Have the real server answer, in every mode; nothing of it is recorded."""
        if call.id is not None:
            self._scope.run.ledger.ask()
            self._count("live")
        elif self._past is not None and not self._uplink.is_open:
            return  # nothing is started for it; a server that is started later is told
        await self._uplink.send(call.frame, call)

    async def _take_answer(self, frame: bytes, message: Message) -> None:
        """The client answers the server, or what was recorded of it."""
        about = request_id(message)
        if isinstance(about, str) and about.startswith(OWN_IDS):
            played = self._playbacks.get(about.rpartition("-")[0])
            if played is not None:
                await self._go_on(played, message)
            return
        call, asked = self._questions.pop(about, (None, message)) if about is not None else (None, message)
        if call is not None:
            call.script.answer(message, len(frame))
            self._keeper.note(call)
            if call.deed is not None:
                told = Answered(str(asked["method"]), asked.get("params"), outcome_of(message))
                call.deed.answers.append(told)
        await self._pass_on(frame)

    async def _cancel(self, frame: bytes, message: Message) -> None:
        parameters = parameters_of(message)
        call = self._calls.get(parameters.get("requestId"))
        if call is None:
            if self._past is None:
                await self._pass_on(frame)
            return
        self._calls.remove(call)
        if call.deed is not None:
            call.deed.state = "cancelled"
        if call.playback is not None:
            await call.playback.cancel()
            await self._settle(call)
            return
        call.script.cancel(parameters.get("reason"))
        if call.turn is not None:
            self._keeper.try_to_keep(call)
        await self._pass_on(frame, is_due=True)

    async def _pass_on_notification(self, call: Call, turn: CallTurn) -> None:
        """Let the server know; in ``once`` nothing is started for it."""
        if self._scope.mode.asks and (self._past is None or self._uplink.is_open):
            call.turn = turn
            await self._uplink.send(call.frame, call)

    async def _pass_on(self, frame: bytes, *, is_due: bool = False) -> None:
        """Give the server a frame, if it is there; or once it is, if it is due behind another one."""
        if self._uplink.is_open or is_due:
            try:
                await self._uplink.send(frame)
            except LlmError as error:
                logger.warning("%s: %s", self._server, error)

    # What is recorded

    async def _play(self, call: Call, wire: dict[str, JsonValue], look: ExchangeLookUp) -> None:
        scope = self._scope
        if call.id is None:
            scope.run.ledger.use(look.key)
        else:
            scope.serve(_nothing, look.key, Exchange(wire, key=look.key))
            self._count("hits")
            self._keeper.link_cause(call)
        if scope.mode is Mode.REPLAY and call.deed is not None and call.method not in _HANDSHAKE:
            call.deed.state = "failed"  # a server that is there for tools that are live runs no other one
        self._played += 1
        name = f"{OWN_IDS}{self._played}"
        call.playback = Playback(
            wire, call.message, self._deliver, name, self._clean, self._calls.subscription
        )
        self._playbacks[name] = call
        if len(self._playbacks) > _MOST_OPEN:  # of those that wait for the client, the oldest waits in vain
            self._playbacks.pop(next(iter(self._playbacks)))
        await call.playback.play()
        await self._settle(call)

    async def _go_on(self, call: Call, answer: Message) -> None:
        """The client has answered what a playback asked."""
        playback = call.playback
        assert playback is not None  # noqa: S101 - it asked
        difference = playback.take_answer(answer)
        if call.deed is not None:
            call.deed.answers[:] = playback.answered
        if difference:
            what = call.name(self._server)
            explained = self._scope.clean(f"cortex-replay: {what}: {difference}")
            if call.id is not None and not playback.has_ended:
                playback.stop()
                text = f"{explained}\nTo record it: {self._scope.how_to_record}"
                self._scope.count_miss(what, text, _nothing)
                self._count("missed")
                await self._refuse(call, NO_FIXTURE, text)
            else:
                self._scope.run.ledger.remark(explained)
        await playback.play()
        await self._settle(call)

    async def _settle(self, call: Call) -> None:
        if call.playback is not None and call.playback.is_over:
            self._playbacks.pop(call.playback.name, None)
            if self._calls.get(call.id) is call and call.method != LISTEN:
                text = f"cortex-replay: the recording of {self._server} {call.method} has no end"
                await self._refuse(call, _INTERNAL, text)

    def _clean(self, value: JsonValue) -> JsonValue:
        return self._scope.run.redactor.document(value)[0]

    async def _miss(self, call: Call, look: ExchangeLookUp, *, is_exhausted: bool) -> None:
        refusal = await asyncio.to_thread(refuse_call, self._scope, look, is_exhausted=is_exhausted)
        await self._refuse(call, *refusal)

    # What the client gets

    async def _fail(self, call: Call, problem: str) -> None:
        """Nothing comes of a call."""
        text = self._scope.clean(f"{self._server}: {problem}")
        if call.id is None:
            logger.warning("%s", text)
        elif call.id in self._calls:
            self._withdraw(call, text)
            await self._refuse(call, _INTERNAL, f"cortex-replay: {text}")

    def _count(self, kind: CallKind) -> None:
        self._scope.run.ledger.count_call(self._server, kind)

    def _withdraw(self, call: Call, problem: str) -> None:
        if call.deed is not None:
            call.deed.state = "failed"
        if call.turn is not None and not call.is_kept:
            call.turn.withdraw()
            self._scope.run.ledger.fail(problem, is_sent=call.is_sent)
            self._count("failed")

    async def _refuse(self, call: Call, code: int, text: str) -> None:
        if call.id is None:
            logger.warning("%s", text)
            return
        kind = "no_fixture" if code == NO_FIXTURE else "error"
        await self._tell(error_message(call.id, code, text, {"type": kind}), call.id, is_end=True)

    async def _tell(self, message: Message, about: RequestId | None = None, *, is_end: bool = False) -> None:
        await self._deliver(Outgoing(render_message(message), about, is_end))

    async def _deliver(self, out: Outgoing) -> None:
        """Send a frame. A request is forgotten before its answer is sent: the client may use its id anew."""
        call = self._calls.get(out.about) if out.is_end else None
        if call is not None:
            self._calls.remove(call)
            if call.deed is not None and call.deed.state == "open":
                call.deed.state = "answered"
        await self._send(out)

    # What the server says

    async def _take_from_server(self, said: Said) -> None:
        if said.problem:
            failed = self._calls.get(said.about)
            if failed is not None and failed.playback is None:
                await self._fail(failed, said.problem)
            return
        try:
            messages = messages_in(said.frame)
        except NotAMessage as error:
            await self._take_strange(said, str(error))
            return
        for message in messages:
            frame = said.frame if len(messages) == 1 else render_message(message)
            if is_answer(message):
                await self._take_result(frame, message)
            else:
                await self._take_other(Said(frame, said.about), message)

    async def _take_result(self, frame: bytes, message: Message) -> None:
        about = request_id(message)
        if about is None:  # an error that is about no request
            await self._send(Outgoing(frame))
            return
        call = self._calls.get(about)
        if call is None or call.playback is not None:
            return  # the client has given it up, or has its answer
        call.script.end(message, len(frame))
        try:
            self._keeper.keep(call)
        except (LlmError, OSError) as error:
            await self._fail(call, f"its answer could not be kept: {words_of(error)}")
            return
        await self._deliver(Outgoing(frame, about, is_end=True))

    async def _take_other(self, said: Said, message: Message) -> None:
        """A notification, or a request to the client."""
        call = self._calls.owner_of(message, said.about) or self._anchor
        number, subscribed = self._calls.subscription_of(message)
        if call is not None and call.turn is not None and message.get("method") != PING:
            if is_request(message):
                call.script.ask(message, len(said.frame))
                self._remember_question(call, message)
            else:
                call.script.notify(message, len(said.frame), number)
            self._keeper.note(call)
        is_open = call is not None and self._calls.get(call.id) is call
        about = call.id if call is not None and is_open else None
        await self._send(Outgoing(said.frame, about if subscribed is None else subscribed))

    def _remember_question(self, call: Call, message: Message) -> None:
        about = request_id(message)
        if about is not None:
            self._questions[about] = call, message
            if len(self._questions) > _MOST_OPEN:
                self._questions.pop(next(iter(self._questions)))

    async def _take_strange(self, said: Said, reason: str) -> None:
        """A frame that is no message, or cannot be stored: the client gets it, as it would without us."""
        self._strange += 1
        try:
            message = orjson.loads(said.frame)
        except ValueError:
            message = None
        call = None
        if isinstance(message, dict) and ("result" in message or "error" in message):
            call = self._calls.get(request_id(message))
        if call is None or call.playback is not None:
            await self._send(Outgoing(said.frame, said.about))
            return
        self._withdraw(call, "")
        what = call.name(self._server)
        self._scope.run.ledger.refuse(f"{what}: its answer cannot be stored: {reason}")
        await self._deliver(Outgoing(said.frame, call.id, is_end=True))

    async def _lose_server(self, problem: str) -> None:
        self._keeper.flush()
        for call in self._calls:
            if call.playback is None and call.is_sent:
                await self._fail(call, problem)

    def _is_busy(self) -> bool:
        return any(call.is_sent for call in self._calls)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
