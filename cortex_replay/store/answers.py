"""T9 and T10 of :mod:`.trust`: an answer says the same in each form in which it is stored. No I/O.

A bound value that a stream cuts stands there in pieces, and in the text beside it whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from cortex_replay.bindings.placeholders import join_pieces
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.errors import LlmError, ResponseParse
from cortex_replay.store.fixture import Answer
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types import TokenUsage, ToolCall, ToolCallDelta

__all__ = ["answer_problem"]


def answer_problem(answer: Answer, asked_model: str) -> tuple[str, str] | None:
    """Why an answer to a request for a model is not trusted: the code of a finding, and the reason."""
    if answer.wire is not None:
        return _wire_problem(answer.wire, answer, asked_model)
    if not answer.stream:
        return None
    chunks = [timed.chunk for timed in answer.stream]
    if not _says("".join(chunk.delta for chunk in chunks), answer.text):
        return "stream-mismatch", "the deltas of its stream are not its text"
    pieces: list[ToolCallDelta] = [piece for chunk in chunks for piece in chunk.tool_calls]
    if _calls(ToolCallDelta.join(pieces)) != _calls(answer.tool_calls):
        return "stream-mismatch", "the tool calls of its stream are not those of its response"
    if not _says("".join(chunk.reasoning or "" for chunk in chunks), answer.reasoning or ""):
        return "stream-mismatch", "the reasoning in its stream is not that of its response"
    if answer.finish_reason is not None and chunks[-1].finish_reason != answer.finish_reason:
        return "stream-mismatch", "its stream ends for another reason than its response"
    if any(chunk.finish_reason is not None for chunk in chunks[:-1]):
        return "stream-mismatch", "a chunk before the last ends its stream"
    return None


def _wire_problem(wire: Mapping[str, JsonValue], answer: Answer, asked_model: str) -> tuple[str, str] | None:
    from cortex_replay.wire.recording import decode_recording  # noqa: PLC0415 - most stores need no codec

    try:
        decoded = decode_recording(wire, asked_model)
    except LlmError as error:
        # By its kind only: the message may be the provider's own words, and those are content.
        reason = str(error) if isinstance(error, ResponseParse) else type(error).__name__
        return "wire-undecodable", f"its wire cannot be decoded ({reason})"
    kept: list[tuple[str, object, object]] = [
        ("text", join_pieces(answer.text), join_pieces(decoded.text)),
        ("tool calls", _calls(answer.tool_calls), _calls(decoded.tool_calls)),
        ("finish reason", answer.finish_reason or "stop", decoded.finish_reason),
    ]
    if answer.model is not None:
        kept.append(("model", answer.model, decoded.model))
    if answer.usage is not None:
        kept.append(("usage", answer.usage, _usage_as_in(answer.usage, decoded.usage)))
    if answer.reasoning is not None:
        kept.append(("reasoning", join_pieces(answer.reasoning), join_pieces(decoded.reasoning or "")))
    if answer.parsed_json is not None and _canonical(decoded.text) != join_pieces(
        compact(answer.parsed_json)
    ):
        return "wire-mismatch", "the parsed_json of its response is not the text of its wire"
    for name, stored, on_the_wire in kept:
        if stored != on_the_wire:
            return "wire-mismatch", f"the {name} of its response is not what its wire says"
    return None


def _usage_as_in(stored: TokenUsage, decoded: TokenUsage | None) -> TokenUsage | None:
    """The usage of a wire, without the counts that are not stored: earlier versions read fewer of them."""
    if decoded is None:
        return None
    missing: dict[str, Any] = {one.name: None for one in fields(stored) if getattr(stored, one.name) is None}
    return replace(decoded, **missing)


def _canonical(text: str) -> str | None:
    try:
        return join_pieces(compact(loads(text.encode())))
    except JsonError:
        return None


def _calls(calls: Iterable[ToolCall]) -> list[str]:
    # As text, because Python takes 1, 1.0 and true for equal.
    return [join_pieces(compact(call.to_dict())) for call in calls]


def _says(streamed: str, text: str) -> bool:
    """Whether a stream says a text: a bound value that it cuts stands there in pieces."""
    return join_pieces(streamed) == join_pieces(text)
