"""Whole answers and errors of Converse, which Nova's own API shares."""

from __future__ import annotations

from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmResponse, TokenUsage, ToolCall
from cortex_replay.wire.anthropic.answer import FINISH_REASONS, stop_reason
from cortex_replay.wire.body import Block, Body
from cortex_replay.wire.shape import WrongShape, count, objects, optional_object, text, usage_of

__all__ = [
    "decode_answer",
    "decode_usage",
    "encode_answer",
    "encode_error",
    "encode_usage",
    "finish_reason",
    "is_own_call",
]

_ERROR_TYPES: Final = {
    400: "ValidationException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


def decode_answer(answer: dict[str, Any], asked_model: str, raw_hash: str) -> LlmResponse:
    """A whole answer. It does not name the model."""
    if "output" not in answer:
        raise WrongShape("there is no output")
    blocks = objects(optional_object(optional_object(answer, "output"), "message"), "content")
    thoughts = (optional_object(optional_object(b, "reasoningContent"), "reasoningText") for b in blocks)
    calls = [optional_object(block, "toolUse") for block in blocks if "toolUse" in block]
    return LlmResponse(
        text="".join(map(_text_in, blocks)),
        parsed_json=None,
        model=asked_model,
        usage=decode_usage(optional_object(answer, "usage")),
        raw_hash=raw_hash,
        finish_reason=finish_reason(text(answer, "stopReason")) or "stop",
        tool_calls=tuple(_decode_call(call) for call in calls if is_own_call(call)),
        reasoning="".join(text(thought, "text") for thought in thoughts) or None,
    )


def _text_in(block: Block) -> str:
    cited = objects(optional_object(block, "citationsContent"), "content")
    return text(block, "text") + "".join(text(inner, "text") for inner in cited)


def is_own_call(call: Block) -> bool:
    """Whether a call is for the client, and not for a tool of the server's."""
    return (text(call, "type") or "tool_use") == "tool_use"


def _decode_call(call: Block) -> ToolCall:
    arguments: JsonValue = call.get("input")
    return ToolCall(
        id=text(call, "toolUseId") or None,
        name=text(call, "name"),
        arguments={} if arguments is None else arguments,
    )


def finish_reason(reason: str) -> str:
    """Why an answer ended, in the words of every wire."""
    return FINISH_REASONS.get(reason, reason)


def decode_usage(usage: Block) -> TokenUsage | None:
    """The counts. ``inputTokens`` leaves out what went into or came from the cache."""
    fresh = count(usage, "inputTokens")
    cached = _count_of(usage, "cacheReadInputTokens")
    written = _count_of(usage, "cacheWriteInputTokens")
    prompt = None if fresh is None else fresh + (cached or 0) + (written or 0)
    return usage_of(prompt, count(usage, "outputTokens"), cached, written, _of_an_hour(usage, written))


def _of_an_hour(usage: Block, written: int | None) -> int | None:
    """What was written for an hour, where the provider says for how long it wrote."""
    details = usage.get("cacheDetails")
    if written is None or not isinstance(details, list) or not details:
        return None
    rows = [row for row in details if isinstance(row, dict) and row.get("ttl") == "1h"]
    return min(written, sum(count(row, "inputTokens") or 0 for row in rows))


def _count_of(usage: Block, name: str) -> int | None:
    """A count of the cache, which Nova's own API calls by a longer name."""
    found = count(usage, name)
    return count(usage, f"{name.removesuffix('s')}Count") if found is None else found


def encode_answer(response: LlmResponse, answer_id: str) -> Body:
    """An answer in this wire's shape."""
    content: list[Block] = []
    if response.reasoning:
        content.append({"reasoningContent": {"reasoningText": {"text": response.reasoning}}})
    if response.text:
        content.append({"text": response.text})
    for i, call in enumerate(response.tool_calls):
        call_id = call.id or f"tooluse_{answer_id}_{i}"
        content.append({"toolUse": {"toolUseId": call_id, "name": call.name, "input": call.arguments}})
    return {
        "metrics": {"latencyMs": 0},
        "output": {"message": {"content": content, "role": "assistant"}},
        "stopReason": stop_reason(response.finish_reason),
        "usage": encode_usage(response.usage),
    }


def encode_usage(usage: TokenUsage | None) -> Block:
    """The counts of an answer."""
    if usage is None:
        return {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    counts: Block = {
        "inputTokens": max(0, usage.prompt_tokens - (cached or 0) - (written or 0)),
        "outputTokens": usage.completion_tokens,
        "totalTokens": usage.prompt_tokens + usage.completion_tokens,
    }
    if cached is not None:
        counts["cacheReadInputTokens"] = cached
    if written is not None:
        counts["cacheWriteInputTokens"] = written
    if written is not None and usage.cache_write_1h_tokens is not None:
        of_an_hour = usage.cache_write_1h_tokens
        rows = [("1h", of_an_hour), ("5m", max(0, written - of_an_hour))]
        counts["cacheDetails"] = [{"ttl": ttl, "inputTokens": tokens} for ttl, tokens in rows]
    return counts


def encode_error(status: int, message: str, error_type: str | None = None) -> Body:
    """An error. SDKs take its code from the body where no header names it."""
    kind = "InternalServerException" if status >= 500 else "ValidationException"
    return {"__type": error_type or _ERROR_TYPES.get(status, kind), "message": message}
