"""Answers and streams of the completions API: a text, and why it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from cortex_replay.types import LlmResponse, StreamChunk
from cortex_replay.wire.body import Block, Body
from cortex_replay.wire.openai_chat.answer import decode_usage, encode_usage
from cortex_replay.wire.openai_chat.stream import DONE, ChatStreamDecoder
from cortex_replay.wire.shape import WrongShape, objects, optional_object, text
from cortex_replay.wire.sse import sse_event
from cortex_replay.wire.streams import StreamEncoder

__all__ = ["CompletionStreamDecoder", "CompletionStreamEncoder", "decode_answer", "encode_answer"]


def decode_answer(answer: dict[str, Any], asked_model: str, raw_hash: str) -> LlmResponse:
    choices = objects(answer, "choices")
    if not choices:
        raise WrongShape("there is no choice")
    if not isinstance(choices[0].get("text"), str):
        raise WrongShape("the first choice has no text")
    return LlmResponse(
        text=text(choices[0], "text"),
        parsed_json=None,
        model=text(answer, "model") or asked_model,
        usage=decode_usage(optional_object(answer, "usage")),
        raw_hash=raw_hash,
        finish_reason=text(choices[0], "finish_reason") or "stop",
    )


def encode_answer(response: LlmResponse, answer_id: str) -> Body:
    choice = _choice(response.text, response.finish_reason or "stop")
    answer = {**_head(response.model, answer_id), "choices": [choice]}
    return answer if response.usage is None else answer | {"usage": encode_usage(response.usage)}


def _head(model: str, answer_id: str) -> Block:
    return {"id": f"cmpl-{answer_id}", "object": "text_completion", "created": 0, "model": model}


def _choice(said: str, finish_reason: str | None) -> Block:
    return {"index": 0, "text": said, "logprobs": None, "finish_reason": finish_reason}


class CompletionStreamDecoder(ChatStreamDecoder):
    """Reads a stream up to its ``[DONE]``, as that of a chat; only what a choice holds is another thing."""

    def _choice(self, choice: dict[str, Any]) -> Iterator[StreamChunk]:
        yield from self._add_text(text(choice, "text"))
        self._finish_reason = text(choice, "finish_reason") or self._finish_reason


class CompletionStreamEncoder(StreamEncoder):
    """Writes the events of a stream, the usage after them."""

    def __init__(self, model: str, answer_id: str) -> None:
        self._head = _head(model, answer_id)

    def start(self) -> bytes:
        return b""

    def chunk(self, chunk: StreamChunk) -> bytes:
        events = self._event([_choice(chunk.delta, None)]) if chunk.delta else b""
        if chunk.response is None:
            return events
        events += self._event([_choice("", chunk.finish_reason or "stop")])
        if chunk.response.usage is not None:
            events += self._event([], usage=encode_usage(chunk.response.usage))
        return events + sse_event(DONE)

    def _event(self, choices: list[Block], **fields: Block) -> bytes:
        return sse_event(orjson.dumps({**self._head, "choices": choices, **fields}))
