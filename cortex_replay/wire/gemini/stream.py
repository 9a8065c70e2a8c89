"""Streams of ``streamGenerateContent``: each event is an answer with a piece of it."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from cortex_replay.canonical import compact
from cortex_replay.types import StreamChunk, ToolCallDelta
from cortex_replay.wire.body import Block
from cortex_replay.wire.gemini.answer import (
    candidate_in,
    decode_call,
    decode_usage,
    encode_call,
    encode_usage,
    finish_reason,
    finish_word,
    parts_in,
)
from cortex_replay.wire.shape import optional_object, text
from cortex_replay.wire.sse import SseParser, sse_event
from cortex_replay.wire.streams import StreamDecoder, StreamEncoder

__all__ = ["GeminiStreamDecoder", "GeminiStreamEncoder"]


class GeminiStreamDecoder(StreamDecoder):
    """Reads a stream up to its last byte: nothing in it says that it is the last event, and older models
    give a reason to finish with each."""

    def __init__(self, asked_model: str) -> None:
        super().__init__(SseParser(), asked_model)
        self._calls = 0
        self._word = ""
        self._counts: Block = {}

    def _event(self, event: bytes) -> Iterator[StreamChunk]:
        document = self._document(event)
        self._model = text(document, "modelVersion") or self._model
        # Each event counts anew, and not every one counts everything.
        self._counts |= optional_object(document, "usageMetadata")
        self._usage = decode_usage(self._counts)
        if text(optional_object(document, "promptFeedback"), "blockReason"):
            self._word = "SAFETY"
        candidate = candidate_in(document) or {}
        for part in parts_in(candidate):
            yield from self._part(part)
        self._word = text(candidate, "finishReason") or self._word

    def _part(self, part: Block) -> Iterator[StreamChunk]:
        if "functionCall" in part:
            call = decode_call(part)
            piece = ToolCallDelta(self._calls, call.id, call.name, compact(call.arguments))
            self._calls += 1
            return self._add_call(piece)
        said = text(part, "text")
        return self._add_reasoning(said) if part.get("thought") is True else self._add_text(said)

    def _end_of_bytes(self) -> Iterator[StreamChunk]:
        if self._word:
            self._finish_reason = finish_reason(self._word, self._calls > 0)
            yield from self._end()


class GeminiStreamEncoder(StreamEncoder):
    """Writes one event per chunk; calls, which have no pieces here, when they are whole."""

    def __init__(self, model: str, answer_id: str) -> None:
        self._end = {"modelVersion": model, "responseId": answer_id}
        self._pieces: list[ToolCallDelta] = []

    def start(self) -> bytes:
        return b""

    def chunk(self, chunk: StreamChunk) -> bytes:
        self._pieces += chunk.tool_calls
        parts: list[Block] = []
        if chunk.reasoning:
            parts.append({"text": chunk.reasoning, "thought": True})
        if chunk.delta:
            parts.append({"text": chunk.delta})
        if chunk.response is None:
            return self._event_of(parts, {}) if parts else b""
        parts += map(encode_call, ToolCallDelta.join(self._pieces))
        usage = chunk.response.usage
        counts = {} if usage is None else {"usageMetadata": encode_usage(usage)}
        word = {"finishReason": finish_word(chunk.finish_reason)}
        return self._event_of(parts or [{"text": ""}], word, counts)

    def _event_of(self, parts: list[Block], word: Block, counts: Block | None = None) -> bytes:
        candidate = {"content": {"role": "model", "parts": parts}, **word, "index": 0}
        return sse_event(orjson.dumps({"candidates": [candidate], **(counts or {}), **self._end}))
