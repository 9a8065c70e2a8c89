"""Whole answers and errors of ``generateContent``."""

from __future__ import annotations

from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmResponse, TokenUsage, ToolCall
from cortex_replay.wire.body import Block, Body
from cortex_replay.wire.shape import WrongShape, count, objects, optional_object, text, usage_of

__all__ = [
    "candidate_in",
    "decode_answer",
    "decode_call",
    "decode_usage",
    "encode_answer",
    "encode_call",
    "encode_error",
    "encode_usage",
    "finish_reason",
    "finish_word",
    "parts_in",
]

_REASONS: Final = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter"}
_WORDS: Final = {ours: theirs for theirs, ours in _REASONS.items()} | {
    "tool_calls": "STOP",
    "refusal": "SAFETY",
}
_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}


def decode_answer(answer: dict[str, Any], asked_model: str, raw_hash: str) -> LlmResponse:
    candidate = candidate_in(answer)
    blocked = text(optional_object(answer, "promptFeedback"), "blockReason")
    if candidate is None and not blocked:
        raise WrongShape("there is no candidate")
    parts = parts_in(candidate or {})
    calls = tuple(decode_call(part) for part in parts if "functionCall" in part)
    reason = text(candidate or {}, "finishReason")
    if candidate is not None and not parts and not reason:
        raise WrongShape("the first candidate says nothing")
    return LlmResponse(
        text="".join(text(part, "text") for part in parts if part.get("thought") is not True),
        parsed_json=None,
        model=text(answer, "modelVersion") or asked_model,
        usage=decode_usage(optional_object(answer, "usageMetadata")),
        raw_hash=raw_hash,
        finish_reason=finish_reason("SAFETY" if candidate is None else reason or "STOP", bool(calls)),
        tool_calls=calls,
        reasoning="".join(text(part, "text") for part in parts if part.get("thought") is True) or None,
    )


def candidate_in(answer: dict[str, Any]) -> Block | None:
    """The first candidate, which is the one without a number or with 0."""
    return next((one for one in objects(answer, "candidates") if not one.get("index")), None)


def parts_in(candidate: Block) -> list[Block]:
    return objects(optional_object(candidate, "content"), "parts")


def decode_call(part: Block) -> ToolCall:
    call = optional_object(part, "functionCall")
    arguments: JsonValue = call.get("args")
    return ToolCall(
        id=text(call, "id") or None,
        name=text(call, "name"),
        arguments={} if arguments is None else arguments,
    )


def finish_reason(word: str, has_calls: bool) -> str:
    """Our reason for the API's word: it has none of its own for calls."""
    return "tool_calls" if word == "STOP" and has_calls else _REASONS.get(word, word)


def finish_word(reason: str | None) -> str:
    """The inverse of :func:`finish_reason`."""
    return _WORDS.get(reason or "stop", reason or "STOP")


def decode_usage(usage: Block) -> TokenUsage | None:
    """The counts. Thoughts are counted beside the answer, and what a tool brought beside the prompt."""
    prompt = _sum_of(usage, "promptTokenCount", "toolUsePromptTokenCount")
    completion = _sum_of(usage, "candidatesTokenCount", "thoughtsTokenCount")
    return usage_of(prompt, completion, count(usage, "cachedContentTokenCount"))


def _sum_of(usage: Block, *names: str) -> int | None:
    counts = [number for name in names if (number := count(usage, name)) is not None]
    return sum(counts) if counts else None


def encode_answer(response: LlmResponse, answer_id: str) -> Body:
    parts: list[Block] = []
    if response.reasoning:
        parts.append({"text": response.reasoning, "thought": True})
    if response.text:
        parts.append({"text": response.text})
    parts += map(encode_call, response.tool_calls)
    content = {"role": "model", "parts": parts or [{"text": ""}]}
    candidate = {"content": content, "finishReason": finish_word(response.finish_reason), "index": 0}
    answer: Body = {"candidates": [candidate]}
    if response.usage is not None:
        answer["usageMetadata"] = encode_usage(response.usage)
    return answer | {"modelVersion": response.model, "responseId": answer_id}


def encode_call(call: ToolCall) -> Block:
    head: Block = {} if call.id is None else {"id": call.id}
    return {"functionCall": head | {"name": call.name, "args": call.arguments}}


def encode_usage(usage: TokenUsage) -> Block:
    counts: Block = {
        "promptTokenCount": usage.prompt_tokens,
        "candidatesTokenCount": usage.completion_tokens,
        "totalTokenCount": usage.prompt_tokens + usage.completion_tokens,
    }
    if usage.cached_tokens is not None:
        counts["cachedContentTokenCount"] = usage.cached_tokens
    return counts


def encode_error(status: int, message: str, error_type: str | None = None) -> Body:
    kind = _STATUSES.get(status) or error_type or "UNKNOWN"
    return {"error": {"code": status, "message": message, "status": kind}}
