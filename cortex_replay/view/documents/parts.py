"""Requests and answers as documents: what people read of them, redacted, and no longer than can be shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.outcomes import failure_of
from cortex_replay.errors import LlmError
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole, StreamChunk, ToolCall
from cortex_replay.types.parts import stored_part
from cortex_replay.view.documents.threads import ALONE, Thread
from cortex_replay.view.shapes import AnswerDocument, Spent, StreamDocument
from cortex_replay.wire.recording import timed_chunks

__all__ = [
    "Cutter",
    "answer_document",
    "failure_document",
    "message_documents",
    "put_in_order",
    "request_document",
]

LONGEST_TEXT: Final = 256 * 1024
"""Of a text in a document; the file itself has all of it."""
_OWN_FIELDS: Final = frozenset(["system", "messages", "tools"])


class Cutter:
    """Takes secrets out of texts, and then what is too long; it remembers whether something was."""

    def __init__(self, redactor: Redactor, most: int = LONGEST_TEXT) -> None:
        self.redactor = redactor
        self.is_cut = False
        self._most = most

    def text(self, text: str) -> str:
        """A text. Secrets go first: half of one would not be known for one."""
        clean = self.redactor.text(text)[0]
        self.is_cut |= len(clean) > self._most
        return clean[: self._most]

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """The pieces of one text; those behind the end are empty."""
        clean = self.redactor.pieces(pieces)[0]
        left, shown = self._most, []
        for piece in clean:
            shown.append(piece[:left])
            self.is_cut |= len(piece) > left
            left -= len(shown[-1])
        return shown

    def json(self, value: JsonValue) -> JsonValue:
        """A value; one that is too long becomes the start of its text."""
        clean = self.redactor.json(value)[0]
        written = compact(clean)
        if len(written) <= self._most:
            return clean
        self.is_cut = True
        return written[: self._most]


def request_document(request: LlmRequest, cut: Cutter, thread: Thread = ALONE) -> dict[str, Any]:
    """What was asked: ``system``, ``messages``, ``tools`` and ``settings`` of a call's document.

    Args:
        request: The whole request.
        cut: Makes texts short and harmless.
        thread: What stands in other documents, and is left out here.
    """
    # Without what may be long: a conversation would be written out for each of its turns.
    rest = replace(request, system="", messages=(), tools=(), cache=None).to_dict()
    settings = {name: value for name, value in rest.items() if name not in _OWN_FIELDS}
    return {
        "system": "" if thread.system_in else cut.text(request.system),
        "messages": message_documents(request.messages[thread.before :], cut),
        "tools": [] if thread.tools_in else [_tool(tool, cut) for tool in request.tools],
        "settings": {
            name: cut.json(value) for name, value in settings.items() if value not in (None, [], {})
        },
    }


def message_documents(messages: Iterable[LlmMessage], cut: Cutter) -> list[dict[str, Any]]:
    """Messages, each with what it has and no more."""
    return [_message(message, cut) for message in messages]


def _message(message: LlmMessage, cut: Cutter) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message.role.value, "text": cut.text(message.content)}
    if message.tool_calls:
        found["tool_calls"] = [_tool_call(call, cut) for call in message.tool_calls]
    if message.role is LlmRole.TOOL or message.tool_call_id is not None:
        found["tool_call_id"] = message.tool_call_id
        found["is_error"] = message.is_error
    parts = [_part(part, cut) for part in message.parts]
    # The texts of parts are the message's own text already.
    if others := [part for part in parts if part["kind"] != "text"]:
        found["parts"] = others
    return found


def _part(part: JsonValue, cut: Cutter) -> dict[str, str]:
    """A block of a message; of a picture what names it, instead of its bytes."""
    block = stored_part(part)
    if not isinstance(block, dict):
        return {"kind": "part", "text": cut.text(compact(block))}
    kind, thought = str(block.get("type")), block.get("thinking")
    if kind == "text":
        return {"kind": kind, "text": ""}
    if kind == "thinking" and isinstance(thought, str):
        return {"kind": kind, "text": cut.text(thought)}
    rest: dict[str, JsonValue] = {name: value for name, value in block.items() if name != "type"}
    return {"kind": cut.text(kind), "text": cut.text(compact(rest))}


def _tool(tool: JsonValue, cut: Cutter) -> dict[str, Any]:
    """A tool as it was offered; providers that nest it name it inside."""
    inner = tool.get("function") if isinstance(tool, dict) else None
    named = inner if isinstance(inner, dict) else tool if isinstance(tool, dict) else {}
    name, description = named.get("name"), named.get("description")
    return {
        "name": cut.text(name) if isinstance(name, str) else "",
        "description": cut.text(description) if isinstance(description, str) else "",
        "definition": cut.json(tool),
    }


def _tool_call(call: ToolCall, cut: Cutter) -> dict[str, Any]:
    return {
        "id": None if call.id is None else cut.text(call.id),
        "name": cut.text(call.name),
        "arguments": cut.json(call.arguments),
    }


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
    return {
        "text": cut.text(answer.text),
        "reasoning": cut.text(answer.reasoning or ""),
        "tool_calls": [_tool_call(call, cut) for call in answer.tool_calls],
        "parsed": cut.json(answer.parsed_json),
        "finish_reason": None if answer.finish_reason is None else cut.text(answer.finish_reason),
        "spent": spent,
        "stream": _stream(answer, cut, asked_model),
        "status": None,
    }


def failure_document(exchange: Exchange, cut: Cutter) -> AnswerDocument:
    """A recorded failure, as the answer that it was instead of one."""
    status = exchange.wire.get("status")
    return {
        "text": cut.text(str(failure_of(exchange))),
        "reasoning": "",
        "tool_calls": [],
        "parsed": None,
        "finish_reason": None,
        "spent": None,
        "stream": None,
        "status": status if isinstance(status, int) else 0,
    }


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
