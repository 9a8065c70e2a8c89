"""What a test asked and got, for its assertions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import orjson

from cortex_replay.adapters import LlmAdapter, closing_stream
from cortex_replay.engine.http import Call, Ledger
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.errors import InvalidRequest, LlmError, NoFixture
from cortex_replay.interception.interception import bypassing
from cortex_replay.store import Answer, Store
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk, TokenUsage, ToolCall
from cortex_replay.wire import WIRES

__all__ = ["LlmRecording", "NotingAdapter", "PassingAdapter", "RecordedCall"]


@dataclass(frozen=True)
class RecordedCall:
    """One call of a test."""

    request: LlmRequest | None
    """What was asked; ``None`` for a call that is recorded as it is, such as an embedding."""
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage | None = None
    finish_reason: str | None = None
    is_answered: bool = True


@dataclass
class LlmRecording:
    """The calls of a test, in the order in which they were answered."""

    calls: list[RecordedCall] = field(default_factory=list)

    def observe(self, call: Call, outcome: Outcome | None) -> None:
        """Note a call over a provider's wire."""
        request = None
        if call.route.protocol is not None:
            try:
                request = WIRES[call.route.protocol].lift(orjson.loads(call.body))
            except (InvalidRequest, orjson.JSONDecodeError):
                request = None
        if isinstance(outcome, Answer):
            self.calls.append(
                RecordedCall(request, outcome.text, outcome.tool_calls, outcome.usage, outcome.finish_reason)
            )
        else:
            is_answered = outcome is not None and call.route.protocol is None
            self.calls.append(RecordedCall(request, is_answered=is_answered))

    def note(self, request: LlmRequest, response: LlmResponse | None) -> None:
        """Note a call of an adapter."""
        if response is None:
            self.calls.append(RecordedCall(request, is_answered=False))
        else:
            self.calls.append(
                RecordedCall(
                    request, response.text, response.tool_calls, response.usage, response.finish_reason
                )
            )

    @property
    def requests(self) -> list[LlmRequest]:
        return [call.request for call in self.calls if call.request is not None]

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Every tool call that a model made."""
        return [tool for call in self.calls for tool in call.tool_calls]

    @property
    def tokens(self) -> int:
        """What the providers counted, prompts and answers together."""
        counted = [call.usage for call in self.calls if call.usage is not None]
        return sum(usage.prompt_tokens + usage.completion_tokens for usage in counted)

    def assert_prefix_stable(self) -> None:
        """Assert that each prompt begins with the one before it, as providers' caches need it.

        Raises:
            PrefixChanged: One does not. The message says what changed.
        """
        __tracebackhide__ = True
        from cortex_replay.prompt import assert_prefix_stable  # noqa: PLC0415 - few tests ask

        requests = self.requests
        for previous, current in pairwise(requests):
            if previous.model == current.model:
                assert_prefix_stable(previous, current)


class PassingAdapter(LlmAdapter):
    """Asks a live adapter past our own interception."""

    adapter_id: ClassVar[str] = "passing"

    def __init__(self, inner: LlmAdapter) -> None:
        self._inner = inner
        self.adapter_id = inner.adapter_id  # type: ignore[misc]

    async def complete(self, request: LlmRequest) -> LlmResponse:
        with bypassing():
            return await self._inner.complete(request)

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        with bypassing():
            chunks = self._inner.stream(request)
        async with closing_stream(chunks) as pieces:
            while True:
                with bypassing():
                    chunk = await anext(pieces, None)
                if chunk is None:
                    return
                yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class NotingAdapter(LlmAdapter):
    """Notes what a test asks its ``llm``, and counts it."""

    adapter_id: ClassVar[str] = "llm"

    def __init__(self, inner: LlmAdapter, recording: LlmRecording, ledger: Ledger, store: Store) -> None:
        self._inner = inner
        self._recording = recording
        self._ledger = ledger
        self._store = store

    async def complete(self, request: LlmRequest) -> LlmResponse:
        try:
            response = await self._inner.complete(request)
        except LlmError as error:
            self._failed(request, error)
            raise
        self._answered(request, response)
        return response

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        try:
            async with closing_stream(self._inner.stream(request)) as chunks:
                async for chunk in chunks:
                    if chunk.response is not None:
                        self._answered(request, chunk.response)
                    yield chunk
        except LlmError as error:
            self._failed(request, error)
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _answered(self, request: LlmRequest, response: LlmResponse) -> None:
        self._recording.note(request, response)
        self._ledger.hit(self._store.key(request), response.usage)

    def _failed(self, request: LlmRequest, error: LlmError) -> None:
        self._recording.note(request, None)
        if isinstance(error, NoFixture):
            self._ledger.missed(
                f"{error.model} {error.prompt_hash[:16]}", error.explanation or f"cortex-replay: {error}"
            )
