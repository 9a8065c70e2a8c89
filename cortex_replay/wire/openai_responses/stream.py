"""Streams of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from cortex_replay.bindings.placeholders import is_same_when_bound
from cortex_replay.canonical import compact
from cortex_replay.errors import ResponseParse, Upstream
from cortex_replay.types import LlmResponse, StreamChunk, ToolCall, ToolCallDelta
from cortex_replay.wire.body import Block
from cortex_replay.wire.failures import error_in
from cortex_replay.wire.openai_responses.answer import (
    call_item,
    decode_answer,
    decode_usage,
    finish_reason_of,
    message_item,
    raise_for_failure,
    reasoning_item,
    response_object,
    text_part,
)
from cortex_replay.wire.shape import WrongShape, optional_object, text
from cortex_replay.wire.sse import SseParser, sse_event
from cortex_replay.wire.streams import CallQueue, StreamDecoder, StreamEncoder

__all__ = ["ResponsesStreamDecoder", "ResponsesStreamEncoder"]

_THOUGHTS: Final = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_LAST: Final = ("response.completed", "response.incomplete")


class ResponsesStreamDecoder(StreamDecoder):
    """Reads a stream up to the event that says how it ended."""

    def __init__(self, asked_model: str) -> None:
        super().__init__(SseParser(), asked_model)
        self._calls: dict[str, int] = {}
        """Which call an output is, by the output's place."""
        self._without_arguments: set[str] = set()
        self._is_refusal = False

    def _event(self, event: bytes) -> Iterator[StreamChunk]:
        document = self._document(event)
        kind = document.get("type")
        if kind == "response.output_text.delta":
            return self._add_text(text(document, "delta"))
        if kind == "response.refusal.delta":
            self._is_refusal = True
            return self._add_text(text(document, "delta"))
        if kind in _THOUGHTS:
            return self._add_reasoning(text(document, "delta"))
        if kind == "response.function_call_arguments.delta":
            return self._arguments(_place(document), text(document, "delta"))
        if kind in ("response.output_item.added", "response.output_item.done"):
            is_whole = kind == "response.output_item.done"
            return self._item(_place(document), optional_object(document, "item"), is_whole)
        if kind == "response.failed":
            raise error_in(document.get("response"), 200) or Upstream(200, "the response is failed")
        if kind in _LAST:
            return self._last(optional_object(document, "response"))
        if not isinstance(kind, str):
            raise WrongShape("it has no type")
        return iter(())

    def _item(self, index: str, item: dict[str, Any], is_whole: bool) -> Iterator[StreamChunk]:
        if item.get("type") != "function_call":
            return
        if index not in self._calls:
            self._calls[index] = len(self._calls)
            self._without_arguments.add(index)
            name, call_id = text(item, "name"), text(item, "call_id") or None
            yield from self._add_call(ToolCallDelta(self._calls[index], call_id, name))
        if is_whole and index in self._without_arguments:  # they came in no other event
            yield from self._arguments(index, text(item, "arguments"))

    def _arguments(self, index: str, piece: str) -> Iterator[StreamChunk]:
        if piece and index in self._calls:
            self._without_arguments.discard(index)
            yield from self._add_call(ToolCallDelta(self._calls[index], arguments=piece))

    def _last(self, response: dict[str, Any]) -> Iterator[StreamChunk]:
        """The end, which repeats the whole answer; a server may have said it in no other event."""
        raise_for_failure(response)
        if isinstance(response.get("output"), list):
            whole = decode_answer(response, self._model, "")
            yield from self._missing_chunks(whole)
            if whole.finish_reason == "refusal":
                self._is_refusal = True
        self._model = text(response, "model") or self._model
        self._usage = decode_usage(optional_object(response, "usage"))
        self._finish_reason = finish_reason_of(response, bool(self._calls), self._is_refusal)
        yield from self._end()

    def _missing_chunks(self, whole: LlmResponse) -> Iterator[StreamChunk]:
        """What the whole answer has and no event had. What both have must be the same."""
        if not self._text:
            yield from self._add_text(whole.text)
        if not self._calls:
            for number, call in enumerate(whole.tool_calls):
                self._calls[f"call {number}"] = number
                yield from self._add_call(ToolCallDelta.whole(number, call))
        said = ("".join(self._text), ToolCallDelta.join(self._pieces))
        is_empty = not whole.text and not whole.tool_calls  # as some servers leave it at the end
        if not is_empty and said != (whole.text, whole.tool_calls) and not _is_said(said, whole):
            raise ResponseParse("the end of the stream is not what its events said")


def _is_said(said: tuple[str, tuple[ToolCall, ...]], whole: LlmResponse) -> bool:
    """Whether events of a recording said what its end says: bound values that they cut stand in pieces."""
    text, calls = said
    if len(calls) != len(whole.tool_calls):
        return False
    pairs = [(text, whole.text)]
    pairs += [
        (compact(one.to_dict()), compact(other.to_dict()))
        for one, other in zip(calls, whole.tool_calls, strict=True)
    ]
    return all(is_same_when_bound(one, other) for one, other in pairs)


def _place(document: dict[str, Any]) -> str:
    """What tells one output from another: its index, or where a server gives none, its id."""
    index = document.get("output_index")
    if index is not None:
        return str(index)
    item = document.get("item")
    return str(document.get("item_id") or (item.get("id") if isinstance(item, dict) else None))


class ResponsesStreamEncoder(StreamEncoder):
    """Writes the events of a stream, one output item at a time."""

    def __init__(self, model: str, answer_id: str) -> None:
        self._model = model
        self._answer_id = answer_id
        self._sequence = 0
        self._output: list[Block] = []
        self._open: tuple[str, int] | None = None
        self._pieces: list[str] = []
        self._call = ToolCallDelta(0)
        self._calls = CallQueue()

    def start(self) -> bytes:
        empty = LlmResponse("", None, self._model, None, "")
        response = response_object(empty, self._answer_id, []) | {"status": "in_progress"}
        return b"".join(
            self._event(kind, response=response) for kind in ("response.created", "response.in_progress")
        )

    def chunk(self, chunk: StreamChunk) -> bytes:
        events = b""
        if chunk.reasoning:
            events += self._in_item("reasoning", 0)
            events += self._piece("response.reasoning_summary_text.delta", chunk.reasoning, summary_index=0)
        if chunk.delta:
            events += self._in_item("message", 0)
            events += self._piece("response.output_text.delta", chunk.delta, content_index=0, logprobs=[])
        for piece in chunk.tool_calls:
            events += b"".join(map(self._call_piece, self._calls.put(piece)))
        if chunk.response is not None:
            events += b"".join(map(self._call_piece, self._calls.rest()))
            events += self._close_item(is_refusal=chunk.finish_reason == "refusal")
            whole = response_object(chunk.response, self._answer_id, self._output)
            events += self._event(f"response.{whole['status']}", response=whole)
        return events

    def _call_piece(self, piece: ToolCallDelta) -> bytes:
        events = b""
        if self._open != ("function_call", piece.index):
            events = self._close_item()
            self._call = piece
        events += self._in_item("function_call", piece.index)
        if piece.arguments:
            events += self._piece("response.function_call_arguments.delta", piece.arguments)
        return events

    def _piece(self, kind: str, delta: str, **fields: object) -> bytes:
        self._pieces.append(delta)
        return self._event(
            kind, item_id=self._item_id(), output_index=len(self._output), **fields, delta=delta
        )

    def _in_item(self, kind: str, call: int) -> bytes:
        if self._open == (kind, call):
            return b""
        events = self._close_item()
        self._open = (kind, call)
        item = self._item() | ({} if kind == "reasoning" else {"status": "in_progress"})
        events += self._event("response.output_item.added", output_index=len(self._output), item=item)
        if kind == "message":
            events += self._part("response.content_part.added", content_index=0, part=text_part(""))
        elif kind == "reasoning":
            part = {"type": "summary_text", "text": ""}
            events += self._part("response.reasoning_summary_part.added", summary_index=0, part=part)
        return events

    def _close_item(self, *, is_refusal: bool = False) -> bytes:
        if self._open is None:
            return b""
        kind, _ = self._open
        item, whole = self._item(), "".join(self._pieces)
        if kind == "message" and is_refusal:
            item = message_item(self._answer_id, whole, is_refusal=True)
        if kind == "message":
            events = self._part("response.output_text.done", content_index=0, text=whole, logprobs=[])
            events += self._part("response.content_part.done", content_index=0, part=text_part(whole))
        elif kind == "reasoning":
            part = {"type": "summary_text", "text": whole}
            events = self._part("response.reasoning_summary_text.done", summary_index=0, text=whole)
            events += self._part("response.reasoning_summary_part.done", summary_index=0, part=part)
        else:
            name = self._call.name or ""
            events = self._part("response.function_call_arguments.done", arguments=whole, name=name)
        events += self._event("response.output_item.done", output_index=len(self._output), item=item)
        self._output.append(item)
        self._pieces = []
        self._open = None
        return events

    def _item_id(self) -> str:
        kind, call = self._open or ("", 0)
        ids = {"message": f"msg_{self._answer_id}", "reasoning": f"rs_{self._answer_id}"}
        return ids.get(kind, f"fc_{self._answer_id}_{call}")

    def _item(self) -> Block:
        """The open item as it is so far."""
        kind, call = self._open or ("", 0)
        so_far = "".join(self._pieces)
        if kind == "message":
            return message_item(self._answer_id, so_far)
        if kind == "reasoning":
            return reasoning_item(self._answer_id, so_far)
        return call_item(self._answer_id, call, self._call.id, self._call.name or "", so_far)

    def _part(self, kind: str, **fields: object) -> bytes:
        return self._event(kind, item_id=self._item_id(), output_index=len(self._output), **fields)

    def _event(self, kind: str, **fields: object) -> bytes:
        event = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return sse_event(orjson.dumps(event), kind)
