"""Cutting secrets out of an answer in such a way that its stream still adds up to it."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import replace

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import LlmError, RecordingRefused
from cortex_replay.redact.binary import readings_of
from cortex_replay.redact.redactor import Hit, Redactor
from cortex_replay.store import Answer, TimedChunk
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types import StreamChunk, ToolCall, ToolCallDelta
from cortex_replay.wire.recording import decode_recording

__all__ = ["redact_answer"]


def redact_answer(
    answer: Answer, redactor: Redactor, *, needs_wire: bool = False
) -> tuple[Answer, list[Hit]]:
    """The answer without secrets, and what was found.

    Pieces of a stream are looked at joined, because a secret seldom comes in one piece.

    Args:
        answer: As it came.
        redactor: What to cut out.
        needs_wire: Whether it cannot be given without its wire: of several answers to one request, the
            others stand nowhere else.

    Raises:
        RecordingRefused: It needs its wire, and that is none any more without its secrets.
    """
    if answer.wire is not None:
        made, hits = redact_answer(replace(answer, wire=None), redactor)
        hits = hits or redactor.document(answer.wire)[1] or redactor.document(_readings(answer.wire))[1]
        if not hits:  # it stays as it came
            return replace(answer, stream=()), hits
        if needs_wire:
            return replace(made, wire=_cut_wire(answer.wire, redactor), stream=()), hits
        return made, hits
    if answer.stream:
        return _redact_stream(answer, redactor)
    text, hits = redactor.text(answer.text)
    reasoning, more = redactor.text(answer.reasoning or "")
    calls = []
    hits += more
    for call in answer.tool_calls:
        arguments, more = redactor.document(call.arguments)
        hits += more
        calls.append(ToolCall(id=call.id, name=call.name, arguments=arguments))
    if not hits:
        return answer, hits
    return _with(answer, text, reasoning, calls, redactor), hits


def _readings(wire: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What bytes that are no text say."""
    encoded = wire.get("body_base64")
    return readings_of(base64.b64decode(encoded)) if isinstance(encoded, str) else {}


def _cut_wire(wire: dict[str, JsonValue], redactor: Redactor) -> dict[str, JsonValue]:
    clean, _ = redactor.document(wire)
    assert isinstance(clean, dict)  # noqa: S101 - as it was
    try:
        decode_recording(clean, "")
    except LlmError:
        raise RecordingRefused(["wire"]) from None
    return clean


def _redact_stream(answer: Answer, redactor: Redactor) -> tuple[Answer, list[Hit]]:
    chunks = [timed.chunk for timed in answer.stream]
    deltas, hits = redactor.pieces([chunk.delta for chunk in chunks])
    thoughts, more = redactor.pieces([chunk.reasoning or "" for chunk in chunks])
    hits += more
    arguments: dict[tuple[int, int], str] = {}
    places = [(i, j, piece) for i, chunk in enumerate(chunks) for j, piece in enumerate(chunk.tool_calls)]
    for index in sorted({piece.index for _, _, piece in places}):
        own = [(i, j, piece.arguments) for i, j, piece in places if piece.index == index]
        pieces, more = redactor.pieces([text for _, _, text in own])
        hits += more
        arguments |= {(i, j): text for (i, j, _), text in zip(own, pieces, strict=True)}
    if not hits:
        return answer, hits
    stream = tuple(
        TimedChunk(
            timed.at_ms,
            StreamChunk(
                deltas[i],
                timed.chunk.finish_reason,
                tuple(
                    replace(piece, arguments=arguments[i, j])
                    for j, piece in enumerate(timed.chunk.tool_calls)
                ),
                thoughts[i] or None,
            ),
        )
        for i, timed in enumerate(answer.stream)
    )
    calls = ToolCallDelta.join(piece for timed in stream for piece in timed.chunk.tool_calls)
    whole = _with(answer, "".join(deltas), "".join(thoughts), calls, redactor)
    return replace(whole, stream=stream), hits


def _with(answer: Answer, text: str, reasoning: str, calls: Iterable[ToolCall], redactor: Redactor) -> Answer:
    return replace(
        answer,
        text=text,
        parsed_json=_json_of(answer, text, redactor),
        reasoning=reasoning or None,
        tool_calls=tuple(calls),
    )


def _json_of(answer: Answer, text: str, redactor: Redactor) -> JsonValue:
    """The parsed answer, from the same text that a reviewer reads."""
    if answer.parsed_json is None or text == answer.text:
        return answer.parsed_json
    try:
        return loads(text.encode())
    except JsonError:
        return redactor.document(answer.parsed_json)[0]
