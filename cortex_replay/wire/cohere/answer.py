"""Whole answers and errors of Cohere's chat API."""

from __future__ import annotations

from typing import Any, Final

from cortex_replay.types import LlmResponse, TokenUsage
from cortex_replay.wire.body import Block, Body
from cortex_replay.wire.calls import arguments_text, decode_call
from cortex_replay.wire.shape import WrongShape, count, objects, optional_object, text, usage_of

__all__ = [
    "call_block",
    "decode_answer",
    "decode_usage",
    "encode_answer",
    "encode_error",
    "encode_usage",
    "finish_reason_of",
    "finish_word",
]

_REASONS: Final = {"COMPLETE": "stop", "MAX_TOKENS": "length", "TOOL_CALL": "tool_calls"}
_WORDS: Final = {reason: word for word, reason in _REASONS.items()}


def finish_reason_of(word: str) -> str:
    """Why an answer ended; a word that others do not have stays."""
    return _REASONS.get(word, word)


def finish_word(reason: str | None) -> str:
    """The way back of :func:`finish_reason_of`."""
    return _WORDS.get(reason or "stop", reason or "")


def decode_answer(answer: dict[str, Any], asked_model: str, raw_hash: str) -> LlmResponse:
    message = optional_object(answer, "message")
    if not message:
        raise WrongShape("there is no message")
    content = objects(message, "content")
    calls = tuple(
        decode_call(text(call, "id"), optional_object(call, "function"))
        for call in objects(message, "tool_calls")
    )
    thinking = "".join(text(block, "thinking") for block in content if block.get("type") == "thinking")
    reason = finish_reason_of(text(answer, "finish_reason"))
    return LlmResponse(
        text="".join(text(block, "text") for block in content if block.get("type") == "text"),
        parsed_json=None,
        model=asked_model,
        usage=decode_usage(optional_object(answer, "usage")),
        raw_hash=raw_hash,
        finish_reason=reason or ("tool_calls" if calls else "stop"),
        tool_calls=calls,
        reasoning=thinking + text(message, "tool_plan") or None,
    )


def decode_usage(usage: Block) -> TokenUsage | None:
    """All tokens that were read and written, where the answer tells them from those that are paid for."""
    counts = optional_object(usage, "tokens") or optional_object(usage, "billed_units")
    return usage_of(
        count(counts, "input_tokens"), count(counts, "output_tokens"), count(usage, "cached_tokens")
    )


def encode_answer(response: LlmResponse, answer_id: str) -> Body:
    content: list[Block] = []
    if response.reasoning:
        content.append({"type": "thinking", "thinking": response.reasoning})
    if response.text or not response.tool_calls:
        content.append({"type": "text", "text": response.text})
    message: Block = {"role": "assistant", "content": content}
    if response.tool_calls:
        message["tool_calls"] = [
            call_block(call.id or f"call_{answer_id}_{i}", call.name, arguments_text(call.arguments))
            for i, call in enumerate(response.tool_calls)
        ]
    answer = {"id": answer_id, "finish_reason": finish_word(response.finish_reason), "message": message}
    return answer if response.usage is None else answer | {"usage": encode_usage(response.usage)}


def call_block(call_id: str, name: str, arguments: str) -> Block:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def encode_usage(usage: TokenUsage) -> Block:
    counts = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens}
    written: Block = {"billed_units": counts, "tokens": counts}
    if usage.cached_tokens is not None:
        written["cached_tokens"] = usage.cached_tokens
    return written


def encode_error(status: int, message: str, error_type: str | None = None) -> Body:  # noqa: ARG001 - it has no types
    return {"message": message}
