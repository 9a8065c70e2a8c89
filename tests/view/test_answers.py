"""Requests and answers as documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import FixtureKey, TimedChunk
from cortex_replay.types import LlmMessage, LlmRequest, StreamChunk, TokenUsage, ToolCall, ToolCallDelta
from cortex_replay.view.documents.answers import (
    answer_document,
    compared_answer,
    failure_document,
    put_in_order,
)
from cortex_replay.view.documents.cutter import Cutter
from cortex_replay.view.documents.requests import request_document
from cortex_replay.view.shapes import AnswerDocument, StreamDocument
from cortex_replay.view.threads import Thread

SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
CALL = ToolCall(id="call_1", name="look_up", arguments={"name": "x"})


@pytest.fixture
def cut() -> Cutter:
    return Cutter(Redactor([SECRET]))


def asked(**more: Any) -> LlmRequest:
    messages = [
        LlmMessage("user", "What is x?"),
        LlmMessage("assistant", "", tool_calls=[CALL]),
        LlmMessage("tool", "no such name", tool_call_id="call_1", is_error=True),
    ]
    return LlmRequest("m", "Be brief.", messages, max_tokens=9, **more)


def test_a_request_has_what_it_asks_and_what_else_the_model_saw(cut: Cutter) -> None:
    tools = [{"name": "look_up", "description": "Finds x.", "input_schema": {"type": "object"}}]
    made = request_document(asked(tools=tools, stop=["END"]), cut)

    assert (made["system"], made["settings"]) == ("Be brief.", {"max_tokens": 9, "stop": ["END"]})
    assert made["messages"] == [
        {"role": "user", "text": "What is x?"},
        {
            "role": "assistant",
            "text": "",
            "tool_calls": [{"id": "call_1", "name": "look_up", "arguments": {"name": "x"}}],
        },
        {"role": "tool", "text": "no such name", "tool_call_id": "call_1", "is_error": True},
    ]
    assert made["tools"] == [{"name": "look_up", "description": "Finds x.", "definition": tools[0]}]
    assert not cut.is_cut


def test_what_stands_in_another_document_is_left_out(cut: Cutter) -> None:
    tools = [{"type": "function", "function": {"name": "look_up"}}]
    made = request_document(asked(tools=tools), cut, Thread("p", 2, system_in="p", tools_in="p"))

    assert ([m["role"] for m in made["messages"]], made["system"], made["tools"]) == (["tool"], "", [])
    assert request_document(asked(tools=tools), cut)["tools"][0]["name"] == "look_up"


def test_a_picture_is_named_and_thinking_is_text(cut: Cutter) -> None:
    parts = [
        {"type": "text", "text": "See"},
        {"type": "image", "media_type": "image/png", "data": "aGVsbG8="},
        {"type": "thinking", "thinking": f"Hm. {SECRET}", "signature": "s"},
    ]
    (made,) = request_document(LlmRequest("m", "", [LlmMessage("user", "See", parts)]), cut)["messages"]
    picture, thinking = made["parts"]

    assert (picture["kind"], "aGVsbG8" in picture["text"], "image/png" in picture["text"]) == (
        "image",
        False,
        True,
    )
    assert thinking["kind"] == "thinking"
    assert SECRET not in thinking["text"]


def test_long_texts_are_cut_behind_secrets(cut: Cutter) -> None:
    short = Cutter(cut.redactor, 20)

    assert short.text(f"0123456789{SECRET}")[:10] == "0123456789"
    assert "sk-ant" not in short.text(f"0123456789{SECRET}")
    assert (len(short.text("y" * 99)), short.is_cut) == (20, True)
    assert short.json({"a": "b" * 30}) == '{"a":"bbbbbbbbbbbbbb'
    assert Cutter(cut.redactor, 20).json({"a": [SECRET[:5]]}) == {"a": [SECRET[:5]]}


def test_a_stream_is_columns_with_a_kind_for_each_piece(cut: Cutter) -> None:
    chunks = (
        TimedChunk(5, StreamChunk("", reasoning="Hm.")),
        TimedChunk(210.04, StreamChunk("Hel")),
        TimedChunk(230, StreamChunk("lo")),
        TimedChunk(250, StreamChunk("", tool_calls=(ToolCallDelta(0, "c", "look_up", '{"na'),))),
        TimedChunk(260, StreamChunk("", tool_calls=(ToolCallDelta(0, arguments='me":1}'),))),
        TimedChunk(300, StreamChunk("", "stop")),
    )
    made = answer_document(Answer("Hello", reasoning="Hm.", stream=chunks), cut)

    assert made.keys() == AnswerDocument.__annotations__.keys() - {"left_out"}
    assert made["stream"] == {
        "at_ms": [5, 210, 230, 250, 260, 300],
        "delta": ["Hm.", "Hel", "lo", 'look_up{"na', 'me":1}', ""],
        "kind": ["reasoning", "text", "text", "tool", "tool", "event"],
    }
    assert made["stream"].keys() == StreamDocument.__annotations__.keys()


def test_a_secret_in_pieces_of_a_stream_is_found(cut: Cutter) -> None:
    chunks = tuple(
        TimedChunk(at, StreamChunk(text)) for at, text in enumerate(["a ", SECRET[:20], SECRET[20:], " z"])
    )
    made = answer_document(Answer(f"a {SECRET} z", stream=chunks), cut)["stream"]

    assert made is not None
    assert (len(made["delta"]), made["delta"][0], made["delta"][3]) == (4, "a ", " z")
    assert "sk-ant" not in "".join(made["delta"])


def test_pieces_behind_the_end_are_empty_and_keep_their_times(cut: Cutter) -> None:
    chunks = tuple(TimedChunk(at, StreamChunk("12345")) for at in range(6))
    short = Cutter(cut.redactor, 12)
    made = answer_document(Answer("12345" * 6, stream=chunks), short)["stream"]

    assert made is not None
    assert (made["delta"], len(made["at_ms"]), short.is_cut) == (
        ["12345", "12345", "12", "", "", ""],
        6,
        True,
    )


def test_the_bytes_of_a_provider_become_pieces_at_their_times(cut: Cutter) -> None:
    def event(at_ms: float, **delta: Any) -> dict[str, Any]:
        finish = delta.pop("finish_reason", None)
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        body = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        return {"at_ms": at_ms, "text": f"data: {json.dumps(body)}\n\n"}

    events = [
        event(100, role="assistant", content="Hel"),
        event(150, content="lo"),
        event(190, finish_reason="stop"),
        {"at_ms": 191, "text": "data: [DONE]\n\n"},
    ]
    wire: Any = {"protocol": "openai-chat", "stream": True, "status": 200, "headers": {}, "events": events}
    made = answer_document(Answer("Hello", wire=wire), cut, "m")["stream"]

    assert made is not None
    shown = [(at, text) for at, text in zip(made["at_ms"], made["delta"], strict=True) if text]
    assert shown == [(100, "Hel"), (150, "lo")]
    assert max(made["at_ms"]) >= 190
    assert answer_document(Answer("", wire={**wire, "protocol": "none"}), cut)["stream"] is None


def test_failures_stand_among_answers_where_they_came(cut: Cutter) -> None:
    def texts(good: str, **failed: str) -> str:
        made = put_in_order(
            [answer_document(Answer(text), cut) for text in good],
            {int(place[1:]): answer_document(Answer(text), cut) for place, text in failed.items()},
        )
        return "".join(answer["text"] for answer in made)

    assert texts("ab") == "ab"
    assert texts("ab", n1="X", n3="Y") == "XaYb"
    assert texts("a", n2="X", n3="Y") == "aXY"
    assert texts("a", n9="X") == "aX"


def test_a_failure_is_an_answer_with_a_status(cut: Cutter) -> None:
    body = f'{{"error": {{"message": "Overloaded {SECRET}"}}}}'
    wire: Any = {"status": 529, "headers": {"content-type": "application/json"}, "body": body}
    made = failure_document(Exchange.failure(FixtureKey("m", "0" * 64), 1, wire), cut)

    assert made.keys() == AnswerDocument.__annotations__.keys() - {"left_out"}
    assert made["status"] == 529
    assert "Overloaded" in made["text"]
    assert SECRET not in made["text"]


def test_names_of_arguments_hold_no_secret(cut: Cutter) -> None:
    """A model chooses them, as it does values."""
    call = ToolCall(name="look_up", arguments={"a": [{SECRET: 1}]})

    assert SECRET not in json.dumps(answer_document(Answer("", tool_calls=(call,)), cut))


def test_a_failure_without_a_status_is_still_one(cut: Cutter) -> None:
    """The page tells failures by it."""
    wire: Any = {"headers": {"content-type": "application/json"}, "body": "gone"}

    assert failure_document(Exchange.failure(FixtureKey("m", "0" * 64), 1, wire), cut)["status"] == 0


def test_an_answer_to_compare_has_no_stream(cut: Cutter) -> None:
    chunks = (TimedChunk(1.0, StreamChunk("Hello")),)
    made = compared_answer(Answer("Hello", usage=TokenUsage(7, 2, 3), stream=chunks), cut)

    assert (made["text"], made["stream"], made["status"]) == ("Hello", None, None)
    assert made["spent"] == {"prompt": 7, "completion": 2, "cached": 3, "cache_write": 0}


@pytest.mark.parametrize(
    ("wire", "text", "status"),
    [
        ({"status": 200, "headers": {}, "body": "ok"}, "ok", 200),
        ({"frames": [{"text": "hi"}]}, '[{"text":"hi"}]', None),
        ({"messages": [{"error": {"message": "no"}}]}, "error: no", None),
        ({"status": 200, "headers": {}, "body": 7}, "", 200),
    ],
)
def test_what_is_no_answer_is_compared_by_what_it_says(
    cut: Cutter, wire: Any, text: str, status: int | None
) -> None:
    made = compared_answer(wire, cut)

    assert (made["text"], made["status"]) == (text, status)
