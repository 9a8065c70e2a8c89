from __future__ import annotations

import dataclasses
from typing import Any
from unittest import mock

import pytest

from cortex_replay import InvalidRequest, LlmMessage, LlmRequest, LlmRole, PromptCachePlan, ToolCall
from tests.test_canonical import FULL

BAD: list[tuple[str, dict[str, Any]]] = [
    ("model", {"model": 5}),
    ("model", {"model": None}),
    ("model", {"model": "\ud800"}),
    ("system", {"system": ["a"]}),
    ("system", {"system": "a\udfffb"}),
    ("messages", {"messages": {"role": "user"}}),
    ("messages", {"messages": None}),
    ("messages[0]", {"messages": ["hi"]}),
    ("messages[0]", {"messages": [{"role": "user"}]}),
    ("messages[1].role", {"messages": [{"role": "user", "content": ""}, {"role": "model", "content": ""}]}),
    ("messages[0].role", {"messages": [{"role": ["user"], "content": ""}]}),
    ("messages[0].role", {"messages": [{"role": "system", "content": "x"}]}),
    ("messages[0].content", {"messages": [{"role": "user", "content": None}]}),
    ("messages[0].content", {"messages": [{"role": "user", "content": "\ud83d"}]}),
    ("messages[0].name", {"messages": [{"role": "user", "content": "", "name": "x"}]}),
    ("messages[0].is_error", {"messages": [{"role": "tool", "content": "", "is_error": 1}]}),
    ("messages[0].parts", {"messages": [{"role": "user", "content": "", "parts": "x"}]}),
    ("messages[0].parts[0].x", {"messages": [{"role": "user", "content": "", "parts": [{"x": {1}}]}]}),
    (
        "messages[0].tool_calls[0]",
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}]},
    ),
    (
        "messages[0].tool_calls[0].arguments.x",
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"name": "f", "arguments": {"x": float("nan")}}],
                }
            ]
        },
    ),
    ("temperature", {"temperature": float("nan")}),
    ("temperature", {"temperature": float("inf")}),
    ("temperature", {"temperature": 1e39}),
    ("temperature", {"temperature": 10**400}),
    ("temperature", {"temperature": "0.5"}),
    ("temperature", {"temperature": True}),
    ("max_tokens", {"max_tokens": -1}),
    ("max_tokens", {"max_tokens": 1.5}),
    ("max_tokens", {"max_tokens": True}),
    ("max_tokens", {"max_tokens": 2**64}),
    ("timeout_ms", {"timeout_ms": -1}),
    ("timeout_ms", {"timeout_ms": None}),
    ("timeout_ms", {"timeout_ms": "5"}),
    ("json_schema", {"json_schema": object()}),
    ("json_schema", {"json_schema": {1: 2}}),
    ("json_schema.a[1]", {"json_schema": {"a": [1, float("inf")]}}),
    ("json_schema.a", {"json_schema": {"a": "\ud800"}}),
    ("json_schema", {"json_schema": 10**400}),
    ("tools", {"tools": "x"}),
    ("tools[0]", {"tools": [b"x"]}),
    ("tool_choice", {"tool_choice": b""}),
    ("stop[1]", {"stop": ["a", 1]}),
    ("stop", {"stop": 5}),
    ("top_p", {"top_p": float("-inf")}),
    ("top_p", {"top_p": "1"}),
    ("top_k", {"top_k": -1}),
    ("top_k", {"top_k": 1.0}),
    ("seed", {"seed": 2**64}),
    ("seed", {"seed": -(2**63) - 1}),
    ("extra", {"extra": []}),
    ("extra.x", {"extra": {"x": float("nan")}}),
    ("cache", {"cache": {"cache_tools": True}}),
]


@pytest.mark.parametrize(("field", "bad"), BAD, ids=[f"{i}-{field}" for i, (field, _) in enumerate(BAD)])
def test_a_bad_value_is_refused_with_the_name_of_its_field(field: str, bad: dict[str, Any]) -> None:
    """Wrong types, non-finite numbers, lone surrogates, negative limits."""
    with pytest.raises(InvalidRequest) as caught:
        LlmRequest(**({"model": "m"} | bad))

    assert field == caught.value.field


def test_plain_dicts_and_strings_are_accepted_where_they_are_unambiguous() -> None:
    """The short way of saying it makes the same value as the long one."""
    short = LlmRequest(model="m", messages="hi", stop="END", temperature=0)
    long = LlmRequest(
        model="m",
        system="",
        messages=(LlmMessage(LlmRole.USER, "hi"),),
        temperature=0.0,
        max_tokens=None,
        stop=["END"],
    )

    assert long == short
    assert str(short.temperature) == "0.0"
    assert LlmMessage("tool", "r") == LlmMessage(LlmRole.TOOL, "r")


def test_the_parameters_stand_in_the_order_of_the_reference() -> None:
    """Positional use works as the design writes it."""
    request = LlmRequest("m", "s", [LlmMessage("user", "q")], 0.5, 16, {"type": "string"}, 1000)

    assert (
        request.model,
        request.system,
        request.temperature,
        request.max_tokens,
        request.json_schema,
        request.timeout_ms,
    ) == ("m", "s", 0.5, 16, {"type": "string"}, 1000)


def test_a_request_does_not_change_when_the_caller_s_dict_does() -> None:
    """Free JSON is copied: what was validated is what is hashed."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    request = LlmRequest("m", json_schema=schema)
    before = request.prompt_hash()
    schema["properties"]["x"] = {"type": "string"}

    assert before == request.prompt_hash()


def test_an_empty_dict_of_the_caller_s_is_copied_too() -> None:
    """It may grow later, without anyone looking."""
    extra: dict[str, Any] = {}
    request = LlmRequest("m", extra=extra)
    extra["thinking"] = float("nan")

    assert request.extra == {}


class _Odd:
    """Compares as numpy arrays do: no truth in it."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("name", ["tools", "tool_choice", "stop", "top_p", "top_k", "seed", "extra"])
@pytest.mark.parametrize("value", [_Odd(), mock.ANY, 10**5000], ids=["odd", "any", "huge"])
def test_values_with_ideas_of_their_own_are_refused(name: str, value: object) -> None:
    """Whatever their notion of equality or of printing."""
    with pytest.raises(InvalidRequest):
        LlmRequest("m", **{name: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        LlmMessage(value, "")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        LlmMessage("user", "", parts=value)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest):
        PromptCachePlan(ttl=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [None, 5, {}, memoryview(b"{}")])
def test_what_is_no_text_is_no_json(bad: Any) -> None:
    """Nor is what is no mapping a request."""
    with pytest.raises(InvalidRequest):
        LlmRequest.from_json(bad)
    with pytest.raises(InvalidRequest):
        LlmRequest.from_dict(bad if bad != {} else [])


def test_a_request_is_frozen() -> None:
    """Values are made once; a variant is a new value."""
    request = LlmRequest("m")

    with pytest.raises(dataclasses.FrozenInstanceError):
        request.model = "other"  # type: ignore[misc]
    assert dataclasses.replace(request, model="other").model == "other"


def test_plain_form_and_back() -> None:
    """``to_dict`` and ``from_dict`` are inverse, up to the model, which is not hashed."""
    request = LlmRequest.from_dict(FULL)

    assert request == LlmRequest.from_dict({"model": "m", **request.to_dict()})


def test_from_dict_names_what_is_missing_or_unknown() -> None:
    """A misspelt field is an error, never ignored: it could have changed the answer."""
    with pytest.raises(InvalidRequest, match="temprature: there is no such field"):
        LlmRequest.from_dict({"model": "m", "temprature": 1})
    with pytest.raises(InvalidRequest, match="request: lacks model"):
        LlmRequest.from_dict({"messages": []})
    with pytest.raises(InvalidRequest, match=r"messages\[0\]: lacks content"):
        LlmRequest.from_dict({"model": "m", "messages": [{"role": "user"}]})


@pytest.mark.parametrize("text", ["", "[]", "{", '{"model": "m", "model": "n"}', '{"model": NaN}', "\ud800"])
def test_json_that_is_no_request_is_refused(text: str) -> None:
    """Including what Python's own reader would let through."""
    with pytest.raises(InvalidRequest):
        LlmRequest.from_json(text)


def test_nesting_is_limited_by_a_clear_error() -> None:
    """250 levels can be hashed; more, or a dict that holds itself, is refused without RecursionError."""
    deep: Any = []
    for _ in range(249):
        deep = [deep]
    assert LlmRequest("m", json_schema=deep).prompt_hash()

    endless: list[Any] = []
    endless.append(endless)
    for bad in ([deep], endless):
        with pytest.raises(InvalidRequest, match="nested"):
            LlmRequest("m", json_schema=bad)


def test_integers_beyond_64_bits_become_floats() -> None:
    """As the reference reads them."""
    request = LlmRequest("m", json_schema=[2**64, -(2**63) - 1, 2**64 - 1])

    assert (
        b"[1.8446744073709552e+19,-9.223372036854776e+18,18446744073709551615]" in request.canonical_bytes()
    )


def test_a_subclass_of_str_counts_by_what_it_holds() -> None:
    """An enum member's own way of printing itself does not reach the hash."""

    class Loud(str):
        __slots__ = ()

        def __str__(self) -> str:
            return self.upper()

    assert LlmRequest("m", Loud("x")).prompt_hash() == LlmRequest("m", "x").prompt_hash()
    assert str is type(LlmRequest("m", Loud("x")).system)


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("ttl", {"ttl": "2h"}),
        ("cache_tools", {"cache_tools": 1}),
        ("breakpoint_message_ids", {"breakpoint_message_ids": "turn-1"}),
    ],
)
def test_a_cache_plan_is_checked_too(field: str, bad: dict[str, Any]) -> None:
    """A plan is a value like the others."""
    with pytest.raises(InvalidRequest) as caught:
        PromptCachePlan(**bad)

    assert field == caught.value.field


def test_a_tool_call_may_lack_an_id() -> None:
    """Ollama gives none."""
    assert ToolCall(name="f", arguments={}).to_dict() == {"name": "f", "arguments": {}}
