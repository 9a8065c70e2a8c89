"""Answers to calls: from the store, or from their providers while they are recorded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.config import Settings, known_secrets
from cortex_replay.engine.budget import Meter
from cortex_replay.engine.claims import Claims
from cortex_replay.engine.fixtures import FixtureMaker
from cortex_replay.engine.http.call import Call, Reply
from cortex_replay.engine.http.offload import aside
from cortex_replay.engine.http.opaque import opaque_key, opaque_request
from cortex_replay.engine.http.recording import OpaqueRecorder, WireRecorder
from cortex_replay.engine.http.relay import DUMMY_KEY, Relay
from cortex_replay.engine.http.render import Renderer, error_reply, is_as_recorded, reply_of_wire
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.engine.ledger import Ledger, shortened
from cortex_replay.engine.outcomes import Outcome, failure_of, recorded_outcome
from cortex_replay.engine.scope import RecordingScope, claims_of
from cortex_replay.engine.turns import Turns
from cortex_replay.errors import BudgetSpent, InvalidRequest, LlmError, NoFixture, Timeout
from cortex_replay.misses.explanation import (
    MISS_STATUS,
    explain_exhaustion,
    explain_miss,
    explain_opaque_miss,
    explain_other_way,
)
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.printable import defuse_commands, escape_controls
from cortex_replay.providers import provider_of
from cortex_replay.redact.process import learn_secret
from cortex_replay.redact.redactor import Redactor
from cortex_replay.redact.sensitivity import Sensitivity, SensitivityLevel
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import LlmRequest
from cortex_replay.wire import WIRES

__all__ = ["Engine"]

Observer = Callable[[Call, Outcome | None], None]

_WAIT_MS: Final = 600_000
"""How long a call waits for its turn: as long as the one before it may take."""
_MOST_LIFTED: Final = 4096
_MOST_TURNS: Final = 100_000
_MOST_BYTES_LIFTED: Final = 16 * 1024


class _Lifted(NamedTuple):
    """What a body asks for, as far as an answer depends on it."""

    key: FixtureKey
    stream: bool
    with_usage: bool
    is_single: bool
    """Whether one answer is asked for; of several, a rendered reply would hold only the first."""


class Engine:
    """Answers calls in one mode. It is a class to hold what calls of one run share: turns, claims, counts.

    Args:
        store: What is recorded, and where to record.
        mode: As everywhere.
        upstreams: Who may be asked.
        environment: Where keys are.
        redactor: What to cut out before anything is stored, or said about a miss.
        how_to_record: The command that would record what is missing, for messages.
        record_failures: Whether errors of providers are answers to be recorded.
        max_sensitivity: The highest label that may leave.
        timeout_ms: What a call to an upstream may take in all.
        meter: The budget of live calls.
        ledger: Where to count, if not in one of its own.
        claims: Those of the run, if it is not this process.
        keeps_shared: See :class:`~cortex_replay.engine.scope.RecordingScope`.
        meta: What recordings are to say of where they come from.
        observer: Is told every call and the answer that it got, where there is one.
    """

    def __init__(
        self,
        store: Store,
        mode: AnyMode,
        upstreams: Upstreams,
        *,
        environment: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
        how_to_record: str = "cortex-replay serve --mode once",
        record_failures: bool = False,
        max_sensitivity: SensitivityLevel = "medium",
        timeout_ms: int = _WAIT_MS,
        meter: Meter | None = None,
        ledger: Ledger | None = None,
        claims: Claims | None = None,
        keeps_shared: bool = False,
        meta: Mapping[str, JsonValue] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.store = store
        self.mode = mode = Mode.of(mode)
        self.upstreams = upstreams
        if redactor is None:
            redactor = Redactor(known_secrets(Settings(), {**os.environ, **(environment or {})}))
        self.redactor = redactor
        self.ledger = ledger or Ledger(self.redactor)
        self.observer = observer
        self._keeps_shared = keeps_shared
        self.how_to_record = how_to_record
        self._renderer = Renderer()
        self._lifted: dict[tuple[str, bytes], _Lifted] = {}
        self._turns: dict[tuple[str, FixtureKey], Turns] = {}
        self._relay = Relay(upstreams, environment or {}, timeout_ms, self._learn, self._finds)
        origin = {"adapter": "gateway", **(meta or {})}
        self._fixtures = FixtureMaker(store, self.redactor, origin, record_failures)
        self._claims = claims
        if claims is None and mode.writes:
            self._claims = claims_of(store)
        self._scopes: dict[str, RecordingScope] = {}
        most = Sensitivity.of(max_sensitivity)
        meter = self.meter = meter or Meter()
        self._wires = WireRecorder(self._relay, self.ledger, meter, most, self._observed)
        self._opaque = OpaqueRecorder(store, mode, self._relay, self.ledger, self.redactor, meter, most)

    def _learn(self, keys: list[str]) -> None:
        """A client has brought keys: they are neither to be stored nor to be shown."""
        keys = [key for key in keys if DUMMY_KEY not in key]
        if keys:
            self.redactor.learn(*keys)
        for key in keys:
            learn_secret(key)

    def _finds(self, document: JsonValue) -> bool:
        return bool(self.redactor.found_in(document))

    def at_once(self, call: Call) -> Reply | None:
        """The answer to a call where nothing has to be waited for: one that is replayed, whoever asks."""
        if self.mode is not Mode.REPLAY or call.route.protocol is None:
            return None
        lifted = self._known(call.route.protocol, call.body)
        if lifted is None or self.store.has_failures(*lifted.key):
            return None
        try:
            fixture = self.store.get(*lifted.key)
        except NoFixture:
            return None
        answers = fixture.answers
        if len(answers) != 1 or not _can_serve(answers[0], lifted, call.route.protocol):
            return None
        self.ledger.hit(lifted.key, answers[0].usage)
        self._observed(call, answers[0])
        return self._renderer.reply(
            answers[0],
            lifted.key,
            call.route.protocol,
            stream=lifted.stream,
            with_usage=lifted.with_usage,
            meta=fixture.meta,
        )

    @asynccontextmanager
    async def answering(self, call: Call) -> AsyncIterator[Reply]:
        """The answer to a call. Its turn has ended well when this is left without an error."""
        protocol = call.route.protocol
        lifted = None
        if protocol is not None:
            lifted = await aside(len(call.body), self._known, protocol, call.body)
        if protocol is None or lifted is None:
            answer = self._opaque_answer(call)
        elif self.mode is Mode.REPLAY:
            answer = self._replayed(call, protocol, lifted)
        else:
            answer = self._recorded(call, protocol, lifted)
        async with answer as reply:
            yield reply

    async def aclose(self) -> None:
        await self._relay.aclose()

    def _known(self, protocol: str, body: bytes) -> _Lifted | None:
        """What a body asks for; ``None`` if it cannot be told. Bodies repeat, to the byte."""
        place = (protocol, body)
        known = self._lifted.get(place)
        if known is not None:
            return known
        try:
            document = orjson.loads(body)
            request = WIRES[protocol].lift(document)
        except (InvalidRequest, orjson.JSONDecodeError):
            return None
        options = document.get("stream_options")
        lifted = _Lifted(
            self.store.key(request),
            WIRES[protocol].wants_stream(document),
            isinstance(options, dict) and options.get("include_usage") is True,
            request.extra.get("n", 1) == 1,
        )
        if len(body) <= _MOST_BYTES_LIFTED:
            while len(self._lifted) >= _MOST_LIFTED:
                del self._lifted[next(iter(self._lifted))]
            self._lifted[place] = lifted
        return lifted

    @asynccontextmanager
    async def _replayed(self, call: Call, protocol: str, lifted: _Lifted) -> AsyncIterator[Reply]:
        key = lifted.key
        failures = self.store.failures(*key)
        try:
            answers = self.store.get(*key).answers
        except NoFixture:
            answers = ()
        if not answers and not failures:  # nothing is counted: a stranger could ask for any number of keys
            yield await self._missed(call, protocol, key, is_exhausted=False)
            return
        turns = self._turns_of(call.scope, key)
        async with turns.taken(_WAIT_MS):
            n = turns.given + 1
            outcome = recorded_outcome(answers, failures, n)
            if outcome is None:
                yield await self._missed(call, protocol, key, is_exhausted=True)
                return
            if isinstance(outcome, Answer) and not _can_serve(outcome, lifted, protocol):
                explained = self._clean(explain_other_way(key, self.how_to_record))
                self.ledger.missed(f"{key.model} {key.prompt_hash[:16]}", explained)
                yield error_reply(protocol, MISS_STATUS, explained, "no_fixture")
                return
            self._observed(call, outcome)
            yield self._rendered(outcome, lifted, protocol)
            turns.advance()

    @asynccontextmanager
    async def _recorded(self, call: Call, protocol: str, lifted: _Lifted) -> AsyncIterator[Reply]:
        request = _request_in(protocol, call.body)
        if self.mode is Mode.LIVE:
            async with _or_refusal(call, self._wires.asked(call, request, lifted.key, None)) as reply:
                yield reply
            return
        async with self._scope(call.scope).turn(request, lifted.key, _WAIT_MS) as turn:
            if turn.recorded is not None:
                self._observed(call, turn.recorded)
                yield self._rendered(turn.recorded, lifted, protocol)
                turn.give(turn.recorded)
                return
            async with _or_refusal(call, self._wires.asked(call, request, lifted.key, turn)) as reply:
                yield reply

    @asynccontextmanager
    async def _opaque_answer(self, call: Call) -> AsyncIterator[Reply]:
        protocol = call.route.protocol
        request = await aside(len(call.body), opaque_request, call)
        key = await aside(len(call.body), opaque_key, request)
        exchange = self._opaque.known(key)
        if exchange is not None:
            self.ledger.hit(key)
            self._observed(call, exchange)
            yield reply_of_wire(exchange.wire)
        elif self.mode is Mode.REPLAY:
            problem = None if protocol is None else _problem_in(protocol, call.body)
            if problem is not None:
                yield error_reply(protocol, 400, f"cortex-replay: {problem}", "invalid_request_error")
                return
            explained = self._clean(explain_opaque_miss(request, key, self.how_to_record))
            self.ledger.missed(f"{call.method} {call.route.path}", explained)
            self._observed(call, None)
            yield error_reply(_protocol_like(call), MISS_STATUS, explained, "no_fixture")
        else:
            async with _or_refusal(call, self._opaque.asked(call, request, key)) as reply:
                self._observed(call, None)
                yield reply

    def _rendered(self, outcome: Outcome, lifted: _Lifted, protocol: str) -> Reply:
        if isinstance(outcome, Exchange):
            self.ledger.hit(lifted.key)
            if outcome.wire.get("protocol") == protocol:
                return reply_of_wire(outcome.wire)
            failure = failure_of(outcome)
            kind = failure.error_type or "api_error"
            return error_reply(protocol, failure.status, failure.message, kind, may_retry=True)
        self.ledger.hit(lifted.key, outcome.usage)
        return self._renderer.reply(
            outcome,
            lifted.key,
            protocol,
            stream=lifted.stream,
            with_usage=lifted.with_usage,
            meta=outcome.meta,
        )

    async def _missed(self, call: Call, protocol: str, key: FixtureKey, *, is_exhausted: bool) -> Reply:
        if is_exhausted:
            explained = explain_exhaustion(key, self.how_to_record)
        else:
            request = _request_in(protocol, call.body)
            explained = await asyncio.to_thread(
                explain_miss, self.store, request, key, self.how_to_record, self.redactor
            )
        explained = self._clean(explained)
        self.ledger.missed(f"{key.model} {key.prompt_hash[:16]}", explained)
        self._observed(call, None)
        return error_reply(protocol, MISS_STATUS, explained, "no_fixture")

    def _clean(self, text: str) -> str:
        """An explanation as a client may print it."""
        return defuse_commands(escape_controls(shortened(self.redactor.text(text)[0])))

    def _observed(self, call: Call, outcome: Outcome | None) -> None:
        if self.observer is not None:
            self.observer(call, outcome)

    def _turns_of(self, scope: str, key: FixtureKey) -> Turns:
        turns = self._turns.get((scope, key))
        if turns is None:
            if len(self._turns) >= _MOST_TURNS:
                raise InvalidRequest("scope", f"more than {_MOST_TURNS} were counted in this run; start anew")
            turns = self._turns[scope, key] = Turns()
        return turns

    def _scope(self, name: str) -> RecordingScope:
        scope = self._scopes.get(name)
        if scope is None:
            assert self._claims is not None  # noqa: S101 - of a mode that records
            scope = self._scopes[name] = RecordingScope(
                self.store, self._fixtures, self._claims, self.mode, keeps_shared=self._keeps_shared
            )
        return scope


def _can_serve(answer: Answer, lifted: _Lifted, protocol: str) -> bool:
    """Whether an answer can be given in the way that is asked for, whole."""
    return lifted.is_single or is_as_recorded(answer, protocol, stream=lifted.stream)


def _request_in(protocol: str, body: bytes) -> LlmRequest:
    """The request that a body makes, of which only the key is remembered."""
    return WIRES[protocol].lift(orjson.loads(body))


def _problem_in(protocol: str, body: bytes) -> str | None:
    """What is wrong with a body that makes no request."""
    try:
        _request_in(protocol, body)
    except orjson.JSONDecodeError:
        return "the body is not JSON"
    except InvalidRequest as error:
        return str(error)
    return None


def _protocol_like(call: Call) -> str | None:
    """The protocol whose errors a client of an upstream understands."""
    if call.route.protocol is not None:
        return call.route.protocol
    row = provider_of(call.route.upstream)
    return None if row is None else row.error_protocol


@asynccontextmanager
async def _or_refusal(call: Call, asked: AbstractAsyncContextManager[Reply]) -> AsyncIterator[Reply]:
    """An upstream's answer, or an error in its own shape if there is none. What goes wrong once the client
    has the head of an answer is not for here."""
    async with AsyncExitStack() as stack:
        try:
            reply = await stack.enter_async_context(asked)
        except LlmError as error:
            reply = _refusal(call, error)
        yield reply


def _refusal(call: Call, error: LlmError) -> Reply:
    protocol = _protocol_like(call)
    if isinstance(error, InvalidRequest | BudgetSpent):  # nothing was sent
        return error_reply(protocol, 400, f"cortex-replay: {error}", "invalid_request_error")
    # A client may try again, as it would without us.
    status = 504 if isinstance(error, Timeout) else 502
    message = f"cortex-replay: {call.route.upstream} did not answer: {error}"
    return error_reply(protocol, status, message, "api_error", may_retry=True)
