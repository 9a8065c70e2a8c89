"""Streams of the chat completions API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from cortex_replay.types import StreamChunk, ToolCallDelta
from cortex_replay.wire.body import Block
from cortex_replay.wire.openai_chat.answer import decode_usage, encode_usage, reasoning_in, text_in
from cortex_replay.wire.shape import objects, optional_object, text
from cortex_replay.wire.sse import SseParser, sse_event
from cortex_replay.wire.streams import CallQueue, StreamDecoder, StreamEncoder

__all__ = ["DONE", "ChatStreamDecoder", "ChatStreamEncoder"]

DONE = b"[DONE]"


class ChatStreamDecoder(StreamDecoder):
    """Reads a stream up to its ``[DONE]``: the usage comes after the finish reason."""

    def __init__(self, asked_model: str) -> None:
        super().__init__(SseParser(), asked_model)
        self._calls: list[tuple[object, str | None]] = []
        """The index and the id of each call."""

    def _event(self, event: bytes) -> Iterator[StreamChunk]:
        if event.strip() == DONE:
            yield from self._end()
            return
        document = self._document(event)
        self._model = text(document, "model") or self._model
        self._usage = decode_usage(optional_object(document, "usage")) or self._usage
        for choice in objects(document, "choices"):
            if not choice.get("index"):  # the first of several
                yield from self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> Iterator[StreamChunk]:
        delta = optional_object(choice, "delta")
        yield from self._add_reasoning(reasoning_in(delta))
        yield from self._add_text(text_in(delta))
        if refusal := text(delta, "refusal"):
            self._finish_reason = "refusal"
            yield from self._add_text(refusal)
        for call in objects(delta, "tool_calls"):
            yield from self._call(call)
        if (reason := text(choice, "finish_reason")) and self._finish_reason != "refusal":
            self._finish_reason = reason

    def _call(self, call: dict[str, Any]) -> Iterator[StreamChunk]:
        call_id = text(call, "id") or None
        function = optional_object(call, "function")
        name = text(function, "name") or None
        number = self._number_of(call.get("index"), call_id, name)
        yield from self._add_call(ToolCallDelta(number, call_id, name, text(function, "arguments")))

    def _number_of(self, index: object, call_id: str | None, name: str | None) -> int:
        """Which call a piece belongs to. Some servers give no index, or the same for all calls; then
        another id, or without ids another name, starts another call."""
        for number in range(len(self._calls) - 1, -1, -1):
            known_index, known_id = self._calls[number]
            is_other = call_id is not None and known_id is not None and call_id != known_id
            is_next = index is None and call_id is None and name is not None
            if known_index == index and not is_other and not is_next:
                return number
        self._calls.append((index, call_id))
        return len(self._calls) - 1


class ChatStreamEncoder(StreamEncoder):
    """Writes the events of a stream, the usage after them."""

    def __init__(self, model: str, answer_id: str) -> None:
        self._answer_id = answer_id
        self._calls = CallQueue()
        self._head: Block = {
            "id": f"chatcmpl-{answer_id}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": model,
        }

    def start(self) -> bytes:
        return self._delta({"role": "assistant", "content": ""})

    def chunk(self, chunk: StreamChunk) -> bytes:
        delta: Block = {}
        if chunk.reasoning:
            delta["reasoning_content"] = chunk.reasoning
        if chunk.delta:
            delta["content"] = chunk.delta
        pieces = [ready for piece in chunk.tool_calls for ready in self._calls.put(piece)]
        if chunk.response is not None:
            pieces += self._calls.rest()
        if pieces:
            delta["tool_calls"] = [self._call(piece) for piece in pieces]
        events = self._delta(delta) if delta else b""
        if chunk.response is None:
            return events
        events += self._delta({}, chunk.finish_reason or "stop")
        if chunk.response.usage is not None:
            usage = self._head | {"choices": [], "usage": encode_usage(chunk.response.usage)}
            events += sse_event(orjson.dumps(usage))
        return events + sse_event(DONE)

    def _call(self, piece: ToolCallDelta) -> Block:
        call: Block = {"index": piece.index, "function": {"arguments": piece.arguments}}
        if piece.name is not None:
            call["id"] = piece.id or f"call_{self._answer_id}_{piece.index}"
            call["type"] = "function"
            call["function"]["name"] = piece.name
        return call

    def _delta(self, delta: Block, finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return sse_event(orjson.dumps(self._head | {"choices": [choice]}))
