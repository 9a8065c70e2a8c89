"""Relayed calls, taken down while the client already has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchanges import ExchangeTurn, ask_opaquely, nothing
from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.offload import aside
from cortex_replay.engine.http.opaque import encode_body, is_worth_keeping
from cortex_replay.engine.http.other_calls import is_other, other_headers, recordable_other_headers
from cortex_replay.engine.http.question import Question
from cortex_replay.engine.http.relay import client_headers, recordable_headers
from cortex_replay.engine.http.render import error_reply
from cortex_replay.engine.http.tapes import AnswerTape, StreamTape, answer_of_body
from cortex_replay.engine.turn import Attempt, Turn
from cortex_replay.errors import FixtureIntegrityFailed, LlmError, RecordingRefused, Transport
from cortex_replay.modes import Mode
from cortex_replay.redact.clearance import STORE_GATE
from cortex_replay.redact.sensitivity import Sensitivity, refuse_above, refuse_value_above
from cortex_replay.store import Answer
from cortex_replay.types import LlmRequest, TokenUsage
from cortex_replay.wire import stream_media_types

if TYPE_CHECKING:
    from cortex_replay.adapters.http import RelayReply, ReplyBody

__all__ = ["ask_opaque", "ask_provider"]

_REST_S: Final = 0.25
"""How long to wait for what a server may send after the last event."""


@asynccontextmanager
async def ask_provider(
    sent: AbstractAsyncContextManager[RelayReply],
    call: Call,
    question: Question,
    turn: Turn,
    most: Sensitivity,
) -> AsyncIterator[HttpReply]:
    """The provider's answer, as it comes. It is kept before the client has its end: whoever has all of it may
    never come back.

    Raises:
        InvalidRequest: It holds text that must not leave.
        BudgetSpent: It might cost more than is left.
        Transport, Timeout: The provider did not answer.
    """
    request = question.ask()
    refuse_above(request, most)
    async with turn.ask() as attempt, sent as relayed:
        turn.begin()
        live = _tape_answer(call, question, relayed, attempt) if relayed.status == 200 else None
        yield await _reply(
            call, relayed, live, partial(_keep_body, question.protocol, request, relayed, attempt)
        )


async def _reply(
    call: Call, relayed: RelayReply, live: AsyncIterator[bytes] | None, keep: Callable[[bytes], None]
) -> HttpReply:
    """What a client gets: a stream as it comes, anything else once it is kept."""
    is_for_other = is_other(call.route.upstream)
    if 300 <= relayed.status < 400 and relayed.status != 304 and not is_for_other:
        # It would lead a client, and its key, around the gateway.
        message = f"cortex-replay: {call.route.upstream} answered with a redirect, which is never followed"
        return error_reply(call.route.protocol, 502, message, "api_error")
    given = other_headers(relayed.headers, call.method) if is_for_other else client_headers(relayed.headers)
    headers = tuple(given)
    if live is not None and relayed.body.content_type in stream_media_types():
        return HttpReply(relayed.status, headers, live=live)
    body = await relayed.body.read_all()
    await aside(len(body) + len(call.body), keep, body)
    return HttpReply(relayed.status, headers, body)


def _keep_body(
    protocol: str, request: LlmRequest, relayed: RelayReply, attempt: Attempt, body: bytes
) -> None:
    headers = _headers_to_store(relayed)
    if relayed.status != 200:
        attempt.problem = f"status {relayed.status}"
        attempt.fail(
            {"protocol": protocol, "status": relayed.status, "headers": headers, **encode_body(body)}
        )
        return
    try:
        answer, response = answer_of_body(request, protocol, body, headers)
    except LlmError as error:
        attempt.problem = str(error)
        attempt.fail(_wire_of_none(protocol, headers, encode_body(body), stream=False))
        return
    _keep(attempt, answer, response.usage)


def _wire_of_none(
    protocol: str, headers: dict[str, JsonValue], content: dict[str, JsonValue], *, stream: bool
) -> dict[str, JsonValue]:
    """An answer that is no completion, as it came."""
    return {"protocol": protocol, "stream": stream, "status": 200, "headers": headers, **content}


def _keep(attempt: Attempt, answer: Answer, usage: TokenUsage | None) -> None:
    # What cannot be recorded is in the ledger; the client gets it all the same.
    with suppress(RecordingRefused, FixtureIntegrityFailed):
        attempt.keep(answer, usage)


async def _tape_answer(
    call: Call, question: Question, relayed: RelayReply, attempt: Attempt
) -> AsyncIterator[bytes]:
    tape = AnswerTape(question.ask(), question.protocol, relayed.body.content_type)

    def keep() -> None:
        if tape.response is None:
            attempt.problem = str(tape.problem)
            if not isinstance(tape.problem, Transport):  # a stream that broke off is nobody's answer
                headers = _headers_to_store(relayed)
                attempt.fail(_wire_of_none(question.protocol, headers, tape.content(), stream=True))
        else:
            _keep(attempt, tape.answer(_headers_to_store(relayed)), tape.response.usage)

    size = len(call.body)
    while data := await relayed.body.read():
        tape.add(data)
        size += len(data)
        if tape.response is not None:
            rest = await _rest_of(relayed.body)
            tape.add(rest)
            await aside(size, keep)
            yield data + rest
            return
        yield data
    tape.end()
    await aside(size, keep)


@asynccontextmanager
async def ask_opaque(
    sent: AbstractAsyncContextManager[RelayReply],
    turn: ExchangeTurn,
    call: Call,
    most: Sensitivity,
) -> AsyncIterator[HttpReply]:
    """The upstream's answer, as it comes.

    Raises:
        InvalidRequest: It holds text that must not leave.
        BudgetSpent: No more calls may be made.
        Transport, Timeout: The upstream did not answer.
    """
    scope, request = turn.scope, turn.look.asked
    await aside(len(call.body), refuse_value_above, request["body"], most, "body")
    if scope.mode is not Mode.LIVE:
        await aside(
            len(call.body), refuse_value_above, request["body"], scope.store.clearance, "body", STORE_GATE
        )
    async with AsyncExitStack() as stack:
        what = f"{request['method']} {request['path']}"
        attempt = await stack.enter_async_context(ask_opaquely(turn.scope.run, what))
        scope.observe(nothing, None)
        relayed = await stack.enter_async_context(sent)

        def keep(content: dict[str, JsonValue]) -> None:
            attempt.is_good = relayed.status < 400
            is_for_other = is_other(call.route.upstream)
            if is_for_other or is_worth_keeping(relayed.status) or scope.run.record_failures:
                headers: dict[str, JsonValue] = (
                    dict(recordable_other_headers(relayed.headers, call.method))
                    if is_for_other
                    else _headers_to_store(relayed)
                )
                wire = {"status": relayed.status, "headers": headers, **content}
                turn.keep(wire, what, call.query)

        live = _tape_opaque(call, relayed, keep)
        yield await _reply(call, relayed, live, lambda body: keep(encode_body(body)))


async def _tape_opaque(
    call: Call, relayed: RelayReply, keep: Callable[[dict[str, JsonValue]], None]
) -> AsyncIterator[bytes]:
    tape = StreamTape(relayed.body.content_type)
    size = len(call.body)
    while data := await relayed.body.read():
        tape.add(data)
        size += len(data)
        yield data
    await aside(size, lambda: keep(tape.content()))


def _headers_to_store(relayed: RelayReply) -> dict[str, JsonValue]:
    return dict(recordable_headers(relayed.headers))


async def _rest_of(body: ReplyBody) -> bytes:
    """What follows the last event: a blank line, most often nothing."""
    rest = b""
    try:
        async with asyncio.timeout(_REST_S):
            while data := await body.read():
                rest += data
    except (TimeoutError, LlmError):
        pass
    return rest
