"""Whole answers and errors of the chat completions API."""

from __future__ import annotations

from typing import Any

from cortex_replay.types import LlmResponse, TokenUsage
from cortex_replay.wire.body import Block, Body
from cortex_replay.wire.calls import arguments_text, decode_call
from cortex_replay.wire.shape import WrongShape, count, objects, optional_object, text, usage_of

__all__ = [
    "decode_answer",
    "decode_usage",
    "encode_answer",
    "encode_cache_counts",
    "encode_error",
    "encode_usage",
    "reasoning_in",
    "text_in",
]


def decode_answer(answer: dict[str, Any], asked_model: str, raw_hash: str) -> LlmResponse:
    choices = objects(answer, "choices")
    if not choices:
        raise WrongShape("there is no choice")
    message = optional_object(choices[0], "message")
    if not message:
        raise WrongShape("the first choice has no message")
    called = objects(message, "tool_calls")
    calls = tuple(decode_call(text(call, "id"), optional_object(call, "function")) for call in called)
    refusal = text(message, "refusal")
    reason = "refusal" if refusal else text(choices[0], "finish_reason")
    return LlmResponse(
        text=text_in(message) + refusal,
        parsed_json=None,
        model=text(answer, "model") or asked_model,
        usage=decode_usage(optional_object(answer, "usage")),
        raw_hash=raw_hash,
        finish_reason=reason or ("tool_calls" if calls else "stop"),
        tool_calls=calls,
        reasoning=reasoning_in(message) or None,
    )


def text_in(message: Block) -> str:
    """What the model said, which some servers give in blocks."""
    if isinstance(message.get("content"), list):
        return "".join(text(b, "text") for b in objects(message, "content") if b.get("type") == "text")
    return text(message, "content")


def reasoning_in(message: Block) -> str:
    """What the model thought, under either of the names that servers use, or in blocks as Mistral has it."""
    named = text(message, "reasoning_content") or text(message, "reasoning")
    if named or not isinstance(message.get("content"), list):
        return named
    thoughts = [block for block in objects(message, "content") if block.get("type") == "thinking"]
    return "".join(text(one, "text") for thought in thoughts for one in objects(thought, "thinking"))


def decode_usage(usage: Block) -> TokenUsage | None:
    details = optional_object(usage, "prompt_tokens_details")
    cached = count(details, "cached_tokens")
    return usage_of(
        count(usage, "prompt_tokens"),
        count(usage, "completion_tokens"),
        count(usage, "prompt_cache_hit_tokens") if cached is None else cached,  # as DeepSeek calls it
        count(details, "cache_write_tokens"),
    )


def encode_answer(response: LlmResponse, answer_id: str) -> Body:
    is_refusal = response.finish_reason == "refusal"
    message: Block = {"role": "assistant", "content": response.text, "refusal": None}
    if is_refusal:
        message |= {"content": None, "refusal": response.text}
    elif response.tool_calls and not response.text:
        message["content"] = None
    if response.reasoning:
        message["reasoning_content"] = response.reasoning
    if response.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id or f"call_{answer_id}_{i}",
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
            }
            for i, call in enumerate(response.tool_calls)
        ]
    reason = "stop" if is_refusal else response.finish_reason or "stop"
    answer = {
        "id": f"chatcmpl-{answer_id}",
        "object": "chat.completion",
        "created": 0,
        "model": response.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
    }
    return answer if response.usage is None else answer | {"usage": encode_usage(response.usage)}


def encode_usage(usage: TokenUsage) -> Block:
    counts: Block = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
    if details := encode_cache_counts(usage):
        counts["prompt_tokens_details"] = details
    return counts


def encode_cache_counts(usage: TokenUsage) -> Block:
    """What came from the cache and went there, as far as it is known."""
    counts = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return {name: number for name, number in counts.items() if number is not None}


def encode_error(status: int, message: str, error_type: str | None = None) -> Body:
    kind = error_type or ("server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
