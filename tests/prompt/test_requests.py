"""One road to the wire: every kind of prompt becomes a request that every wire can carry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cortex_replay import InvalidRequest, LlmMessage, LlmRequest
from cortex_replay.prompt import (
    WIRES as NAMES,
    CachePolicy,
    Place,
    PromptBlock,
    PromptCachePlan,
    PromptIR,
    PromptMessage,
    RenderedContext,
    Segment,
    WirePrompt,
    blocks_for_wire,
    to_request,
)
from cortex_replay.wire import WIRES
from tests.golden import read_vectors

wires = pytest.mark.parametrize("wire", NAMES)
ANTHROPIC = "anthropic-messages"

TALK = [
    PromptMessage("user", "What is the weather?", id="u1"),
    PromptMessage("assistant", "", id="a1", tool_calls=[{"id": "c1", "name": "weather", "arguments": {}}]),
    PromptMessage("tool", "Sunny.", id="t1", tool_call_id="c1"),
]
CONTEXT = RenderedContext("Be brief.", "Paris is in France.", TALK, PromptMessage("user", "Now."))
BLOCKS = [PromptBlock.cached_long("rules", "Be brief."), PromptBlock.plain("today", "Monday.")]
IR = PromptIR(
    "Be brief.",
    segments=[Segment("conversation", TALK), Segment("system_remainder", [PromptMessage("system", "Cut.")])],
    cache=PromptCachePlan(cache_system=True, breakpoint_message_ids=("t1",)),
)
TOOLS = [{"name": "weather", "description": "", "input_schema": {"type": "object"}}]


def carried(wire: str, request: LlmRequest) -> LlmRequest:
    """What the body that a wire sends says."""
    return WIRES[wire].lift(WIRES[wire].lower(request))


@wires
@pytest.mark.parametrize("prompt", [CONTEXT, IR, BLOCKS], ids=["context", "ir", "blocks"])
def test_the_key_is_that_of_the_body_that_is_sent(prompt: Any, wire: str) -> None:
    fields: Any = {"messages": TALK} if prompt is BLOCKS else {}
    request = to_request(prompt, wire=wire, model="m", max_tokens=10, tools=TOOLS, **fields)

    assert carried(wire, request).prompt_hash() == request.prompt_hash()


@wires
@pytest.mark.parametrize(
    "row",
    [row for row in read_vectors("rendered_context.jsonl") if row["kind"] == "render"],
    ids=lambda row: row["name"],
)
def test_every_wire_carries_what_an_agent_rendered(row: Any, wire: str) -> None:
    request = RenderedContext.from_dict(row["output"]).to_request(wire=wire, model="m", max_tokens=10)

    assert carried(wire, request) == request


@wires
def test_a_prompt_with_and_without_caching_has_one_key(wire: str) -> None:
    """Markers never change it, nor does cutting the system text into blocks."""
    plain = [PromptBlock.plain("all", "Be brief.\n\nMonday.")]
    cached = to_request(BLOCKS, wire=wire, model="m", messages="q", cache=PromptCachePlan(cache_system=True))

    assert cached == to_request(plain, wire=wire, model="m", messages="q")
    assert cached.prompt_hash() == LlmRequest("m", "Be brief.\n\nMonday.", "q").prompt_hash()
    without = replace(IR, cache=PromptCachePlan())
    assert without.to_request(wire=wire, model="m") == IR.to_request(wire=wire, model="m")


def test_the_system_text_can_be_cut_again_where_the_blocks_ended() -> None:
    """Without a second copy of the text."""
    blocks = [
        PromptBlock.cached_long("a", "é\n"),
        PromptBlock.plain("empty", ""),
        PromptBlock.plain("b", "\n\n"),
        PromptBlock.cached_short("c", "C"),
    ]
    prompt = blocks_for_wire(blocks, ANTHROPIC)
    pieces: list[str] = []
    start = 0
    for end, _ in prompt.system_cuts():
        pieces.append(prompt.system_text[start:end])
        start = end + 2

    assert pieces == [block.text for block in blocks if block.text]
    assert [policy for _, policy in prompt.system_cuts()] == ["1h", "none", "5m"]
    assert WirePrompt(ANTHROPIC).system_cuts() == ()


def test_a_request_s_plan_says_where_each_block_ends() -> None:
    """Only where one marker behind the whole system text, with the time of all others, does not say it."""
    assert to_request(BLOCKS, wire=ANTHROPIC, model="m").cache == PromptCachePlan(
        ttl="1h", system_cuts=((9, "1h"), (18, "none")), labels=("rules", "today")
    )
    assert to_request(BLOCKS, wire="openai-chat", model="m").cache == PromptCachePlan(
        system_cuts=((9, "none"), (18, "none")), labels=("rules", "today")
    )
    stable_last = to_request(BLOCKS[:1], wire=ANTHROPIC, model="m").cache
    assert stable_last == PromptCachePlan(cache_system=True, ttl="1h", labels=("rules",))
    both = to_request(
        BLOCKS[:1],
        wire=ANTHROPIC,
        model="m",
        messages=TALK,
        cache=PromptCachePlan(breakpoint_message_ids=("u1",)),
    ).cache
    assert both == PromptCachePlan(
        cache_system=True, breakpoint_message_ids=("u1",), ttl="1h", tail_ttl="5m", labels=("rules",)
    )


def test_messages_beside_blocks_come_in_every_form() -> None:
    mixed: Any = [LlmMessage("user", "a"), PromptMessage("assistant", "b"), {"role": "user", "content": "c"}]
    request = to_request(BLOCKS, wire="openai-chat", model="m", messages=mixed)

    assert [message.content for message in request.messages] == ["a", "b", "c"]
    with pytest.raises(InvalidRequest, match=r"messages\[0\]"):
        to_request(BLOCKS, wire="openai-chat", model="m", messages=[5])


@wires
def test_system_messages_at_the_start_are_system_text(wire: str) -> None:
    messages = [PromptMessage("system", "A"), PromptMessage("system", ""), PromptMessage("user", "q")]
    request = to_request([], wire=wire, model="m", messages=messages, max_tokens=10)

    assert request.system == "A"
    assert carried(wire, request) == request


def test_system_messages_in_the_middle_stay_there_unless_the_wire_has_none() -> None:
    messages = [PromptMessage("user", "q"), PromptMessage("system", "A")]

    roles = {
        wire: [m.role.value for m in to_request([], wire=wire, model="m", messages=messages).messages]
        for wire in NAMES
    }
    assert roles.pop(ANTHROPIC) == ["user"]
    assert set(map(tuple, roles.values())) == {("user", "system")}


def test_a_system_message_that_is_more_than_text_cannot_be_system_text() -> None:
    picture = [{"type": "image", "url": "https://example.com/a.png"}]

    with pytest.raises(InvalidRequest, match="text alone"):
        to_request([], wire=ANTHROPIC, model="m", messages=[PromptMessage("system", picture)])


def test_a_system_message_of_several_texts_has_blank_lines_between_them() -> None:
    """As the body that is sent would be read."""
    two = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    request = to_request([], wire="openai-chat", model="m", messages=[PromptMessage("system", two)])

    assert request.system == "A\n\nB"


@pytest.mark.parametrize("wire", [ANTHROPIC, "openai-chat", "openai-responses"])
def test_parts_reach_the_wire(wire: str) -> None:
    """Pictures by their data, however they were given; results each for themselves."""
    turns = [
        PromptMessage(
            "user",
            [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "url": "data:image/png;base64,QUJD", "detail": "auto"},
                {"type": "image", "data": "QUJD", "media_type": "image/png", "url": None},
            ],
        ),
        PromptMessage(
            "assistant", "Wait.", tool_calls=[{"id": c, "name": "look", "arguments": {}} for c in "xy"]
        ),
        PromptMessage(
            "tool",
            [
                {"type": "tool_result", "call_id": "x", "output": "a cat"},
                {"type": "tool_result", "call_id": "y", "output": "no", "is_error": True},
                {"type": "text", "text": "Go on."},
            ],
        ),
    ]
    request = RenderedContext("", "", turns).to_request(wire=wire, model="m", max_tokens=10)

    assert request.messages[0].parts[1] == request.messages[0].parts[2]
    assert [(m.role.value, m.content, m.tool_call_id) for m in request.messages[2:]] == [
        ("tool", "a cat", "x"),
        ("tool", "no", "y"),
        ("user", "Go on.", None),
    ]
    if wire == ANTHROPIC:  # others cannot say that a tool failed
        assert request.messages[3].is_error
        assert carried(wire, request).prompt_hash() == request.prompt_hash()


def test_only_the_wires_that_have_an_order_are_known() -> None:
    with pytest.raises(InvalidRequest, match="openai-chat"):
        to_request(BLOCKS, wire="gemini", model="m")


def test_markers_of_a_wire_prompt_are_found_by_place() -> None:
    prompt = CONTEXT.for_wire(ANTHROPIC)

    assert prompt.marker(Place.SYSTEM, 1) is CachePolicy.EPHEMERAL_5M
    assert prompt.marker(Place.SYSTEM, 2) is CachePolicy.NONE
    assert prompt.marker(Place.TOOLS) is CachePolicy.NONE


@wires
def test_a_tool_s_failure_and_a_picture_go_to_every_wire(wire: str) -> None:
    """Each has what it has a place for."""
    turns = [
        PromptMessage("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        PromptMessage(
            "user",
            [{"type": "image", "data": "QUJD", "media_type": "image/png"}, {"type": "text", "text": "c"}],
        ),
        PromptMessage("assistant", "", tool_calls=[{"id": "c", "name": "f", "arguments": {}}]),
        PromptMessage("tool", [{"type": "tool_result", "call_id": "c", "output": "boom", "is_error": True}]),
    ]
    request = RenderedContext("s", "k", turns).to_request(wire=wire, model="m", max_tokens=10)

    assert carried(wire, request) == request
    assert any(message.is_error for message in request.messages) == (wire == ANTHROPIC)
