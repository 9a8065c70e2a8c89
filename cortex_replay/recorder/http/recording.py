"""Relayed calls, taken down while the client already has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import FixtureIntegrityFailed, LlmError, RecordingRefused
from cortex_replay.recorder.http.call import Call, Reply
from cortex_replay.recorder.http.ledger import Ledger
from cortex_replay.recorder.http.opaque import encoded_body, is_worth_keeping, opaque_exchange
from cortex_replay.recorder.http.relay import Relay, client_headers, kept_headers
from cortex_replay.recorder.http.render import error_reply
from cortex_replay.recorder.http.taping import AnswerTape, StreamTape, whole_answer
from cortex_replay.recorder.meter import Meter
from cortex_replay.recorder.scope import Turn
from cortex_replay.redact.redactor import Redactor
from cortex_replay.redact.sensitivity import Sensitivity, refuse_above
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import LlmRequest, TokenUsage

if TYPE_CHECKING:
    from cortex_replay.adapters._http import ByteStream, Relayed

__all__ = ["OpaqueRecorder", "WireRecorder"]

_STREAMS: Final = ("text/event-stream", "application/x-ndjson", "application/jsonl")
_REST_S: Final = 0.25
"""How long to wait for what a server may send after the last event."""


class WireRecorder:
    """Asks a provider what a request was lifted from, and keeps what it answers."""

    def __init__(self, relay: Relay, ledger: Ledger, meter: Meter, most: Sensitivity) -> None:
        self._relay = relay
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
            relayed = await stack.enter_async_context(self._relay.sent(call))
            if (refusal := _redirected(call, relayed)) is not None:
                yield refusal
                return
            kept = _Kept(self._ledger, key, request, turn, bill.pay)
            headers = tuple(client_headers(relayed.headers))
            if relayed.status == 200 and relayed.body.content_type in _STREAMS:
                live = self._taken_down(call, request, relayed, kept)
                yield Reply(relayed.status, headers, live=live)
                return
            body = await relayed.body.read_all()
            kept.whole(call.route.protocol or "", relayed, body)
            yield Reply(relayed.status, headers, body)

    async def _taken_down(
        self, call: Call, request: LlmRequest, relayed: Relayed, kept: _Kept
    ) -> AsyncIterator[bytes]:
        tape = AnswerTape(request, call.route.protocol or "", relayed.body.content_type)
        while data := await relayed.body.read():
            tape.add(data)
            if tape.response is not None:
                rest = await _rest_of(relayed.body)
                tape.add(rest)
                kept.stream(tape, relayed)
                yield data + rest
                return
            yield data
        tape.end()
        kept.stream(tape, relayed)


class _Kept:
    """Keeps one answer, or says why not; the client gets it all the same."""

    def __init__(
        self,
        ledger: Ledger,
        key: FixtureKey,
        request: LlmRequest,
        turn: Turn | None,
        pay: Callable[[TokenUsage | None], None],
    ) -> None:
        self._ledger = ledger
        self._key = key
        self._request = request
        self._turn = turn
        self._pay = pay

    def whole(self, protocol: str, relayed: Relayed, body: bytes) -> None:
        headers = _stored_headers(relayed)
        if relayed.status != 200:
            self._ledger.asked(is_good=False)
            self._pay(TokenUsage(0, 0))
            if self._turn is not None:
                wire = {
                    "protocol": protocol,
                    "status": relayed.status,
                    "headers": headers,
                    **encoded_body(body),
                }
                self._turn.keep_failure(wire)
            return
        try:
            answer, response = whole_answer(self._request, protocol, body, headers)
        except LlmError as error:
            self._ledger.asked(is_good=False)
            self._ledger.refuse(f"{self._what}: {error}")
            return
        self._keep(answer, response.usage)

    def stream(self, tape: AnswerTape, relayed: Relayed) -> None:
        if tape.response is None:
            self._ledger.asked(is_good=False)
            self._ledger.refuse(f"{self._what}: {tape.problem}")
            return
        self._keep(tape.answer(_stored_headers(relayed)), tape.response.usage)

    def _keep(self, answer: Answer, usage: TokenUsage | None) -> None:
        self._ledger.asked()
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
    """Asks an upstream what is recorded as it is, once for all who want it at the same time."""

    def __init__(self, store: Store, mode: str, relay: Relay, ledger: Ledger, redactor: Redactor) -> None:
        self._store = store
        self._writes = mode in ("record", "once")
        self._overwrites = mode == "record"
        self._relay = relay
        self._ledger = ledger
        self._redactor = redactor
        self._staged: dict[str, Exchange] = {}

    def known(self, key: str) -> Exchange | None:
        """What is recorded for a key, committed or in this run."""
        return self._staged.get(key) or self._store.exchange(key)

    @asynccontextmanager
    async def asked(self, call: Call, request: dict[str, JsonValue], key: str) -> AsyncIterator[Reply]:
        """The upstream's answer, as it comes.

        Raises:
            Transport, Timeout: The upstream did not answer.
        """
        async with self._relay.sent(call) as relayed:
            if (refusal := _redirected(call, relayed)) is not None:
                yield refusal
                return
            headers = tuple(client_headers(relayed.headers))
            if relayed.body.content_type in _STREAMS:
                yield Reply(relayed.status, headers, live=self._taken_down(request, relayed, key))
                return
            body = await relayed.body.read_all()
            self._keep(request, relayed, key, encoded_body(body))
            yield Reply(relayed.status, headers, body)

    async def _taken_down(
        self, request: dict[str, JsonValue], relayed: Relayed, key: str
    ) -> AsyncIterator[bytes]:
        tape = StreamTape(relayed.body.content_type)
        while data := await relayed.body.read():
            tape.add(data)
            yield data
        self._keep(request, relayed, key, tape.recorded())

    def _keep(
        self, request: dict[str, JsonValue], relayed: Relayed, key: str, content: dict[str, JsonValue]
    ) -> None:
        self._ledger.asked(is_good=relayed.status < 400)
        if not self._writes or not is_worth_keeping(relayed.status):
            return
        what = f"{request['method']} {request['path']}"
        if self._redactor.json(request)[1]:
            self._ledger.refuse(f"{what}: there is a secret in what was asked")
            return
        wire, _ = self._redactor.json(
            {"status": relayed.status, "headers": _stored_headers(relayed), **content}
        )
        exchange = opaque_exchange(request, wire if isinstance(wire, dict) else {})
        if self._redactor.left_in(exchange.wire):
            self._ledger.refuse(f"{what}: a secret could not be cut out of the answer")
            return
        self._store.add_exchange(exchange, overwrite=self._overwrites, yields=not self._overwrites)
        self._staged[key] = exchange
        self._ledger.keep(key)


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
