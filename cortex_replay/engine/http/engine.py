"""Answers to calls: from the store, or from their providers while they are recorded."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.core import RunCore
from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.exchanges import look_up_call, nothing, sole_wire, take_turn
from cortex_replay.engine.http.aws import regional
from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.offload import aside, is_large
from cortex_replay.engine.http.opaque import is_probe, opaque_request
from cortex_replay.engine.http.question import Question, Questions, problem_in
from cortex_replay.engine.http.relay import Relay, SendOn
from cortex_replay.engine.http.render import (
    Renderer,
    error_reply,
    is_same_way,
    reply_of_exchange,
    reply_of_wire,
)
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.http.upstreams import Upstreams, service_of
from cortex_replay.engine.kept_prompts import KeptPrompt
from cortex_replay.engine.outcomes import Outcome, failure_of
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import (
    BudgetSpent,
    InvalidRequest,
    LlmError,
    NoFixture,
    Timeout,
    TurnTooLate,
    Upstream,
)
from cortex_replay.modes import Mode
from cortex_replay.providers import provider_of
from cortex_replay.redact.sensitivity import Sensitivity, SensitivityLevel
from cortex_replay.store import Answer
from cortex_replay.store.exchange import Exchange
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types.labels import LABELS_HEADER

__all__ = ["Engine", "refusal_of"]

MISS_STATUS: Final = 424
"""Of a miss over HTTP: a status that no SDK tries again, and that no provider uses for something else."""
_WAIT_MS: Final = 600_000
"""How long a call waits for its turn: as long as the one before it may take."""


class Engine:
    """The HTTP face of a run. What an answer is, and what it costs, a call's scope decides; here it gets its
    bytes.

    Args:
        run: Whose scopes ask.
        upstreams: Who may be asked.
        environment: Where keys are.
        origin: The name of this face, for recordings.
        max_sensitivity: The highest label that may leave.
        timeout_ms: What a call to an upstream may take in all.
    """

    def __init__(
        self,
        run: RunCore,
        upstreams: Upstreams,
        environment: Mapping[str, str],
        *,
        origin: str = "gateway",
        max_sensitivity: SensitivityLevel = "medium",
        timeout_ms: int = _WAIT_MS,
    ) -> None:
        self.run = run
        self.upstreams = upstreams
        self._origin = origin
        self._questions = Questions()
        self._renderer = Renderer()
        self.most = Sensitivity.of(max_sensitivity)
        """The highest label that may leave."""
        self._environment = environment
        self.relay = Relay(upstreams, timeout_ms, lambda: run.redactor, run.rate_of)

    def scope_of(self, name: str, route: Route, query: str) -> Scope:
        """Who answers a call that has just come in the name of a scope."""
        scope = self.run.scope(name)
        return scope.for_model_call() if route.is_lifted(query) else scope.now

    def read(self, scope: Scope, call: Call) -> Question | None:
        """What a call asks, if it is a call that is lifted."""
        if not call.route.is_lifted(call.query):
            return None
        binder = scope.run.binder(scope.store.key_rules.bindings)
        kept = _kept_prompt(scope, call)
        question = self._questions.read(scope.store, binder, call.route, call.body, kept)
        if question is not None:
            question.labels = call.header(LABELS_HEADER)
            question.look = scope.find(question.look, question.ask)
            if kept is not None and not scope.store.has_any(question.look.key, scope.owner):
                # It may have been recorded by one who did not know what is kept.
                by_name = self._questions.read(scope.store, binder, call.route, call.body)
                if by_name is not None and scope.store.has_any(by_name.look.key, scope.owner):
                    return by_name
        return question

    def begin(self, scope: Scope, call: Call) -> tuple[Question | None, HttpReply | None]:
        """What a call asks, and its answer where nothing has to be waited for: one that is replayed."""
        question = self.read(scope, call)
        if question is None:
            return None, _sole_reply(scope, call)
        look = question.look
        sole = scope.sole_fixture(look.key)
        if sole is None or not _can_serve(sole.answers[0], question):
            return question, None
        answer = sole.answers[0]
        seen = answer if scope.observer is None else look.fill_answer(answer, sole.meta)
        scope.serve(question.ask, look.key, seen, sole.meta)
        return question, self._render(answer, question, sole.meta)

    def answer(
        self, scope: Scope, call: Call, question: Question | None, send: SendOn | None = None
    ) -> AbstractAsyncContextManager[HttpReply]:
        """The answer to a call that has begun. Its turn has ended well when this is left without an error.

        Args:
            scope: Who asks.
            call: What is asked.
            question: What it asks for, as :meth:`begin` read it.
            send: Passes it on, if not over HTTP.
        """
        send = send or self.relay.send
        if question is None or _has_only_exchange(scope, call, question):
            return self._answer_opaque(scope, call, send)
        return self._answer_question(scope, call, question, send)

    def environment_of(self, scope: Scope) -> Mapping[str, str]:
        """Where the keys are that a scope asks with."""
        return scope.environment or self._environment

    async def aclose(self) -> None:
        await self.relay.aclose()

    @asynccontextmanager
    async def _answer_question(
        self, scope: Scope, call: Call, question: Question, send: SendOn
    ) -> AsyncIterator[HttpReply]:
        look = question.look
        async with AsyncExitStack() as stack:
            try:
                origin = self._origin_of(call, question)
                turn = await stack.enter_async_context(scope.turn(question.ask, look, _WAIT_MS, origin))
            except NoFixture as miss:
                explanation = miss.explanation or f"cortex-replay: {miss}"
                yield error_reply(question.protocol, MISS_STATUS, explanation, "no_fixture")
                return
            outcome = turn.stored
            if outcome is None or (not question.facts.stream and turn.tries_count()):
                from cortex_replay.engine.http.recording import ask_provider  # noqa: PLC0415 - replay asks nobody

                environment = self.environment_of(scope)
                sent = replace(call, body=question.body_to_send)
                asked = ask_provider(send(sent, environment), call, question, turn, self.most)
                reply = await stack.enter_async_context(_or_refusal(call, asked))
                if outcome is None or turn.is_counted:
                    yield reply
                    return
            if not scope.mode.asks and isinstance(outcome, Answer) and not _can_serve(outcome, question):
                explained = scope.clean(_explain_other_way(outcome, question, scope.how_to_record))
                scope.count_miss(look.key.short, explained, question.ask)
                yield error_reply(question.protocol, MISS_STATUS, explained, "no_fixture")
            else:
                turn.serve()
                yield self._render(outcome, question, outcome.meta or turn.meta)
                turn.end()

    def _origin_of(self, call: Call, question: Question) -> dict[str, JsonValue]:
        """What a recording of a call says of where it comes from."""
        server = call.server or self.upstreams[call.route.upstream]
        server = regional(server, self._environment, call.header("authorization"))
        return {"adapter": self._origin, "wire": question.protocol, **server.origin}

    @asynccontextmanager
    async def _answer_opaque(self, scope: Scope, call: Call, send: SendOn) -> AsyncIterator[HttpReply]:
        protocol = call.route.protocol
        look = await aside(len(call.body), lambda: look_up_call(scope, opaque_request(call)))
        request, key = look.asked, look.key
        async with take_turn(scope, look) as turn:
            if (wire := turn.wire) is not None:
                turn.serve()
                yield _serve_exchange(scope, look, wire)
                turn.end()
                return
            if scope.mode.asks:
                from cortex_replay.engine.http.recording import ask_opaque  # noqa: PLC0415 - replay asks nobody

                environment = self.environment_of(scope)
                asked = ask_opaque(send(call, environment), turn, call, self.most)
                async with _or_refusal(call, asked) as reply:
                    yield reply
                return
            problem = problem_in(call.route, call.body)
            if problem is not None:
                yield error_reply(protocol, 400, f"cortex-replay: {problem}", "invalid_request_error")
                return
            from cortex_replay.misses.explanation import (  # noqa: PLC0415 - for misses alone
                explain_opaque_exhaustion,
                explain_opaque_miss,
            )

            if turn.exhausted:
                explanation = explain_opaque_exhaustion(request, key, scope.how_to_record)
            else:
                redactor = scope.run.redactor
                explanation = explain_opaque_miss(
                    scope.store, look.request, key, scope.how_to_record, redactor
                )
            explained = scope.clean(explanation)
            what = f"{call.method} {call.route.path}"
            scope.count_miss(what, explained, nothing, is_probe=is_probe(call))
            yield error_reply(_protocol_like(call), MISS_STATUS, explained, "no_fixture")

    def _render(
        self, outcome: Outcome, question: Question, meta: Mapping[str, JsonValue] | None
    ) -> HttpReply:
        if isinstance(outcome, Answer):
            return self._renderer.reply(outcome, question, meta or {})
        outcome = question.look.fill_failure(outcome)
        if outcome.wire.get("protocol") == question.protocol:
            return reply_of_wire(outcome.wire)
        failure = failure_of(outcome)
        if not isinstance(failure, Upstream) or failure.status == 200:
            # What was no completion on one wire cannot be one on another.
            message = f"cortex-replay: what was recorded is no completion: {failure}"
            return error_reply(question.protocol, 502, message, "api_error", may_retry=True)
        kind = failure.error_type or "api_error"
        return error_reply(question.protocol, failure.status, failure.message, kind, may_retry=True)


def _sole_reply(scope: Scope, call: Call) -> HttpReply | None:
    """The answer to an opaque call that is replayed, and gets the same each time: no turn is waited for, so
    no loop is needed. What goes wrong here goes wrong again where it is explained."""
    if scope.mode is not Mode.REPLAY or is_large(len(call.body)):
        return None
    try:
        look = look_up_call(scope, opaque_request(call))
        wire = sole_wire(scope, look)
    except LlmError:
        return None
    return None if wire is None else _serve_exchange(scope, look, wire)


def _serve_exchange(scope: Scope, look: ExchangeLookUp, wire: dict[str, JsonValue]) -> HttpReply:
    scope.run.kept_prompts.learn(look.asked, wire, is_there=False)
    scope.serve(nothing, look.key, Exchange(wire, key=look.key))
    return reply_of_exchange(wire, look.asked, lambda asked: _may_lead(scope, asked))


def _kept_prompt(scope: Scope, call: Call) -> KeptPrompt | None:
    """The prompt that a call goes on from, where it is one that a provider keeps under a name."""
    if call.route.protocol != "gemini-generate":
        return None
    from cortex_replay.wire.gemini.kept import KEPT_NAME, kept_name  # noqa: PLC0415 - for that wire alone

    if not KEPT_NAME.search(call.body):
        return None
    try:
        name = kept_name(loads(call.body))
    except JsonError:
        return None
    if name is None:
        return None
    return scope.run.kept_prompts.find(call.route.upstream, name, scope.store, scope.owner)


def _may_lead(scope: Scope, asked: dict[str, JsonValue]) -> bool:
    """Whether a client that is led elsewhere asks nobody there: in replay, or if its answer is recorded."""
    key = look_up_call(scope, asked).key
    is_recorded = scope.store.exchange(key, scope.owner) is not None
    return not scope.mode.asks or is_recorded or bool(scope.exchange_state(key).successes)


def _has_only_exchange(scope: Scope, call: Call, question: Question) -> bool:
    """Whether a call was recorded as it is, by a version that did not know its wire."""
    store, owner = scope.store, scope.owner
    if scope.mode is Mode.RECORD or store.has_any(question.look.key, owner):
        return False
    return store.exchange(look_up_call(scope, opaque_request(call)).key, owner) is not None


def _can_serve(answer: Answer, question: Question) -> bool:
    """Whether an answer can be given in the way that is asked for, whole."""
    return question.facts.is_single or is_same_way(answer, question)


def _explain_other_way(answer: Answer, question: Question, how_to_record: str) -> str:
    from cortex_replay.misses.explanation import explain_other_way  # noqa: PLC0415 - for misses alone

    wire = answer.wire
    recorded = "without their bytes" if wire is None else _way(wire.get("protocol"), wire.get("stream"))
    asked = _way(question.protocol, question.facts.stream)
    return explain_other_way(question.look.key, asked, recorded, how_to_record)


def _way(protocol: JsonValue, stream: JsonValue) -> str:
    return f"{'as a stream' if stream is True else 'whole'} ({protocol})"


def _protocol_like(call: Call) -> str | None:
    """The protocol whose errors a client of an upstream understands."""
    if call.route.protocol is not None:
        return call.route.protocol
    row = provider_of(service_of(call.route.upstream))
    return None if row is None else row.error_protocol


@asynccontextmanager
async def _or_refusal(call: Call, asked: AbstractAsyncContextManager[HttpReply]) -> AsyncIterator[HttpReply]:
    """An upstream's answer, or an error in its own shape if there is none. What goes wrong once the client
    has the head of an answer is not for here."""
    async with AsyncExitStack() as stack:
        try:
            reply = await stack.enter_async_context(asked)
        except LlmError as error:
            reply = refusal_of(call, error)
        yield reply


def refusal_of(call: Call, error: LlmError) -> HttpReply:
    """An error in the shape of the provider that was asked, and did not answer."""
    protocol = _protocol_like(call)
    if isinstance(error, InvalidRequest | BudgetSpent):  # nothing was sent
        return error_reply(protocol, 400, f"cortex-replay: {error}", "invalid_request_error")
    if isinstance(error, TurnTooLate):  # as a provider says it, whose SDK then waits
        reply = error_reply(protocol, 429, f"cortex-replay: {error}", "rate_limit_error", may_retry=True)
        after = ("retry-after", str(math.ceil(error.wait_ms / 1000)))
        return replace(reply, headers=(*reply.headers, after))
    # A client may try again, as it would without us.
    status = 504 if isinstance(error, Timeout) else 502
    message = f"cortex-replay: {call.route.upstream} did not answer: {error}"
    return error_reply(protocol, status, message, "api_error", may_retry=True)
