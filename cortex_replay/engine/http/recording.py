"""Relayed calls, taken down while the client already has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.budget import Meter
from cortex_replay.engine.http.call import Call, Reply
from cortex_replay.engine.http.offload import aside
from cortex_replay.engine.http.opaque import encoded_body, is_worth_keeping, opaque_exchange
from cortex_replay.engine.http.relay import Relay, client_headers, kept_headers
from cortex_replay.engine.http.render import error_reply, reply_of_wire
from cortex_replay.engine.http.tapes import AnswerTape, StreamTape, whole_answer
from cortex_replay.engine.ledger import Ledger
from cortex_replay.engine.scope import Turn
from cortex_replay.engine.staging import StoreDoor
from cortex_replay.engine.turns import Turns
from cortex_replay.errors import FixtureIntegrityFailed, LlmError, RecordingRefused
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.redact.sensitivity import Sensitivity, refuse_above, refuse_value_above
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import LlmRequest, TokenUsage

if TYPE_CHECKING:
    from cortex_replay.adapters.http import ByteStream, Relayed

__all__ = ["OpaqueRecorder", "WireRecorder"]

_STREAMS: Final = ("text/event-stream", "application/x-ndjson", "application/jsonl")
_WAIT_MS: Final = 600_000
_REST_S: Final = 0.25
"""How long to wait for what a server may send after the last event."""


class WireRecorder:
    """Asks a provider what a request was lifted from, and keeps what it answers."""

    def __init__(
        self,
        relay: Relay,
        ledger: Ledger,
        meter: Meter,
        most: Sensitivity,
        observed: Callable[[Call, Answer | None], None],
    ) -> None:
        self._relay = relay
        self._observed = observed
        self._ledger = ledger
        self._meter = meter
        self._most = most

    @asynccontextmanager
    async def asked(
        self, call: Call, request: LlmRequest, key: FixtureKey, turn: Turn | None
    ) -> AsyncIterator[Reply]:
        """The provider's answer, as it comes. It is kept, if there is a turn to keep it for, before the
        client has its end: whoever has all of it may never come back.

        Raises:
            InvalidRequest: It holds text that must not leave.
            BudgetSpent: It might cost more than is left.
            Transport, Timeout: The provider did not answer.
        """
        refuse_above(request, self._most)
        async with AsyncExitStack() as stack:
            bill = await stack.enter_async_context(self._meter.call(request))
            observed = partial(self._observed, call)
            kept = stack.enter_context(_Kept(self._ledger, key, request, turn, bill.pay, observed))
            relayed = await stack.enter_async_context(self._relay.sent(call))
            if (refusal := _redirected(call, relayed)) is not None:
                yield refusal
                return
            headers = tuple(client_headers(relayed.headers))
            if relayed.status == 200 and relayed.body.content_type in _STREAMS:
                live = self._taken_down(call, request, relayed, kept)
                yield Reply(relayed.status, headers, live=live)
                return
            body = await relayed.body.read_all()
            await aside(len(body) + len(call.body), kept.whole, call.route.protocol or "", relayed, body)
            yield Reply(relayed.status, headers, body)

    async def _taken_down(
        self, call: Call, request: LlmRequest, relayed: Relayed, kept: _Kept
    ) -> AsyncIterator[bytes]:
        tape = AnswerTape(request, call.route.protocol or "", relayed.body.content_type)
        size = len(call.body)
        while data := await relayed.body.read():
            tape.add(data)
            size += len(data)
            if tape.response is not None:
                rest = await _rest_of(relayed.body)
                tape.add(rest)
                await aside(size, kept.stream, tape, relayed)
                yield data + rest
                return
            yield data
        tape.end()
        await aside(size, kept.stream, tape, relayed)


class _Kept:
    """Keeps one answer, or says why not; the client gets it all the same."""

    def __init__(
        self,
        ledger: Ledger,
        key: FixtureKey,
        request: LlmRequest,
        turn: Turn | None,
        pay: Callable[[TokenUsage | None], None],
        observed: Callable[[Answer | None], None],
    ) -> None:
        self._ledger = ledger
        self._key = key
        self._request = request
        self._turn = turn
        self._pay = pay
        self._is_good = False
        self._problem = ""
        self._observed = observed

    def __enter__(self) -> Self:
        self._ledger.asked()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if not self._is_good:
            self._observed(None)
            reason = self._problem or (str(error) if isinstance(error, LlmError) else "")
            self._ledger.fail(f"{self._what}: {reason}" if reason else "")

    def whole(self, protocol: str, relayed: Relayed, body: bytes) -> None:
        headers = _stored_headers(relayed)
        if relayed.status != 200:
            self._pay(TokenUsage(0, 0))
            self._problem = f"status {relayed.status}"
            wire = {"protocol": protocol, "status": relayed.status, "headers": headers, **encoded_body(body)}
            try:
                if self._turn is not None and self._turn.keep_failure(wire):
                    self._ledger.keep(self._key)
            except (RecordingRefused, FixtureIntegrityFailed) as error:
                self._ledger.refuse(f"{self._what}: {error}")
            return
        try:
            answer, response = whole_answer(self._request, protocol, body, headers)
        except LlmError as error:
            self._problem = str(error)
            return
        self._keep(answer, response.usage)

    def stream(self, tape: AnswerTape, relayed: Relayed) -> None:
        if tape.response is None:
            self._problem = str(tape.problem)
            return
        self._keep(tape.answer(_stored_headers(relayed)), tape.response.usage)

    def _keep(self, answer: Answer, usage: TokenUsage | None) -> None:
        self._is_good = True
        self._observed(answer)
        self._pay(usage)
        if self._turn is None:
            self._ledger.spend(usage, self._key.model)
            return
        try:
            self._turn.keep(answer)
        except (RecordingRefused, FixtureIntegrityFailed) as error:
            self._ledger.refuse(f"{self._what}: {error}")
            self._ledger.spend(usage, self._key.model)
        else:
            self._ledger.keep(self._key, usage, self._key.model)

    @property
    def _what(self) -> str:
        return f"{self._key.model} {self._key.prompt_hash[:16]}"


class OpaqueRecorder:
    """Asks an upstream what is recorded as it is, once in a run for all who want it."""

    def __init__(
        self,
        store: Store,
        mode: Mode,
        relay: Relay,
        ledger: Ledger,
        redactor: Redactor,
        meter: Meter,
        most: Sensitivity,
    ) -> None:
        self._store = store
        self._mode = mode
        self._relay = relay
        self._ledger = ledger
        self._door = StoreDoor(store, redactor)
        self._meter = meter
        self._most = most
        self._staged: dict[str, Exchange] = {}
        self._turns: dict[str, Turns] = {}

    def known(self, key: str) -> Exchange | None:
        """What a call with this key gets without asking: what this run has recorded, or the store has."""
        if self._mode is Mode.LIVE:
            return None
        return self._staged.get(key) or (None if self._mode is Mode.RECORD else self._store.exchange(key))

    @asynccontextmanager
    async def asked(self, call: Call, request: dict[str, JsonValue], key: str) -> AsyncIterator[Reply]:
        """The upstream's answer, as it comes; or what somebody else was given who asked at the same time.

        Raises:
            InvalidRequest: It holds text that must not leave.
            BudgetSpent: No more calls may be made.
            Transport, Timeout: The upstream did not answer.
        """
        await aside(len(call.body), refuse_value_above, request["body"], self._most, "body")
        async with AsyncExitStack() as stack:
            if self._mode is not Mode.LIVE:
                turns = self._turns.setdefault(key, Turns())
                await stack.enter_async_context(turns.taken(_WAIT_MS))
                if (exchange := self.known(key)) is not None:
                    self._ledger.hit(key)
                    yield reply_of_wire(exchange.wire)
                    return
            bill = await stack.enter_async_context(self._meter.call_of(0))
            bill.pay(TokenUsage(0, 0))
            attempt = stack.enter_context(_Attempt(self._ledger, f"{request['method']} {request['path']}"))
            relayed = await stack.enter_async_context(self._relay.sent(call))
            if (refusal := _redirected(call, relayed)) is not None:
                yield refusal
                return
            headers = tuple(client_headers(relayed.headers))
            if relayed.body.content_type in _STREAMS:
                yield Reply(
                    relayed.status, headers, live=self._taken_down(call, request, relayed, key, attempt)
                )
                return
            body = await relayed.body.read_all()
            size = len(body) + len(call.body)
            await aside(size, self._keep, call, request, relayed, key, encoded_body(body), attempt)
            yield Reply(relayed.status, headers, body)

    async def _taken_down(
        self, call: Call, request: dict[str, JsonValue], relayed: Relayed, key: str, attempt: _Attempt
    ) -> AsyncIterator[bytes]:
        tape = StreamTape(relayed.body.content_type)
        size = len(call.body)
        while data := await relayed.body.read():
            tape.add(data)
            size += len(data)
            yield data
        await aside(size, self._keep, call, request, relayed, key, tape.recorded(), attempt)

    def _keep(
        self,
        call: Call,
        request: dict[str, JsonValue],
        relayed: Relayed,
        key: str,
        content: dict[str, JsonValue],
        attempt: _Attempt,
    ) -> None:
        attempt.is_good = relayed.status < 400
        if self._mode is Mode.LIVE or not is_worth_keeping(relayed.status):
            return
        exchange = opaque_exchange(
            request, {"status": relayed.status, "headers": _stored_headers(relayed), **content}
        )
        try:
            self._door.refuse_asked(request, call.query)
        except RecordingRefused:
            self._ledger.refuse(f"{attempt.what}: there is a secret in what was asked")
            return
        try:
            exchange = self._door.stage_exchange(exchange, overwrite=self._mode is Mode.RECORD)
        except RecordingRefused:
            self._ledger.refuse(f"{attempt.what}: a secret could not be cut out of the answer")
            return
        self._staged[key] = exchange
        self._ledger.keep(key)


class _Attempt:
    """One live call of an opaque kind, counted."""

    def __init__(self, ledger: Ledger, what: str) -> None:
        self.what = what
        self.is_good = False
        self._ledger = ledger

    def __enter__(self) -> Self:
        self._ledger.asked()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if not self.is_good:
            self._ledger.fail(f"{self.what}: {error}" if isinstance(error, LlmError) else "")


def _stored_headers(relayed: Relayed) -> dict[str, JsonValue]:
    return dict(kept_headers(relayed.headers))


def _redirected(call: Call, relayed: Relayed) -> Reply | None:
    """A redirect would lead a client, and its key, around the gateway."""
    if not 300 <= relayed.status < 400 or relayed.status == 304:
        return None
    message = f"cortex-replay: {call.route.upstream} answered with a redirect, which is never followed"
    return error_reply(call.route.protocol, 502, message, "api_error")


async def _rest_of(body: ByteStream) -> bytes:
    """What follows the last event: a blank line, most often nothing."""
    rest = b""
    try:
        async with asyncio.timeout(_REST_S):
            while data := await body.read():
                rest += data
    except (TimeoutError, LlmError):
        pass
    return rest
