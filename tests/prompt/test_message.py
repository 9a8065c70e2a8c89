"""One turn of a prompt."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay import InvalidRequest, LlmMessage, LlmRole, ToolCall
from cortex_replay.prompt import PromptMessage

CALL = {"id": "c1", "name": "f", "arguments": {"b": 1, "a": [2.0, None]}}


@pytest.mark.parametrize(
    "plain",
    [
        {"role": "user", "content": "a", "id": None},
        {"role": "system", "content": "a", "id": "m1"},
        {"role": "assistant", "content": "", "id": None, "tool_calls": [CALL], "token_count": 7},
        {"role": "tool", "content": "no", "id": None, "tool_call_id": "c1", "is_error": True},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "x", "b": 1}], "id": None},
    ],
    ids=str,
)
def test_a_turn_survives_its_plain_form(plain: dict[str, Any]) -> None:
    turn = PromptMessage.from_dict(plain)

    assert turn.to_dict() == plain
    assert PromptMessage.from_dict(turn.to_dict()) == turn


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        (PromptMessage("user", "é\u2028"), '["user","é\u2028",[]]'),
        (PromptMessage("user", ()), '["user",[],[]]'),
        (
            PromptMessage("assistant", "", tool_calls=[CALL]),
            '["assistant","",[{"id":"c1","name":"f","arguments":{"a":[2.0,null],"b":1}}]]',
        ),
        (
            PromptMessage("user", [{"media_type": "audio/wav", "data": "QQ==", "type": "audio"}]),
            '["user",[{"type":"audio","data":"QQ==","media_type":"audio/wav"}],[]]',
        ),
        (
            PromptMessage("user", [{"z": 1, "other": {"b": 1, "a": 2}, "type": "new", "none": None}]),
            '["user",[{"type":"new","other":{"a":2,"b":1},"z":1}],[]]',
        ),
        (
            PromptMessage("tool", [{"type": "tool_result", "output": "x", "call_id": "c"}]),
            '["tool",[{"type":"tool_result","call_id":"c","output":"x","is_error":false}],[]]',
        ),
    ],
    ids=str,
)
def test_the_bytes_of_a_turn(turn: PromptMessage, expected: str) -> None:
    """Fields of parts and calls in their order, free values sorted, what is null left out."""
    assert turn.turn_bytes().decode() == expected


def test_a_text_is_one_message() -> None:
    turn = PromptMessage("assistant", "Wait.", "a1", [ToolCall(id="c1", name="f", arguments={})])

    assert turn.to_llm_messages() == [LlmMessage("assistant", "Wait.", tool_calls=turn.tool_calls)]
    assert turn.to_llm_messages()[0].id == "a1"


def test_exactly_one_text_part_is_a_text_to_a_provider() -> None:
    (single,) = PromptMessage("user", [{"type": "text", "text": "a"}]).to_llm_messages()
    (double,) = PromptMessage("user", [{"type": "text", "text": t} for t in "ab"]).to_llm_messages()

    assert (single.content, single.parts) == ("a", ())
    assert (double.content, len(double.parts)) == ("ab", 2)


def test_the_name_of_a_turn_is_that_of_its_last_message() -> None:
    results = [{"type": "tool_result", "call_id": c, "output": c} for c in "xy"]
    names = [m.id for m in PromptMessage("tool", results, "t1").to_llm_messages()]
    beside = [{"type": "text", "text": "and"}, *results]

    assert names == [None, "t1"]
    messages = PromptMessage("user", beside, "t1").to_llm_messages()
    assert [(m.role, m.id) for m in messages] == [
        (LlmRole.TOOL, None),
        (LlmRole.TOOL, None),
        (LlmRole.USER, "t1"),
    ]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"role": "developer"}, "role"),
        ({"role": None}, "role"),
        ({"content": 5}, "content"),
        ({"content": "\ud800"}, "content"),
        ({"content": [{"type": "text"}]}, "content[0].text"),
        ({"content": [{"type": 5}]}, "content[0].type"),
        ({"content": [{"type": "x", "y": float("nan")}]}, "content[0].y"),
        ({"id": 5}, "id"),
        ({"tool_calls": [{"id": "c"}]}, "tool_calls[0]"),
        ({"tool_calls": [{"id": "c", "function": {"arguments": "{}"}}]}, "tool_calls[0].name"),
        ({"tool_calls": "f"}, "tool_calls"),
        ({"is_error": 1}, "is_error"),
        ({"token_count": -1}, "token_count"),
        ({"name": "x"}, "name"),
    ],
    ids=str,
)
def test_what_is_no_turn_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        PromptMessage.from_dict({"role": "user", "content": "a"} | fields)

    assert caught.value.field == field


def test_a_turn_is_an_object() -> None:
    nothing: Any = "text"

    with pytest.raises(InvalidRequest, match="message"):
        PromptMessage.from_dict(nothing)
