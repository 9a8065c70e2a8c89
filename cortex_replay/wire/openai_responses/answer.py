"""Whole answers and errors of the Responses API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from cortex_replay.errors import Upstream
from cortex_replay.types import LlmResponse, TokenUsage
from cortex_replay.wire.body import Block, Body
from cortex_replay.wire.calls import arguments_text, decode_call
from cortex_replay.wire.failures import error_in
from cortex_replay.wire.openai_chat.answer import encode_cache_counts
from cortex_replay.wire.shape import WrongShape, count, objects, optional_object, text, usage_of

__all__ = [
    "decode_answer",
    "decode_usage",
    "encode_answer",
    "encode_usage",
    "finish_reason_of",
    "raise_for_failure",
]

_REASONS: Final = {"max_output_tokens": "length"}
_INCOMPLETE: Final = {ours: theirs for theirs, ours in _REASONS.items()}
_COMPLETE: Final = ("stop", "tool_calls", "refusal")


def decode_answer(answer: dict[str, Any], asked_model: str, raw_hash: str) -> LlmResponse:
    raise_for_failure(answer)
    if not isinstance(answer.get("output"), list):
        raise WrongShape("there is no output")
    items = objects(answer, "output")
    blocks = [block for item in items if item.get("type") == "message" for block in objects(item, "content")]
    called = [item for item in items if item.get("type") == "function_call"]
    calls = tuple(decode_call(text(item, "call_id"), item) for item in called)
    is_refusal = any(block.get("type") == "refusal" for block in blocks)
    return LlmResponse(
        text="".join(text(b, "refusal" if b.get("type") == "refusal" else "text") for b in blocks),
        parsed_json=None,
        model=text(answer, "model") or asked_model,
        usage=decode_usage(optional_object(answer, "usage")),
        raw_hash=raw_hash,
        finish_reason=finish_reason_of(answer, bool(calls), is_refusal),
        tool_calls=calls,
        reasoning="".join(_thoughts(items)) or None,
    )


def raise_for_failure(answer: dict[str, Any]) -> None:
    """A response that is not whole is an error, whatever the status of the HTTP answer."""
    if (error := error_in(answer, 200)) is not None:
        raise error
    status = text(answer, "status") or "completed"
    if status not in ("completed", "incomplete"):
        raise Upstream(200, f"the response is {status}")


def finish_reason_of(answer: dict[str, Any], has_calls: bool, is_refusal: bool) -> str:
    if text(answer, "status") == "incomplete":
        reason = text(optional_object(answer, "incomplete_details"), "reason") or "incomplete"
        return _REASONS.get(reason, reason)
    if is_refusal:
        return "refusal"
    return "tool_calls" if has_calls else "stop"


def _thoughts(items: Iterable[Block]) -> Iterable[str]:
    for item in items:
        if item.get("type") == "reasoning":
            for name in ("summary", "content"):
                yield from (text(block, "text") for block in objects(item, name))


def decode_usage(usage: Block) -> TokenUsage | None:
    details = optional_object(usage, "input_tokens_details")
    return usage_of(
        count(usage, "input_tokens"),
        count(usage, "output_tokens"),
        count(details, "cached_tokens"),
        count(details, "cache_write_tokens"),
    )


def encode_answer(response: LlmResponse, answer_id: str) -> Body:
    output: list[Block] = []
    if response.reasoning:
        output.append(reasoning_item(answer_id, response.reasoning))
    if response.text:
        output.append(message_item(answer_id, response.text, response.finish_reason == "refusal"))
    for i, call in enumerate(response.tool_calls):
        arguments = arguments_text(call.arguments)
        output.append(call_item(answer_id, i, call.id, call.name, arguments))
    return response_object(response, answer_id, output)


def reasoning_item(answer_id: str, reasoning: str) -> Block:
    summary = [{"type": "summary_text", "text": reasoning}] if reasoning else []
    return {"id": f"rs_{answer_id}", "type": "reasoning", "summary": summary}


def text_part(text: str) -> Block:
    return {"type": "output_text", "text": text, "annotations": []}


def message_item(answer_id: str, text: str, is_refusal: bool = False) -> Block:
    block: Block = {"type": "refusal", "refusal": text} if is_refusal else text_part(text)
    head: Block = {"id": f"msg_{answer_id}", "type": "message", "role": "assistant", "status": "completed"}
    return head | {"content": [block] if text else []}


def call_item(answer_id: str, number: int, call_id: str | None, name: str, arguments: str) -> Block:
    return {
        "id": f"fc_{answer_id}_{number}",
        "type": "function_call",
        "status": "completed",
        "call_id": call_id or f"call_{answer_id}_{number}",
        "name": name,
        "arguments": arguments,
    }


def response_object(response: LlmResponse, answer_id: str, output: list[Block]) -> Body:
    """The object that both a whole answer and the last event of a stream hold."""
    reason = response.finish_reason or "stop"
    is_complete = reason in _COMPLETE
    return {
        "id": f"resp_{answer_id}",
        "object": "response",
        "created_at": 0,
        "status": "completed" if is_complete else "incomplete",
        "error": None,
        "incomplete_details": None if is_complete else {"reason": _INCOMPLETE.get(reason, reason)},
        "instructions": None,
        "model": response.model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None if response.usage is None else encode_usage(response.usage),
    }


def encode_usage(usage: TokenUsage) -> Block:
    counts: Block = {"input_tokens": usage.prompt_tokens}
    if details := encode_cache_counts(usage):
        counts["input_tokens_details"] = details
    return counts | {
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
