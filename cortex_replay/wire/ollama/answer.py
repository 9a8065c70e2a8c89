"""Answers, streams and errors of Ollama: a stream's lines are answers with a piece of it each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.types import LlmResponse, StreamChunk, TokenUsage, ToolCall, ToolCallDelta
from cortex_replay.wire.body import Block, Body
from cortex_replay.wire.ndjson import LineParser
from cortex_replay.wire.shape import WrongShape, count, objects, optional_object, text, usage_of
from cortex_replay.wire.streams import StreamDecoder, StreamEncoder

__all__ = ["OllamaStreamDecoder", "OllamaStreamEncoder", "decode_answer", "encode_answer", "encode_error"]

_NO_TIME = "1970-01-01T00:00:00Z"


def _content_of(answer: dict[str, Any], is_chat: bool) -> tuple[str, str, list[Block]]:
    """The text, the thinking and the tool calls of an answer, or of a line of one."""
    message = optional_object(answer, "message") if is_chat else answer
    return (
        text(message, "content" if is_chat else "response"),
        text(message, "thinking"),
        objects(message, "tool_calls"),
    )


def decode_answer(answer: dict[str, Any], asked_model: str, raw_hash: str, *, is_chat: bool) -> LlmResponse:
    if not isinstance(answer.get("message" if is_chat else "response"), dict if is_chat else str):
        raise WrongShape("there is no message" if is_chat else "there is no response")
    if answer.get("done") is not True:
        raise WrongShape("it is not done")
    content, thinking, calls = _content_of(answer, is_chat)
    return LlmResponse(
        text=content,
        parsed_json=None,
        model=text(answer, "model") or asked_model,
        usage=_decode_usage(answer),
        raw_hash=raw_hash,
        finish_reason=_finish_reason(answer, bool(calls)),
        tool_calls=tuple(_decode_call(call) for call in calls),
        reasoning=thinking or None,
    )


def _finish_reason(answer: dict[str, Any], has_calls: bool) -> str:
    reason = text(answer, "done_reason") or "stop"
    return "tool_calls" if reason == "stop" and has_calls else reason


def _decode_call(call: Block) -> ToolCall:
    function = optional_object(call, "function")
    arguments: JsonValue = function.get("arguments")
    return ToolCall(
        id=text(call, "id") or None,
        name=text(function, "name"),
        arguments={} if arguments is None else arguments,
    )


def _decode_usage(answer: dict[str, Any]) -> TokenUsage | None:
    return usage_of(
        count(answer, "prompt_eval_count"),
        count(answer, "eval_count"),
        count(answer, "prompt_eval_cached_count"),
    )


def encode_answer(response: LlmResponse, _answer_id: str, *, is_chat: bool) -> Body:
    calls = [
        _encode_call(call.id, call.name, call.arguments, i) for i, call in enumerate(response.tool_calls)
    ]
    line = _line(response.model, is_chat, response.text, response.reasoning, calls)
    return line | _end_fields(response)


def _line(model: str, is_chat: bool, content: str, thinking: str | None, calls: list[Block]) -> Body:
    message: Block = {"role": "assistant", "content": content} if is_chat else {"response": content}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = calls
    head: Body = {"model": model, "created_at": _NO_TIME}
    return (head | {"message": message} if is_chat else head | message) | {"done": False}


def _end_fields(response: LlmResponse) -> Block:
    reason = response.finish_reason or "stop"
    end: Block = {"done": True, "done_reason": "stop" if reason == "tool_calls" else reason}
    if response.usage is not None:
        end["prompt_eval_count"] = response.usage.prompt_tokens
        if response.usage.cached_tokens is not None:
            end["prompt_eval_cached_count"] = response.usage.cached_tokens
        end["eval_count"] = response.usage.completion_tokens
    return end


def _encode_call(call_id: str | None, name: str, arguments: JsonValue, index: int) -> Block:
    call: Block = {} if call_id is None else {"id": call_id}
    return call | {"function": {"index": index, "name": name, "arguments": arguments}}


def encode_error(status: int, message: str, error_type: str | None = None) -> Body:  # noqa: ARG001 - it has no types
    return {"error": message}


class OllamaStreamDecoder(StreamDecoder):
    """Reads lines up to the one that is done."""

    def __init__(self, asked_model: str, *, is_chat: bool) -> None:
        super().__init__(LineParser(), asked_model)
        self._is_chat = is_chat
        self._calls = 0

    def _event(self, event: bytes) -> Iterator[StreamChunk]:
        document = self._document(event)
        content, thinking, calls = _content_of(document, self._is_chat)
        self._model = text(document, "model") or self._model
        yield from self._add_reasoning(thinking)
        yield from self._add_text(content)
        for call in calls:
            whole = _decode_call(call)
            piece = ToolCallDelta(self._calls, whole.id, whole.name, compact(whole.arguments))
            self._calls += 1
            yield from self._add_call(piece)
        if document.get("done") is True:
            self._usage = _decode_usage(document)
            self._finish_reason = _finish_reason(document, self._calls > 0)
            yield from self._end()


class OllamaStreamEncoder(StreamEncoder):
    """Writes one line per chunk; a tool call, which has no pieces here, when it is whole."""

    def __init__(self, model: str, _answer_id: str, *, is_chat: bool) -> None:
        self._model = model
        self._is_chat = is_chat
        self._pieces: list[ToolCallDelta] = []

    def start(self) -> bytes:
        return b""

    def chunk(self, chunk: StreamChunk) -> bytes:
        self._pieces += chunk.tool_calls
        lines = b""
        if chunk.delta or chunk.reasoning:
            lines += self._line_bytes(_line(self._model, self._is_chat, chunk.delta, chunk.reasoning, []))
        if chunk.response is None:
            return lines
        calls = [
            _encode_call(call.id, call.name, call.arguments, i)
            for i, call in enumerate(ToolCallDelta.join(self._pieces))
        ]
        if calls:
            lines += self._line_bytes(_line(self._model, self._is_chat, "", None, calls))
        end = _line(self._model, self._is_chat, "", None, []) | _end_fields(chunk.response)
        return lines + self._line_bytes(end)

    @staticmethod
    def _line_bytes(line: Body) -> bytes:
        return orjson.dumps(line) + b"\n"
