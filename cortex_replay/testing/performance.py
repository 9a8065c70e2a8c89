"""Playing an answer that is known from the start, whole or piece by piece."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.adapters.schema import check_schema, with_parsed_json
from cortex_replay.errors import InvalidRequest, LlmError, ResponseParse, Timeout
from cortex_replay.hashing import blake3_hex
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk, TokenUsage, ToolCall, ToolCallDelta

__all__ = ["Performance", "PerformanceAdapter", "respond"]

_WORD: Final = re.compile(r"\s*+\S++|\s++")
_ARGUMENT_PIECE: Final = 12
"""How many characters of a tool call's arguments come in one chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """What one call gives: the pieces of a response, then that response, or an error in its place."""

    response: LlmResponse
    chunks: Sequence[str] | None = None
    """The pieces of the text; ``None`` for its words."""
    error: LlmError | None = None
    delay_ms: int = 0
    """How long each chunk takes to come, the last one too."""

    def pieces(self) -> Iterator[StreamChunk]:
        """Every chunk before the last one."""
        for word in _WORD.findall(self.response.reasoning or ""):
            yield StreamChunk("", reasoning=word)
        for delta in _WORD.findall(self.response.text) if self.chunks is None else self.chunks:
            yield StreamChunk(delta)
        for i, call in enumerate(self.response.tool_calls):
            yield StreamChunk("", tool_calls=(ToolCallDelta(i, call.id, call.name),))
            arguments = ToolCallDelta.whole(i, call).arguments
            for start in range(0, len(arguments), _ARGUMENT_PIECE):
                piece = ToolCallDelta(i, arguments=arguments[start : start + _ARGUMENT_PIECE])
                yield StreamChunk("", tool_calls=(piece,))

    @property
    def time_ms(self) -> int:
        """How long all of it takes."""
        return self.delay_ms * (1 + sum(1 for _ in self.pieces()))


class PerformanceAdapter(LlmAdapter):
    """Plays what a subclass has decided on before the first chunk.

    It keeps an adapter's promises as a live one does: the request's schema is checked and the answer
    held against it, and the time that an answer says it takes must fit into ``timeout_ms``. That time
    is reckoned, not measured, so that an answer that comes too late does so on every machine, and at
    once.
    """

    @abstractmethod
    async def _perform(self, request: LlmRequest) -> Performance:
        """Decide what this call gives."""

    async def complete(self, request: LlmRequest) -> LlmResponse:
        """The whole answer, after the time that all its chunks would take."""
        performance = await self._performance(request)
        if performance.delay_ms:
            await _pause(performance.time_ms, performance.time_ms, request)
        if performance.error is not None:
            raise performance.error
        return performance.response

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        """The answer piece by piece: reasoning, text, tool calls, and a last chunk with all of it."""
        performance = await self._performance(request)
        spent_ms = 0
        for piece in performance.pieces():
            spent_ms += performance.delay_ms
            await _pause(performance.delay_ms, spent_ms, request)
            yield piece
        await _pause(performance.delay_ms, spent_ms + performance.delay_ms, request)
        if performance.error is not None:
            raise performance.error
        yield StreamChunk("", performance.response.finish_reason, response=performance.response)

    async def _performance(self, request: LlmRequest) -> Performance:
        if request.extra.get("n", 1) != 1:
            raise InvalidRequest("extra.n", "an answer here is one answer")
        check_schema(request)
        performance = await self._perform(request)
        is_parsed = request.json_schema is None or performance.response.parsed_json is not None
        if is_parsed or performance.error is not None:
            return performance
        try:
            response = with_parsed_json(request, performance.response)
        except ResponseParse as error:  # a stream finds out when it has given everything
            return dataclasses.replace(performance, error=error.with_traceback(None))
        return dataclasses.replace(performance, response=response)


async def _pause(pause_ms: int, spent_ms: int, request: LlmRequest) -> None:
    """Let time pass, or others run where there is no time to pass.

    Raises:
        Timeout: With this pause, the call takes longer than its request allows.
    """
    if pause_ms and spent_ms > request.timeout_ms:
        raise Timeout(request.timeout_ms)
    await asyncio.sleep(pause_ms / 1000)


def respond(
    request: LlmRequest,
    text: str,
    reasoning: str | None = None,
    calls: Sequence[ToolCall] = (),
    finish_reason: str | None = None,
    usage: TokenUsage | None = None,
) -> LlmResponse:
    """A response that hangs on its request and on nothing else.

    Calls without an id get ``call_1``, ``call_2`` and so on, as the conversation leaves them free.
    Tokens are words: those of the system text and the messages, and those of the answer.
    """
    calls = _number_calls(calls, request) if calls else ()
    return LlmResponse(
        text=text,
        parsed_json=None,
        model=request.model,
        usage=_usage(request, text, reasoning, calls) if usage is None else usage,
        raw_hash=blake3_hex(text.encode()),
        finish_reason=finish_reason or ("tool_calls" if calls else "stop"),
        tool_calls=tuple(calls),
        reasoning=reasoning,
    )


def _number_calls(calls: Sequence[ToolCall], request: LlmRequest) -> Sequence[ToolCall]:
    taken = {call.id for message in request.messages for call in message.tool_calls}
    taken |= {message.tool_call_id for message in request.messages}
    taken |= {call.id for call in calls}
    free = (name for name in map("call_{}".format, count(1)) if name not in taken)
    return [dataclasses.replace(call, id=next(free)) if call.id is None else call for call in calls]


def _usage(request: LlmRequest, text: str, reasoning: str | None, calls: Sequence[ToolCall]) -> TokenUsage:
    asked = _words(request.system)
    for message in request.messages:
        asked += _words(message.content) + _words_of_calls(message.tool_calls)
    return TokenUsage(asked, _words(text) + _words(reasoning or "") + _words_of_calls(calls))


def _words(text: str) -> int:
    return len(text.split())


def _words_of_calls(calls: Sequence[ToolCall]) -> int:
    return sum(1 + _words(ToolCallDelta.whole(0, call).arguments) for call in calls)
