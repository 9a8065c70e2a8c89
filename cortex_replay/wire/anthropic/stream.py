"""Streams of the Messages API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from cortex_replay.types import StreamChunk, ToolCallDelta
from cortex_replay.wire.anthropic.answer import FINISH_REASONS, decode_usage, encode_usage, stop_reason
from cortex_replay.wire.body import Block
from cortex_replay.wire.shape import WrongShape, optional_object, text
from cortex_replay.wire.sse import SseParser, sse_event
from cortex_replay.wire.streams import CallQueue, Framing, StreamDecoder, StreamEncoder

__all__ = ["AnthropicStreamDecoder", "AnthropicStreamEncoder"]


class AnthropicStreamDecoder(StreamDecoder):
    """Reads a stream up to its ``message_stop``."""

    def __init__(self, asked_model: str, framing: Framing | None = None) -> None:
        super().__init__(framing or SseParser(), asked_model)
        self._counts: Block = {}
        self._calls: dict[str, int] = {}
        """Which call a block is, by the block's index."""
        self._whole_inputs: dict[str, str] = {}
        """The arguments that a block had when it started, until others come for it."""

    def _event(self, event: bytes) -> Iterator[StreamChunk]:
        document = self._document(event)
        index = str(document.get("index"))
        match document.get("type"):
            case "content_block_delta":
                return self._delta(index, optional_object(document, "delta"))
            case "content_block_start":
                return self._block_start(index, optional_object(document, "content_block"))
            case "content_block_stop":
                return self._block_stop(index)
            case "message_start":
                message = optional_object(document, "message")
                self._model = text(message, "model") or self._model
                self._count(message)
            case "message_delta":
                self._count(document)
                reason = text(optional_object(document, "delta"), "stop_reason")
                self._finish_reason = FINISH_REASONS.get(reason, reason) or self._finish_reason
            case "message_stop":
                return self._message_stop()
            case str():
                pass  # a ping, or an event of tomorrow, which clients are asked to pass over
            case _:
                raise WrongShape("it has no type")
        return iter(())

    def _count(self, document: dict[str, Any]) -> None:
        """Counts are totals so far; a later event may leave out what an earlier one said."""
        usage = optional_object(document, "usage")
        self._counts.update({name: value for name, value in usage.items() if value is not None})

    def _block_start(self, index: str, block: dict[str, Any]) -> Iterator[StreamChunk]:
        match block.get("type"):
            case "text":
                return self._add_text(text(block, "text"))
            case "thinking":
                return self._add_reasoning(text(block, "thinking"))
            case "tool_use":
                self._calls[index] = call = len(self._calls)
                self._whole_inputs[index] = _json_of(optional_object(block, "input"))
                return self._add_call(ToolCallDelta(call, text(block, "id") or None, text(block, "name")))
        return iter(())

    def _delta(self, index: str, delta: dict[str, Any]) -> Iterator[StreamChunk]:
        match delta.get("type"):
            case "text_delta":
                return self._add_text(text(delta, "text"))
            case "thinking_delta":
                return self._add_reasoning(text(delta, "thinking"))
            case "input_json_delta" if index in self._calls:
                piece = text(delta, "partial_json")
                if piece:
                    self._whole_inputs.pop(index, None)
                    return self._add_call(ToolCallDelta(self._calls[index], arguments=piece))
        return iter(())

    def _block_stop(self, index: str) -> Iterator[StreamChunk]:
        """A call whose arguments came in no piece has those of its start, most often none."""
        if index in self._whole_inputs:
            return self._add_call(ToolCallDelta(self._calls[index], arguments=self._whole_inputs.pop(index)))
        return iter(())

    def _message_stop(self) -> Iterator[StreamChunk]:
        for index in list(self._whole_inputs):
            yield from self._block_stop(index)
        self._usage = decode_usage(self._counts)
        yield from self._end()


def _json_of(given: dict[str, Any]) -> str:
    try:
        return orjson.dumps(given).decode()
    except orjson.JSONEncodeError:
        raise WrongShape("input is nested too deeply") from None


class AnthropicStreamEncoder(StreamEncoder):
    """Writes the events of a stream, one block at a time; ``write`` gives the bytes of an event."""

    def __init__(self, model: str, answer_id: str, write: Callable[[Block], bytes] | None = None) -> None:
        self._write = write or _event
        self._model = model
        self._answer_id = answer_id
        self._block = -1
        self._calls = CallQueue()
        self._open: tuple[str, int] | None = None
        """The kind of the open block, and for a tool which call it is."""

    def start(self) -> bytes:
        message: Block = {
            "id": f"msg_{self._answer_id}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return self._write({"type": "message_start", "message": message})

    def chunk(self, chunk: StreamChunk) -> bytes:
        events = b""
        if chunk.reasoning:
            delta: Block = {"type": "thinking_delta", "thinking": chunk.reasoning}
            events += self._in_block("thinking", 0, {"thinking": "", "signature": ""}, delta)
        if chunk.delta:
            events += self._in_block("text", 0, {"text": ""}, {"type": "text_delta", "text": chunk.delta})
        for piece in chunk.tool_calls:
            events += b"".join(map(self._call, self._calls.put(piece)))
        if chunk.response is not None:
            events += b"".join(map(self._call, self._calls.rest()))
            events += self._close_block()
            end: Block = {"stop_reason": stop_reason(chunk.finish_reason), "stop_sequence": None}
            usage = encode_usage(chunk.response.usage)
            events += self._write({"type": "message_delta", "delta": end, "usage": usage})
            events += self._write({"type": "message_stop"})
        return events

    def _call(self, piece: ToolCallDelta) -> bytes:
        head = {
            "id": piece.id or f"toolu_{self._answer_id}_{piece.index}",
            "name": piece.name or "",
            "input": {},
        }
        delta = {"type": "input_json_delta", "partial_json": piece.arguments}
        return self._in_block("tool_use", piece.index, head, delta)

    def _in_block(self, kind: str, call: int, head: Block, delta: Block) -> bytes:
        events = b""
        if self._open != (kind, call):
            events = self._close_block()
            self._block += 1
            self._open = (kind, call)
            block = {"type": kind, **head}
            events += self._write(
                {"type": "content_block_start", "index": self._block, "content_block": block}
            )
        return events + self._write({"type": "content_block_delta", "index": self._block, "delta": delta})

    def _close_block(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return self._write({"type": "content_block_stop", "index": self._block})


def _event(document: Block) -> bytes:
    return sse_event(orjson.dumps(document), document["type"])
