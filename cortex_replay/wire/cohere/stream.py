"""Streams of Cohere's chat API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from cortex_replay.errors import Upstream
from cortex_replay.types import StreamChunk, ToolCallDelta
from cortex_replay.wire.body import Block
from cortex_replay.wire.cohere.answer import (
    call_block,
    decode_usage,
    encode_usage,
    finish_reason_of,
    finish_word,
)
from cortex_replay.wire.shape import WrongShape, optional_object, text
from cortex_replay.wire.sse import SseParser, sse_event
from cortex_replay.wire.streams import CallQueue, StreamDecoder, StreamEncoder

__all__ = ["CohereStreamDecoder", "CohereStreamEncoder"]

_DONE: Final = b"data: [DONE]"


class CohereStreamDecoder(StreamDecoder):
    """Reads a stream up to its ``message-end``."""

    def __init__(self, asked_model: str) -> None:
        super().__init__(SseParser(), asked_model)
        self._calls: list[object] = []
        """The index of each call."""

    @property
    def rest(self) -> bytes:
        """What was fed after the last event; a mark that says again that it was the last is nothing."""
        rest = super().rest
        return b"" if rest.strip() == _DONE else rest

    def _event(self, event: bytes) -> Iterator[StreamChunk]:
        document = self._document(event)
        kind = document.get("type")
        if not isinstance(kind, str):
            raise WrongShape("it has no type")
        delta = optional_object(document, "delta")
        message = optional_object(delta, "message")
        if kind in ("content-start", "content-delta"):
            content = optional_object(message, "content")
            yield from self._add_reasoning(text(content, "thinking"))
            yield from self._add_text(text(content, "text"))
        elif kind == "tool-plan-delta":
            yield from self._add_reasoning(text(message, "tool_plan"))
        elif kind in ("tool-call-start", "tool-call-delta"):
            yield from self._call(document.get("index"), optional_object(message, "tool_calls"))
        elif kind == "message-end":
            yield from self._last(delta)

    def _call(self, index: object, call: dict[str, Any]) -> Iterator[StreamChunk]:
        if index not in self._calls:
            self._calls.append(index)
        function = optional_object(call, "function")
        call_id, name = text(call, "id") or None, text(function, "name") or None
        piece = ToolCallDelta(self._calls.index(index), call_id, name, text(function, "arguments"))
        yield from self._add_call(piece)

    def _last(self, delta: dict[str, Any]) -> Iterator[StreamChunk]:
        if problem := text(delta, "error"):
            raise Upstream(200, problem)
        self._usage = decode_usage(optional_object(delta, "usage"))
        self._finish_reason = finish_reason_of(text(delta, "finish_reason")) or None
        yield from self._end()


class CohereStreamEncoder(StreamEncoder):
    """Writes the events of a stream: what the model thinks and says in blocks, then its calls."""

    def __init__(self, model: str, answer_id: str) -> None:  # noqa: ARG002 - no event names the model
        self._answer_id = answer_id
        self._open: str | None = None
        self._call: int | None = None
        self._index = -1
        self._calls = CallQueue()

    def start(self) -> bytes:
        message: Block = {
            "role": "assistant",
            "content": [],
            "tool_plan": "",
            "tool_calls": [],
            "citations": [],
        }
        return _event("message-start", id=self._answer_id, delta={"message": message})

    def chunk(self, chunk: StreamChunk) -> bytes:
        events = b""
        for kind, piece in (("thinking", chunk.reasoning), ("text", chunk.delta)):
            if piece:
                events += self._in_block(kind)
                events += self._content("content-delta", {kind: piece})
        for call in chunk.tool_calls:
            events += b"".join(map(self._call_piece, self._calls.put(call)))
        if chunk.response is None:
            return events
        events += b"".join(map(self._call_piece, self._calls.rest()))
        end: Block = {"finish_reason": finish_word(chunk.finish_reason)}
        if chunk.response.usage is not None:
            end["usage"] = encode_usage(chunk.response.usage)
        return events + self._close() + _event("message-end", id=self._answer_id, delta=end)

    def _in_block(self, kind: str) -> bytes:
        if self._open == kind:
            return b""
        events = self._close()
        self._open = kind
        self._index += 1
        return events + self._content("content-start", {"type": kind, kind: ""})

    def _content(self, kind: str, content: Block) -> bytes:
        return _event(kind, index=self._index, delta={"message": {"content": content}})

    def _call_piece(self, piece: ToolCallDelta) -> bytes:
        if self._call == piece.index:
            call: Block = {"function": {"arguments": piece.arguments}}
            return _event("tool-call-delta", index=piece.index, delta={"message": {"tool_calls": call}})
        events = self._close()
        self._call = piece.index
        call_id = piece.id or f"call_{self._answer_id}_{piece.index}"
        call = call_block(call_id, piece.name or "", piece.arguments)
        return events + _event("tool-call-start", index=piece.index, delta={"message": {"tool_calls": call}})

    def _close(self) -> bytes:
        """The end of what is open."""
        events = b"" if self._open is None else _event("content-end", index=self._index)
        if self._call is not None:
            events += _event("tool-call-end", index=self._call)
        self._open = self._call = None
        return events


def _event(kind: str, **fields: object) -> bytes:
    return sse_event(orjson.dumps({"type": kind, **fields}), kind)
