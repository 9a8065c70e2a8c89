"""One MCP session between a client and a server that may not be there."""

from __future__ import annotations

import asyncio

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.mcp.calls import Call
from cortex_replay.engine.mcp.client_side import ClientSide
from cortex_replay.engine.mcp.keeping import Keeper
from cortex_replay.engine.mcp.link import Connect, Outgoing, SendToClient, words_of
from cortex_replay.engine.mcp.lookups import look_up_tool
from cortex_replay.engine.mcp.misses import refuse_call
from cortex_replay.engine.mcp.open_calls import MOST_OPEN
from cortex_replay.engine.mcp.past import Past
from cortex_replay.engine.mcp.playback import Answered
from cortex_replay.engine.mcp.playbacks import Playbacks
from cortex_replay.engine.mcp.rules import Interruption
from cortex_replay.engine.mcp.server_side import ServerSide
from cortex_replay.engine.mcp.turns import CallTurn, begin_turn
from cortex_replay.engine.mcp.uplink import Uplink
from cortex_replay.engine.run_names import now_in_milliseconds
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import LlmError
from cortex_replay.mcp.messages import (
    CANCELLED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LISTEN,
    MOST_FRAME,
    OWN_IDS,
    PING,
    PROGRESS,
    Message,
    NotAMessage,
    RequestId,
    error_message,
    is_answer,
    messages_in,
    outcome_of,
    parameters_of,
    render_message,
    request_id,
)
from cortex_replay.mcp.questions import question_of
from cortex_replay.modes import Mode
from cortex_replay.redact.logs import logger_of

__all__ = ["Session"]

logger = logger_of(__name__)


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
        may_be_live = scope.mode is Mode.REPLAY and scope.run.call_rules.may_pass(server)
        self.may_ask = scope.mode.asks or may_be_live or scope.fork is not None
        """Whether an answer may come from the real server. Else all that a message leads to is said while it
        is taken."""
        has_past = scope.mode is Mode.ONCE or may_be_live or scope.fork is not None
        self._past = Past() if has_past else None
        self._keeper = Keeper(scope if scope.fork is None else scope.fork.road, server)
        self._client = ClientSide(scope, server, send)
        self._calls = self._client.calls
        self._playbacks = Playbacks(scope, server, self._client)
        self._server_side = ServerSide(scope, server, self._client, self._keeper)
        self._uplink = Uplink(
            connect,
            self._server_side.hear,
            self._client.fail,
            self._server_side.lose,
            self._calls.is_any_sent,
            self._past,
        )

    async def take(self, frame: bytes) -> None:
        """A frame of the client. Returns when the next one may come."""
        await self._server_side.settle()
        try:
            if len(frame) > MOST_FRAME:
                most = f"{MOST_FRAME // 2**20} MB"
                raise NotAMessage(f"a frame of more than {most} is not taken", INVALID_REQUEST)
            messages = messages_in(frame)
        except NotAMessage as error:
            await self._client.tell(error_message(None, error.code, f"cortex-replay: {error}"))
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
            keep: Whether what came behind the last call is kept; not if the time to record is over.
        """
        await self._server_side.settle()
        for call in self._calls:
            if call.playback is None and not call.is_kept and call.method != LISTEN:
                self._client.withdraw(call, "")
        if keep:
            self._keeper.follow(self._client.latest)  # before a server takes its time to end
        else:
            self._keeper.drop()
        await self._uplink.close()
        self._server_side.sum_up()

    # What the client says

    async def _take_message(self, frame: bytes, message: Message) -> None:
        if is_answer(message):
            await self._take_answer(frame, message)
        elif message.get("method") == CANCELLED:
            await self._cancel(frame, message)
        elif message.get("method") == PROGRESS:
            await self._pass_on(frame)
        else:
            await self._begin(Call.of(frame, message))

    async def _begin(self, call: Call) -> None:
        if call.id is not None and call.id in self._calls:
            text = f"cortex-replay: the request {call.id} is open still; each has an id of its own"
            refusal = error_message(call.id, INVALID_REQUEST, text)
            await self._client.send(Outgoing(render_message(refusal), None))
            return
        if len(self._calls) >= MOST_OPEN:
            text = f"cortex-replay: {MOST_OPEN} calls are open already"
            await self._client.refuse(call, INTERNAL_ERROR, text)
            return
        if call.method == PING and not self._uplink.is_open:
            await self._client.tell({"jsonrpc": "2.0", "id": call.id, "result": {}}, call.id, is_end=True)
            return
        self._calls.add(call)
        try:
            if call.method == PING:  # how often a client pings is a matter of time: it is not recorded
                await self._uplink.send(call.frame, call)
                return
            self._keeper.follow(self._client.latest)
            self._client.latest = call
            if self._past is not None:
                call.deed = self._past.add(call.frame, call.message)
            await self._serve(call)
        except LlmError as error:
            await self._client.fail(call, words_of(error))

    async def _serve(self, call: Call) -> None:
        scope = self._scope.now
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
            if call.id is not None:
                self._keeper.link_cause(call)
            await self._playbacks.play(call, wire, look)
        elif call.id is None:
            await self._pass_on_notification(call, turn)
        elif not scope.mode.asks:
            await self._miss(call, look, is_exhausted=turn.exhausted)
        else:
            call.turn = turn
            call.script.meta = {"run": scope.run.name, "asked_at": now_in_milliseconds()}
            if turn.state is not None:
                call.script.meta["call"] = turn.state.call
            self._keeper.link_cause(call)
            scope.run.ledger.ask()
            self._client.count("live")
            await self._uplink.send(call.frame, call)

    async def _interrupt(self, call: Call, by: Interruption) -> None:
        """Give the client what the rules of the run want it to get. No server hears of the call, a later one
        neither."""
        if call.deed is not None:
            call.deed.state = "failed"
        if by.is_policy and call.id is not None:
            self._scope.run.ledger.decline()
        if by.frame is not None and call.id is not None:
            await self._client.deliver(Outgoing(by.frame, call.id, is_end=True, closes=by.closes))

    async def _pass_through(self, call: Call) -> None:
        """Have the real server answer, in every mode; nothing of it is recorded."""
        if call.id is not None:
            self._scope.run.ledger.ask()
            self._client.count("live")
        elif self._past is not None and not self._uplink.is_open:
            return  # nothing is started for it; a server that is started later is told
        await self._uplink.send(call.frame, call)

    async def _take_answer(self, frame: bytes, message: Message) -> None:
        """The client answers the server, or what was recorded of it."""
        about = request_id(message)
        if isinstance(about, str) and about.startswith(OWN_IDS):
            await self._playbacks.take_answer(about, message)
            return
        if (asked := self._server_side.forget_question(about)) is not None:
            call, question = asked
            call.script.answer(message, len(frame))
            self._keeper.note(call)
            if call.deed is not None:
                told = Answered(str(question["method"]), question.get("params"), outcome_of(message))
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
            await self._playbacks.cancel(call, call.playback)
            return
        call.script.cancel(parameters.get("reason"))
        if call.turn is not None:
            self._keeper.try_to_keep(call)
        await self._pass_on(frame, is_due=True)

    async def _pass_on_notification(self, call: Call, turn: CallTurn) -> None:
        """Let the server know; in ``once`` nothing is started for it."""
        if self._scope.now.mode.asks and (self._past is None or self._uplink.is_open):
            call.turn = turn
            await self._uplink.send(call.frame, call)

    async def _pass_on(self, frame: bytes, *, is_due: bool = False) -> None:
        """Give the server a frame, if it is there; or once it is, if it is due behind another one."""
        if self._uplink.is_open or is_due:
            try:
                await self._uplink.send(frame)
            except LlmError as error:
                logger.warning("%s: %s", self._server, error)

    async def _miss(self, call: Call, look: ExchangeLookUp, *, is_exhausted: bool) -> None:
        refusal = await asyncio.to_thread(refuse_call, self._scope, look, is_exhausted=is_exhausted)
        await self._client.refuse(call, *refusal)
