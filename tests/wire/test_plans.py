"""Cache markers of clients: lifted as the plan of a request, and sent again as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cortex_replay import LlmRequest, PromptCachePlan
from cortex_replay.prompt.breakpoint_notes import block_ends, note_cache, restore_breakpoints
from cortex_replay.prompt.markers import marks_of, system_blocks
from cortex_replay.types import CacheMark
from cortex_replay.wire import WIRES

SHORT: dict[str, Any] = {"type": "ephemeral"}
LONG: dict[str, Any] = {"type": "ephemeral", "ttl": "1h"}
ANTHROPIC = WIRES["anthropic-messages"]


def text(words: str, marker: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": words} | ({} if marker is None else {"cache_control": marker})


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "claude-m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], **fields}


def plan_in(wire: str, **fields: Any) -> PromptCachePlan:
    plan = WIRES[wire].lift(body(**fields)).cache
    assert plan is not None
    return plan


def marks(plan: PromptCachePlan | None) -> list[tuple[Any, ...]]:
    return [(m.place, m.index, m.part, m.ttl) for m in (plan or PromptCachePlan()).marks]


def test_every_marker_of_a_body_is_in_the_plan_where_it_stood() -> None:
    plan = plan_in(
        "anthropic-messages",
        cache_control=LONG,
        tools=[{"name": "a", "input_schema": {}, "cache_control": LONG}, {"name": "b", "input_schema": {}}],
        system=[text("Rules.", LONG), text("Facts.", SHORT)],
        messages=[
            {"role": "user", "content": [text("One.", SHORT), text("Two.")]},
            {
                "role": "assistant",
                "content": [
                    text("Let me see."),
                    {"type": "tool_use", "id": "t", "name": "a", "input": {}, "cache_control": SHORT},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t", "content": "Sun.", "cache_control": SHORT},
                    text("And?", LONG),
                ],
            },
        ],
    )

    assert marks(plan) == [
        ("tool", 0, None, "1h"),
        ("system", 0, None, "1h"),
        ("system", 1, None, "5m"),
        ("message", 0, 0, "5m"),
        ("message", 1, None, "5m"),
        ("message", 2, None, "5m"),
        ("message", 3, None, "1h"),
        ("prompt", 0, None, "1h"),
    ]


def test_a_marker_within_a_tool_s_result_is_on_a_block_of_it() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [text("a", SHORT), text("b")]}

    assert marks(plan_in("anthropic-messages", messages=[{"role": "user", "content": [result]}])) == [
        ("message", 0, 0, "5m")
    ]


@pytest.mark.parametrize("blank", ["", "A\n\nB", "\n\n", "A\n\n", "\n\nB", " "], ids=repr)
def test_blocks_of_the_system_text_stay_apart_whatever_they_hold(blank: str) -> None:
    given = [text("first"), text(blank, SHORT), text("last")]

    request = ANTHROPIC.lift(body(system=given))

    assert [said for said, _ in system_blocks(request)] == [b["text"] for b in given if b["text"]]
    assert marks(request.cache) == ([("system", 1, None, "5m")] if blank else [])


def test_a_system_message_at_the_start_is_a_block_of_the_system_text() -> None:
    request = ANTHROPIC.lift(
        body(
            system=[text("a", SHORT)],
            messages=[
                {"role": "system", "content": [text("b"), text("c", LONG)]},
                {"role": "user", "content": [text("q", SHORT)]},
            ],
        )
    )

    assert [said for said, _ in system_blocks(request)] == ["a", "b", "c"]
    assert marks(request.cache) == [
        ("system", 0, None, "5m"),
        ("system", 2, None, "1h"),
        ("message", 0, None, "5m"),
    ]


def test_a_system_prompt_that_is_more_than_text_keeps_its_markers() -> None:
    sent = body(system=[text("a", LONG) | {"citations": []}, text(""), text("b", SHORT)])
    request = ANTHROPIC.lift(sent)

    assert marks(request.cache) == [("system", 0, None, "1h"), ("system", 1, None, "5m")]
    assert ANTHROPIC.encode_request(request)["system"] == sent["system"]


def test_an_empty_text_takes_no_marker_and_no_place() -> None:
    call = {"type": "tool_use", "id": "t", "name": "a", "input": {}, "cache_control": SHORT}
    messages = [{"role": "assistant", "content": [text("", SHORT), call]}]

    assert marks(plan_in("anthropic-messages", messages=messages)) == [("message", 0, None, "5m")]


@pytest.mark.parametrize("odd", [None, 5, "x", []])
def test_what_is_no_marker_is_none(odd: object) -> None:
    assert ANTHROPIC.lift(body(system=[{**text("a"), "cache_control": odd}], cache_control=odd)).cache is None


def test_a_body_that_says_nothing_has_no_plan() -> None:
    assert ANTHROPIC.lift(body(system="Be brief.")).cache is None
    assert ANTHROPIC.lift(body(system=[text("Be brief.")])).cache is None


def test_a_marker_on_the_whole_prompt_stands_where_the_provider_puts_it() -> None:
    request = ANTHROPIC.lift(
        body(
            cache_control=SHORT,
            messages=[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}],
        )
    )

    assert [(mark.index, mark.cache) for mark in marks_of(request)] == [(0, "5m")]


markers = st.sampled_from([None, None, SHORT, LONG])
words = st.sampled_from(["a", "b c", "x\n\ny", "z\n\n", "é"])
blocks = st.builds(text, words, markers)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for n in range(draw(st.integers(1, 4))):
        content: list[Any] = []
        if messages:
            content = [
                {"type": "tool_result", "tool_use_id": f"t{n}", "content": draw(st.lists(blocks, min_size=1))}
                | ({} if (marker := draw(markers)) is None else {"cache_control": marker})
            ]
        messages.append({"role": "user", "content": content + draw(st.lists(blocks, min_size=1, max_size=3))})
        call = {"type": "tool_use", "id": f"t{n + 1}", "name": "f", "input": {}}
        call |= {} if (marker := draw(markers)) is None else {"cache_control": marker}
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
        said = draw(st.lists(blocks, max_size=2))
        messages.append({"role": "assistant", "content": [thought, *said, call]})
    return messages


bodies = st.builds(
    lambda system, tools, messages, whole: body(
        system=system,
        tools=[
            {"name": f"f{i}", "input_schema": {}} | ({} if marker is None else {"cache_control": marker})
            for i, marker in enumerate(tools)
        ],
        messages=messages,
        **({} if whole is None else {"cache_control": whole}),
    ),
    st.lists(blocks, max_size=4),
    st.lists(markers, max_size=3),
    conversations(),
    markers,
)


def count_markers(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(count_markers, value))
    if not isinstance(value, dict):
        return 0
    return ("cache_control" in value) + ("cachePoint" in value) + sum(map(count_markers, value.values()))


@settings(max_examples=40)
@given(bodies)
def test_markers_are_sent_again_as_they_were(sent: dict[str, Any]) -> None:
    request = ANTHROPIC.lift(sent)
    lowered = ANTHROPIC.encode_request(request)
    again = ANTHROPIC.lift(lowered)

    assert again == request
    assert again.cache == request.cache
    assert count_markers(lowered) == count_markers(sent)


@settings(max_examples=40)
@given(bodies)
def test_markers_make_no_other_key(sent: dict[str, Any]) -> None:
    def bare(value: Any) -> Any:
        if isinstance(value, list):
            return [bare(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {name: bare(item) for name, item in value.items() if name != "cache_control"}

    assert ANTHROPIC.lift(sent).prompt_hash() == ANTHROPIC.lift(bare(sent)).prompt_hash()


def test_marks_take_their_room_before_what_the_rest_of_a_plan_asks_for() -> None:
    plan = PromptCachePlan(
        cache_tools=True,
        cache_system=True,
        marks=tuple(CacheMark("message", i) for i in range(3)),
    )
    talk: Any = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"{i}"} for i in range(3)]
    lowered = ANTHROPIC.encode_request(LlmRequest("claude-m", "S", talk, tools=[{"name": "a"}], cache=plan))

    assert count_markers(lowered) == 4
    assert "cache_control" not in lowered["tools"][0]


POINT: dict[str, Any] = {"cachePoint": {"type": "default"}}
LONG_POINT: dict[str, Any] = {"cachePoint": {"type": "default", "ttl": "1h"}}
CONVERSE: dict[str, Any] = {
    "model": "anthropic.claude-m",
    "toolConfig": {"tools": [{"toolSpec": {"name": "a", "inputSchema": {"json": {}}}}, LONG_POINT]},
    "system": [POINT, {"text": "Rules."}, LONG_POINT, {"text": "Facts."}],
    "messages": [
        {"role": "user", "content": [{"text": "One."}, POINT, {"text": "Two."}, POINT]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "a", "input": {}}}]},
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "Sun."}]}}, POINT],
        },
    ],
}


def test_cache_points_of_bedrock_mark_what_they_stand_behind() -> None:
    """One that nothing stands before marks nothing."""
    wire = WIRES["bedrock-converse"]
    request = wire.lift(CONVERSE)

    assert marks(request.cache) == [
        ("tool", 0, None, "1h"),
        ("system", 0, None, "1h"),
        ("message", 0, 0, "5m"),
        ("message", 0, None, "5m"),
        ("message", 2, None, "5m"),
    ]
    lowered = wire.encode_request(request)
    assert lowered == CONVERSE | {"system": CONVERSE["system"][1:]}
    assert wire.lift(lowered).cache == request.cache


def test_a_cache_point_within_something_is_no_part_of_the_key() -> None:
    source = {"content": [{"text": "a"}, POINT]}
    content = [{"document": {"name": "d", "source": source}}]
    wire, talk = WIRES["bedrock-converse"], [{"role": "user", "content": content}]
    request = wire.lift({"model": "m", "messages": talk})

    source["content"] = source["content"][:1]
    assert request.prompt_hash() == wire.lift({"model": "m", "messages": talk}).prompt_hash()


@pytest.mark.parametrize("wire", ["bedrock-anthropic"])
def test_claude_through_bedrock_has_the_same_markers(wire: str) -> None:
    sent = body(
        system=[text("a", LONG), text("b")], messages=[{"role": "user", "content": [text("q", SHORT)]}]
    )

    assert WIRES[wire].lift(sent).cache == ANTHROPIC.lift(sent).cache


CHAT: dict[str, Any] = {
    "model": "anthropic/claude-m",
    "messages": [
        {"role": "system", "content": [text("Rules."), text("Facts.", LONG)]},
        {"role": "user", "content": [text("One.", SHORT), text("Two.")]},
        {
            "role": "assistant",
            "reasoning_content": "Hm.",
            "content": [text("Yes."), text("No.", SHORT)],
            "tool_calls": [{"id": "t", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "t", "content": [text("Sun.", SHORT)]},
        {"role": "assistant", "content": "Done.", "cache_control": SHORT},
    ],
    "tools": [{"type": "function", "function": {"name": "a", "parameters": {}}, "cache_control": LONG}],
    "cache_control": SHORT,
    "prompt_cache_key": "team-a",
    "prompt_cache_retention": "24h",
}


def test_markers_in_chat_completions_are_those_of_openrouter() -> None:
    wire = WIRES["openai-chat"]
    request = wire.lift(CHAT)

    assert marks(request.cache) == [
        ("tool", 0, None, "1h"),
        ("system", 1, None, "1h"),
        ("message", 0, 0, "5m"),
        ("message", 1, 2, "5m"),
        ("message", 2, None, "5m"),
        ("message", 3, None, "5m"),
        ("prompt", 0, None, "5m"),
    ]
    lowered = wire.encode_request(request)
    assert count_markers(lowered) == count_markers(CHAT) == 7
    assert lowered["messages"][2]["content"] == CHAT["messages"][2]["content"]
    assert wire.lift(lowered).cache == request.cache
    assert wire.lift(lowered) == request


def test_a_marker_before_a_call_is_not_behind_the_message() -> None:
    call = {"id": "t", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    talk = [{"role": "assistant", "content": [text("Yes.", SHORT)], "tool_calls": [call]}]
    request = WIRES["openai-chat"].lift({"model": "m", "messages": talk})

    assert marks(request.cache) == [("message", 0, 0, "5m")]
    assert WIRES["openai-chat"].encode_request(request)["messages"] == talk


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses"])
def test_openai_s_cache_key_and_retention_are_in_the_plan_and_not_in_the_key(wire: str) -> None:
    sent: dict[str, Any] = {"model": "gpt-m", "messages": [{"role": "user", "content": "Hi"}]}
    if wire == "openai-responses":
        sent = {"model": "gpt-m", "input": "Hi"}
    cached = sent | {"prompt_cache_key": "team-a", "prompt_cache_retention": "24h"}
    request = WIRES[wire].lift(cached)

    assert request.cache == PromptCachePlan(key="team-a", retention="24h")
    assert request.prompt_hash() == WIRES[wire].lift(sent).prompt_hash()
    assert WIRES[wire].lift(sent).cache is None
    assert WIRES[wire].lift(WIRES[wire].encode_request(request)).cache == request.cache


def test_a_plan_without_markers_sends_none_to_openai() -> None:
    """The plan of a context says where Claude's would stand."""
    plan = PromptCachePlan(cache_tools=True, cache_system=True, system_cuts=((1, "1h"), (4, "none")))
    sent = WIRES["openai-chat"].encode_request(LlmRequest("m", "a\n\nb", "q", cache=plan))

    assert sent["messages"][0] == {"role": "system", "content": "a\n\nb"}
    assert count_markers(sent) == 0


STOP = {"prompt_cache_breakpoint": {"mode": "explicit"}}
BREAKPOINTS: dict[str, tuple[dict[str, Any], str]] = {
    "openai-chat": (
        {
            "model": "gpt-5.6-luna",
            "messages": [
                {
                    "role": "system",
                    "content": [
                        {"type": "text", "text": "Policy.", **STOP},
                        {"type": "text", "text": "Shop."},
                    ],
                },
                {"role": "user", "content": [{"type": "text", "text": "Hi", **STOP}]},
                {"role": "assistant", "content": "Hello."},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "A", **STOP}, {"type": "text", "text": "B"}],
                },
            ],
            "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
        },
        "text",
    ),
    "openai-responses": (
        {
            "model": "gpt-5.6-luna",
            "input": [
                {
                    "type": "message",
                    "role": "developer",
                    "content": [
                        {"type": "input_text", "text": "Policy.", **STOP},
                        {"type": "input_text", "text": "Shop."},
                    ],
                },
                {"role": "user", "content": [{"type": "input_text", "text": "Hi", **STOP}]},
                {"role": "assistant", "content": "Hello."},
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "A", **STOP},
                        {"type": "input_text", "text": "B"},
                    ],
                },
            ],
            "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
        },
        "input_text",
    ),
}


@pytest.mark.parametrize("name", BREAKPOINTS)
def test_openai_s_breakpoints_are_in_the_plan_and_not_in_the_key(name: str) -> None:
    """From GPT-5.6 on a client may set some, in a form of OpenAI's own, and they are sent again in it."""
    wire, (sent, kind) = WIRES[name], BREAKPOINTS[name]
    request = wire.lift(sent)
    bare = json.loads(json.dumps(sent).replace(f", {json.dumps(STOP)[1:-1]}", ""))
    del bare["prompt_cache_options"]

    assert marks(request.cache) == [
        ("system", 0, None, "30m"),
        ("message", 0, None, "30m"),
        ("message", 2, 0, "30m"),
    ]
    assert request.cache is not None
    assert request.cache.mode == "explicit"
    assert "prompt_cache" not in json.dumps(bare)
    assert wire.lift(bare) == request
    assert wire.lift(bare).prompt_hash() == request.prompt_hash()
    lowered = wire.encode_request(request)
    assert json.dumps(lowered).count("prompt_cache_breakpoint") == 3
    assert lowered["prompt_cache_options"] == {"mode": "explicit"}
    last = (lowered.get("messages") or lowered["input"])[-1]
    assert {"type": kind, "text": "A", **STOP} in last["content"]
    assert (wire.lift(lowered), wire.lift(lowered).cache) == (request, request.cache)


def test_breakpoints_of_openai_are_noted_and_restored() -> None:
    request = WIRES["openai-chat"].lift(BREAKPOINTS["openai-chat"][0])
    notes = note_cache(request, block_ends(request))

    assert notes["mode"] == "explicit"
    restored = restore_breakpoints(replace(request, cache=None), {"cache": notes})
    assert restored.cache is not None
    assert (restored.cache.marks, restored.cache.mode) == (request.cache and request.cache.marks, "explicit")
