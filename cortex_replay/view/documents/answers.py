"""Answers as documents: what people read of them, and the stream on its time line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from cortex_replay.behaviour.facts import Said
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.money import PriceList
from cortex_replay.engine.outcomes import failure_of
from cortex_replay.errors import LlmError, ResponseParse
from cortex_replay.mcp.scripts import is_script
from cortex_replay.mcp.summaries import end_of_script
from cortex_replay.store import Answer
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import StreamChunk
from cortex_replay.view.documents.cutter import Cutter
from cortex_replay.view.documents.requests import tool_call_document
from cortex_replay.view.shapes import AnswerDocument, Spent, StreamDocument
from cortex_replay.view.spent import spent_on
from cortex_replay.wire.recording import body_of, timed_chunks

__all__ = [
    "answer_document",
    "compared_answer",
    "failure_document",
    "plain_answer",
    "put_in_order",
    "reply_document",
]


def answer_document(
    answer: Answer, cut: Cutter, asked_model: str = "", spent: Spent | None = None
) -> AnswerDocument:
    """One recorded answer.

    Args:
        answer: As it is stored.
        cut: Makes texts short and harmless.
        asked_model: Whose it is; a decoder of its stream wants to know.
        spent: What it took.
    """
    return {**plain_answer(answer, cut, spent), "stream": _stream(answer, cut, asked_model)}


def plain_answer(answer: Answer, cut: Cutter, spent: Spent | None = None) -> AnswerDocument:
    """The same without its stream."""
    return {
        "text": cut.text(answer.text),
        "reasoning": cut.text(answer.reasoning or ""),
        "tool_calls": [tool_call_document(call, cut) for call in answer.tool_calls],
        "parsed": cut.json(answer.parsed_json),
        "finish_reason": None if answer.finish_reason is None else cut.text(answer.finish_reason),
        "spent": spent,
        "stream": None,
        "status": None,
    }


def reply_document(text: str, status: JsonValue, cut: Cutter) -> AnswerDocument:
    """What came back that is no answer of a model.

    Args:
        text: What it says.
        status: Of HTTP, if it has one.
        cut: Makes texts short and harmless.
    """
    return {**plain_answer(Answer(text), cut), "status": status if isinstance(status, int) else None}


def failure_document(exchange: Exchange, cut: Cutter) -> AnswerDocument:
    """A recorded failure, as the answer that it was instead of one."""
    made = reply_document(str(failure_of(exchange)), exchange.wire.get("status"), cut)
    return {**made, "status": made["status"] or 0}


def compared_answer(said: Said, cut: Cutter) -> AnswerDocument:
    """What a call got, to stand beside what it gets now: without its stream, which never comes twice."""
    if isinstance(said, Answer):
        usage = said.usage
        return plain_answer(said, cut, None if usage is None else spent_on([("", usage)], PriceList()))
    return reply_document(_text_in(said), said.get("status"), cut)


def _text_in(wire: Mapping[str, JsonValue]) -> str:
    """What came back of a call that asked no model, or failed."""
    if is_script(wire):
        return end_of_script(wire)
    if "frames" in wire:
        return compact(wire["frames"])
    try:
        return body_of(wire).decode(errors="replace")
    except ResponseParse:
        return ""


def put_in_order(
    good: Sequence[AnswerDocument], failures: Mapping[int, AnswerDocument]
) -> list[AnswerDocument]:
    """All answers to a key as they were given.

    Args:
        good: Those that are answers, in their order.
        failures: The others by their places among all, from 1.
    """
    left, found = iter(good), []
    for place in range(1, len(good) + len(failures) + 1):
        answer = failures.get(place) or next(left, None)
        found += [] if answer is None else [answer]
    # Places that are too high for what there is come last.
    return (
        found + [*left] + [failures[place] for place in sorted(failures) if place > len(good) + len(failures)]
    )


def _stream(answer: Answer, cut: Cutter, asked_model: str) -> StreamDocument | None:
    try:
        chunks = _chunks(answer, asked_model)
    except LlmError:  # what it says is shown all the same
        return None
    rows = [(at_ms, *row) for at_ms, chunk in chunks for row in _rows(chunk)]
    if not rows:
        return None
    texts = [text for _, _, text in rows]
    for kind in ("text", "reasoning", "tool"):  # a secret may go over several pieces of one kind
        places = [i for i, row in enumerate(rows) if row[1] == kind]
        for place, text in zip(places, cut.pieces([texts[i] for i in places]), strict=True):
            texts[place] = text
    return {
        "at_ms": list(
            accumulate((round(at_ms, 1) for at_ms, _, _ in rows), max)
        ),  # a time line never goes back
        "delta": texts,
        "kind": [kind for _, kind, _ in rows],
    }


def _chunks(answer: Answer, asked_model: str) -> Sequence[tuple[float, StreamChunk]]:
    wire: Mapping[str, JsonValue] = answer.wire or {}
    if wire.get("stream") is True:
        return timed_chunks(wire, asked_model)
    return answer.stream


def _rows(chunk: StreamChunk) -> list[tuple[str, str]]:
    """What a chunk adds, by kind. One that only ends a stream adds nothing, but its time counts."""
    found = [("reasoning", chunk.reasoning)] if chunk.reasoning else []
    found += [("text", chunk.delta)] if chunk.delta else []
    found += [("tool", f"{call.name or ''}{call.arguments}") for call in chunk.tool_calls]
    return found or [("event", "")]
