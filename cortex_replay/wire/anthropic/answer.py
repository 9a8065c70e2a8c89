"""Whole answers and errors of the Messages API."""

from __future__ import annotations

from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmResponse, TokenUsage, ToolCall
from cortex_replay.wire.body import Block, Body
from cortex_replay.wire.shape import WrongShape, count, objects, optional_object, text, usage_of

__all__ = [
    "ERROR_TYPES",
    "FINISH_REASONS",
    "decode_answer",
    "decode_usage",
    "encode_answer",
    "encode_error",
    "encode_usage",
    "stop_reason",
]

FINISH_REASONS: Final = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
_STOP_REASONS: Final = {ours: theirs for theirs, ours in FINISH_REASONS.items()}
ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def decode_answer(answer: dict[str, Any], asked_model: str, raw_hash: str) -> LlmResponse:
    if "content" not in answer:
        raise WrongShape("there is no content")
    blocks = objects(answer, "content")
    reason = text(answer, "stop_reason") or "end_turn"
    return LlmResponse(
        text="".join(text(block, "text") for block in blocks if block.get("type", "text") == "text"),
        parsed_json=None,
        model=text(answer, "model") or asked_model,
        usage=decode_usage(optional_object(answer, "usage")),
        raw_hash=raw_hash,
        finish_reason=FINISH_REASONS.get(reason, reason),
        tool_calls=tuple(_decode_call(block) for block in blocks if block.get("type") == "tool_use"),
        reasoning="".join(text(b, "thinking") for b in blocks if b.get("type") == "thinking") or None,
    )


def _decode_call(block: Block) -> ToolCall:
    arguments: JsonValue = block.get("input")
    return ToolCall(
        id=text(block, "id") or None,
        name=text(block, "name"),
        arguments={} if arguments is None else arguments,
    )


def decode_usage(usage: Block) -> TokenUsage | None:
    """The counts. ``input_tokens`` leaves out what went into or came from the cache."""
    fresh = count(usage, "input_tokens")
    cached = count(usage, "cache_read_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    prompt = None if fresh is None else fresh + (cached or 0) + (written or 0)
    by_time = usage.get("cache_creation")
    of_an_hour = count(by_time, "ephemeral_1h_input_tokens") if isinstance(by_time, dict) else None
    if of_an_hour is not None:  # a later event of a stream may correct the sum, and not its parts
        of_an_hour = None if written is None else min(of_an_hour, written)
    return usage_of(prompt, count(usage, "output_tokens"), cached, written, of_an_hour)


def encode_answer(response: LlmResponse, answer_id: str) -> Body:
    content: list[Block] = []
    if response.reasoning:
        content.append({"type": "thinking", "thinking": response.reasoning, "signature": ""})
    if response.text:
        content.append({"type": "text", "text": response.text})
    for i, call in enumerate(response.tool_calls):
        call_id = call.id or f"toolu_{answer_id}_{i}"
        content.append({"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments})
    return {
        "id": f"msg_{answer_id}",
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": content,
        "stop_reason": stop_reason(response.finish_reason),
        "stop_sequence": None,
        "usage": encode_usage(response.usage),
    }


def stop_reason(finish_reason: str | None) -> str:
    return _STOP_REASONS.get(finish_reason or "stop", finish_reason or "stop")


def encode_usage(usage: TokenUsage | None) -> Block:
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    counts: Block = {"input_tokens": max(0, usage.prompt_tokens - (cached or 0) - (written or 0))}
    if cached is not None:
        counts["cache_read_input_tokens"] = cached
    if written is not None:
        counts["cache_creation_input_tokens"] = written
    if written is not None and usage.cache_write_1h_tokens is not None:
        counts["cache_creation"] = {
            "ephemeral_5m_input_tokens": max(0, written - usage.cache_write_1h_tokens),
            "ephemeral_1h_input_tokens": usage.cache_write_1h_tokens,
        }
    return counts | {"output_tokens": usage.completion_tokens}


def encode_error(status: int, message: str, error_type: str | None = None) -> Body:
    kind = error_type or ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}
