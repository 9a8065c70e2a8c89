"""Streams of Converse, which Nova's own API shares but for its wrapper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cortex_replay.types import StreamChunk, ToolCallDelta
from cortex_replay.wire.anthropic.answer import stop_reason
from cortex_replay.wire.bedrock.answer import decode_usage, encode_usage, finish_reason, is_own_call
from cortex_replay.wire.body import Block
from cortex_replay.wire.event_stream import ChunkFraming, EventFraming
from cortex_replay.wire.shape import WrongShape, optional_object, text
from cortex_replay.wire.streams import CallQueue, StreamDecoder, StreamEncoder

__all__ = ["ConverseStreamDecoder", "ConverseStreamEncoder"]


class ConverseStreamDecoder(StreamDecoder):
    """Reads a stream up to its ``metadata``: the usage comes after the finish reason."""

    def __init__(self, framing: EventFraming | ChunkFraming, asked_model: str) -> None:
        super().__init__(framing, asked_model)
        self._calls: dict[str, int] = {}
        """Which call a block is, by the block's index."""
        self._without_input: set[str] = set()

    def _event(self, event: bytes) -> Iterator[StreamChunk]:
        document = self._document(event)
        if not document:
            raise WrongShape("it has no name")
        name = next(iter(document))
        inner = optional_object(document, name)
        index = str(inner.get("contentBlockIndex"))
        match name:
            case "contentBlockDelta":
                return self._delta(index, optional_object(inner, "delta"))
            case "contentBlockStart":
                return self._block_start(index, optional_object(inner, "start"))
            case "contentBlockStop":
                return self._block_stop(index)
            case "messageStop":
                self._finish_reason = finish_reason(text(inner, "stopReason")) or None
            case "metadata":
                self._usage = decode_usage(optional_object(inner, "usage"))
                return self._metadata()
        return iter(())  # an event of tomorrow, which clients pass over

    def _block_start(self, index: str, start: dict[str, Any]) -> Iterator[StreamChunk]:
        call = optional_object(start, "toolUse")
        if not call or not is_own_call(call):
            return iter(())
        self._calls[index] = number = len(self._calls)
        self._without_input.add(index)
        return self._add_call(ToolCallDelta(number, text(call, "toolUseId") or None, text(call, "name")))

    def _delta(self, index: str, delta: dict[str, Any]) -> Iterator[StreamChunk]:
        yield from self._add_text(text(delta, "text"))
        yield from self._add_reasoning(text(optional_object(delta, "reasoningContent"), "text"))
        if index in self._calls and (piece := text(optional_object(delta, "toolUse"), "input")):
            self._without_input.discard(index)
            yield from self._add_call(ToolCallDelta(self._calls[index], arguments=piece))

    def _block_stop(self, index: str) -> Iterator[StreamChunk]:
        """A call whose arguments came in no piece has none."""
        if index in self._without_input:
            self._without_input.remove(index)
            return self._add_call(ToolCallDelta(self._calls[index], arguments="{}"))
        return iter(())

    def _metadata(self) -> Iterator[StreamChunk]:
        for index in sorted(self._without_input):
            yield from self._block_stop(index)
        yield from self._end()


class ConverseStreamEncoder(StreamEncoder):
    """Writes the events of a stream, one block at a time.

    Args:
        write: The bytes of an event, from its name and its payload.
        answer_id: What to make ids from.
    """

    def __init__(self, write: Callable[[str, Block], bytes], answer_id: str) -> None:
        self._write = write
        self._answer_id = answer_id
        self._block = -1
        self._calls = CallQueue()
        self._open: tuple[str, int] | None = None
        """The kind of the open block, and for a tool which call it is."""

    def start(self) -> bytes:
        return self._write("messageStart", {"role": "assistant"})

    def chunk(self, chunk: StreamChunk) -> bytes:
        events = b""
        if chunk.reasoning:
            events += self._in_block(("reasoning", 0), {"reasoningContent": {"text": chunk.reasoning}})
        if chunk.delta:
            events += self._in_block(("text", 0), {"text": chunk.delta})
        for piece in chunk.tool_calls:
            events += b"".join(map(self._call, self._calls.put(piece)))
        if chunk.response is not None:
            events += b"".join(map(self._call, self._calls.rest()))
            events += self._close_block()
            events += self._write("messageStop", {"stopReason": stop_reason(chunk.finish_reason)})
            usage = encode_usage(chunk.response.usage)
            events += self._write("metadata", {"metrics": {"latencyMs": 0}, "usage": usage})
        return events

    def _call(self, piece: ToolCallDelta) -> bytes:
        call_id = piece.id or f"tooluse_{self._answer_id}_{piece.index}"
        head = {"toolUse": {"name": piece.name or "", "toolUseId": call_id}}
        return self._in_block(("tool", piece.index), {"toolUse": {"input": piece.arguments}}, head)

    def _in_block(self, kind: tuple[str, int], delta: Block, head: Block | None = None) -> bytes:
        events = b""
        if self._open != kind:
            events = self._close_block()
            self._block += 1
            self._open = kind
            if head is not None:  # a text has no start
                events += self._write("contentBlockStart", {"contentBlockIndex": self._block, "start": head})
        return events + self._write("contentBlockDelta", {"contentBlockIndex": self._block, "delta": delta})

    def _close_block(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return self._write("contentBlockStop", {"contentBlockIndex": self._block})
