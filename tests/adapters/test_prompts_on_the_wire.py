"""Prompts in parts as the real Claude adapter sends them: read from the socket of a provider."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from cortex_replay import ClaudeAdapter, LlmMessage, LlmRequest, PromptCachePlan, TokenUsage
from cortex_replay.prompt import (
    Place,
    PromptBlock,
    PromptIR,
    PromptMessage,
    RenderedContext,
    Segment,
    WirePrompt,
    blocks_for_wire,
)
from cortex_replay.prompt.markers import breakpoints_of
from cortex_replay.wire import WIRES
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import FakeProvider, serving_in_thread, whole
from tests.golden import read_vectors

CLAUDE = DIALECTS[0]
WIRE = "anthropic-messages"
LONG, SHORT = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}
BLOCK_ROWS = [
    row
    for row in read_vectors("prompt_blocks.jsonl")
    if row["expect"]["ok"]
    and all(block["text"] for block in row["request"]["blocks"])
    and row["expect"]["cache_control_count"] <= 4
    and row["request"]["messages"]
    and row["name"]
    not in ("blocks_alt_5_fifth_dropped", "blocks_alt_6")  # the reference keeps the first four
]


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with serving_in_thread(*[whole(CLAUDE.answer())] * 100) as serving:
        yield serving


def body_sent(provider: FakeProvider, request: LlmRequest) -> Any:
    ClaudeAdapter("key", base_url=provider.url).sync.complete(request)
    body = provider.received[-1].json
    assert WIRES[WIRE].lift(body).prompt_hash() == request.prompt_hash(), "markers are not part of the key"
    return body


def marker_of(message: Any) -> Any:
    content = message["content"]
    return None if isinstance(content, str) else content[-1].get("cache_control")


def assert_sent(body: Any, prompt: WirePrompt) -> None:
    """The blocks and every marker of a prompt stand in a body, and no others."""
    if len(prompt.system) > 1:
        assert body["system"] == prompt.anthropic_system()
    assert str(body).count("cache_control") == len(prompt.breakpoints)
    assert (body.get("tools") or [{}])[-1].get("cache_control") == prompt.marker(Place.TOOLS).cache_control


@pytest.mark.parametrize("row", BLOCK_ROWS, ids=lambda row: row["name"])
def test_blocks_are_sent_as_the_reference_sends_them(provider: FakeProvider, row: Any) -> None:
    asked, expected = row["request"], row["expect"]
    tools = [{"name": tool["name"]} for tool in asked["tools"]]
    messages = [PromptMessage("user", "q")]
    prompt = blocks_for_wire(
        [PromptBlock.from_dict(block) for block in asked["blocks"]],
        WIRE,
        messages=messages,
        system=asked["system_prompt"] or "",
        model=asked["model"],
        has_tools=bool(tools),
        cache=PromptCachePlan(cache_tools=asked["cache_tools"], ttl="1h"),
    )
    body = body_sent(provider, prompt.to_request(asked["model"], tools=tools, max_tokens=5))

    assert_sent(body, prompt)
    system_messages = [message for message in asked["messages"] if message["role"] == "system"]
    if isinstance(expected["system"], list) and not system_messages:
        sent = body["system"]
        assert (sent if isinstance(sent, list) else [{"type": "text", "text": sent}]) == expected["system"]
    assert (body.get("tools") or [{}])[-1].get("cache_control") == (expected["tools"] or [{}])[-1].get(
        "cache_control"
    )


def test_a_context_is_sent_with_its_four_markers(provider: FakeProvider) -> None:
    turns = [PromptMessage("user" if i % 2 == 0 else "assistant", f"turn {i}") for i in range(5)]
    context = RenderedContext(
        "stable", "known", turns, state_turn=PromptMessage("user", "now"), frozen_prefix_len=2
    )
    body = body_sent(provider, context.to_request(wire=WIRE, model="m", max_tokens=5))

    assert body["system"] == [
        {"type": "text", "text": "stable", "cache_control": SHORT},
        {"type": "text", "text": "known", "cache_control": SHORT},
    ]
    assert [marker_of(message) for message in body["messages"]] == [None, SHORT, None, None, SHORT, None]
    assert_sent(body, context.for_wire(WIRE))


def test_each_marker_has_its_own_time(provider: FakeProvider) -> None:
    """Five minutes behind a message do not shorten the hour before it, and the tools get the longest."""
    blocks = [
        PromptBlock.cached_long("a", "A"),
        PromptBlock.cached_short("b", "B"),
        PromptBlock.plain("c", "C"),
    ]
    prompt = blocks_for_wire(
        blocks,
        WIRE,
        messages=[PromptMessage("user", "q", id="q")],
        has_tools=True,
        cache=PromptCachePlan(cache_tools=True, breakpoint_message_ids=("q",)),
    )
    body = body_sent(provider, prompt.to_request("m", tools=[{"name": "f"}], max_tokens=5))

    assert [block.get("cache_control") for block in body["system"]] == [LONG, SHORT, None]
    assert [block["text"] for block in body["system"]] == ["A", "B", "C"]
    assert body["tools"][-1]["cache_control"] == LONG
    assert marker_of(body["messages"][0]) == SHORT


def test_an_ir_is_sent_with_its_plan(provider: FakeProvider) -> None:
    ir = PromptIR(
        "",
        [PromptBlock("a", "A", kind="base"), PromptBlock("b", "B", kind="base")],
        [
            Segment("stable_prefix", [PromptMessage("user", "P", id="p")]),
            Segment("system_remainder", [PromptMessage("system", "R", id="r")]),
            Segment("conversation", [PromptMessage("user", "U", id="u")]),
        ],
        PromptCachePlan(cache_system=True, breakpoint_message_ids=("p",), ttl="1h"),
    )
    body = body_sent(provider, ir.to_request(wire=WIRE, model="m", max_tokens=5))

    assert body["system"] == [
        {"type": "text", "text": "A"},
        {"type": "text", "text": "B", "cache_control": LONG},
        {"type": "text", "text": "R"},
    ]
    assert [marker_of(message) for message in body["messages"]] == [LONG, None]


@pytest.mark.parametrize(
    "cuts",
    [((1, "5m"), (3, "5m")), ((1, "5m"), (9, "5m")), ((4, "5m"), (3, "5m")), ((2, "5m"), (4, "5m"))],
    ids=str,
)
def test_cuts_of_another_text_leave_it_in_one_piece(
    provider: FakeProvider, caplog: pytest.LogCaptureFixture, cuts: Any
) -> None:
    request = LlmRequest("m", "A\n\nB", "q", 0.5, 5, cache=PromptCachePlan(system_cuts=cuts))

    with caplog.at_level(logging.WARNING, "cortex_replay"):
        body = body_sent(provider, request)

    assert body["system"] == "A\n\nB"
    assert "another system text" in caplog.text


def test_what_is_too_much_for_a_request_is_logged_by_name(
    provider: FakeProvider, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [LlmMessage("user" if i % 2 == 0 else "assistant", f"turn {i}", id=f"m{i}") for i in range(5)]
    plan = PromptCachePlan(cache_system=True, breakpoint_message_ids=tuple(f"m{i}" for i in range(5)))

    with caplog.at_level(logging.WARNING, "cortex_replay"):
        body = body_sent(provider, LlmRequest("m", "S", messages, 0.5, 5, cache=plan))

    assert str(body).count("cache_control") == 4
    assert "left out: system text, turn 1 (user, id 'm0')" in caplog.text


def test_thinking_takes_no_marker_and_none_of_the_four(provider: FakeProvider) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    messages = [
        LlmMessage("user", "q", id="q"),
        LlmMessage("assistant", "", parts=[thought], id="thought"),
        LlmMessage("user", "more", id="more"),
    ]
    plan = PromptCachePlan(breakpoint_message_ids=("q", "thought", "more"))
    body = body_sent(provider, LlmRequest("m", "", messages, 0.5, 5, cache=plan))

    assert [marker_of(message) for message in body["messages"]] == [SHORT, None, SHORT]


def test_the_provider_s_counts_of_cached_and_written_tokens_are_reported() -> None:
    usage = {
        "input_tokens": 7,
        "output_tokens": 2,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 50,
    }
    with serving_in_thread(whole(CLAUDE.answer() | {"usage": usage})) as provider:
        adapter = ClaudeAdapter("key", base_url=provider.url)
        answer = adapter.sync.complete(LlmRequest("m", "S", "q", 0.5, 5))

    assert answer.usage == TokenUsage(1057, 2, 1000, 50)


def test_an_empty_text_and_a_tool_that_is_no_object_take_no_marker(provider: FakeProvider) -> None:
    turn = PromptMessage("user", [{"type": "text", "text": "hello"}, {"type": "text", "text": ""}])
    body = body_sent(
        provider, RenderedContext("s", "k", [turn]).to_request(wire=WIRE, model="m", max_tokens=5)
    )

    assert marker_of(body["messages"][0]) is None
    plan = PromptCachePlan(cache_tools=True)
    assert breakpoints_of(LlmRequest("m", "", "q", tools=[{"name": "a"}, "x"], cache=plan)).kept == ()
