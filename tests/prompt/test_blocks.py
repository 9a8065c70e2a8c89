"""Blocks, and where their markers stand; against what nexo-llm 0.1.0 flattens and sends."""

from __future__ import annotations

import logging
from itertools import zip_longest
from typing import Any

import pytest

from cortex_replay import InvalidRequest
from cortex_replay.prompt import (
    MOST_BREAKPOINTS,
    Breakpoint,
    CachePolicy,
    Place,
    PromptBlock,
    PromptCachePlan,
    PromptMessage,
    WirePrompt,
    blocks_for_wire,
    flatten_blocks,
    place_breakpoints,
    to_request,
)
from tests.golden import read_vectors

ROWS = read_vectors("prompt_blocks.jsonl")
LONG, SHORT, NONE = CachePolicy.EPHEMERAL_1H, CachePolicy.EPHEMERAL_5M, CachePolicy.NONE


def has_empty_block(row: Any) -> bool:
    return any(not block["text"] for block in row["request"]["blocks"])


SENT = [row for row in ROWS if row["expect"]["ok"] and not has_empty_block(row)]
TOO_MANY = [
    "blocks_alt_5_fifth_dropped",
    "blocks_alt_6",
    "blocks_runs_of_two_x5_tools_cached",
    "blocks_five_separated_by_none_tools_cached",
    "tools_cached_with_4_block_breakpoints_makes_5",
]
"""Here the reference keeps the first four block markers and one for the tools."""


def blocks_of(row: Any) -> list[PromptBlock]:
    return [PromptBlock.from_dict(block) for block in row["request"]["blocks"]]


def sent(row: Any) -> WirePrompt:
    asked = row["request"]
    return blocks_for_wire(
        blocks_of(row),
        "anthropic-messages",
        messages=[PromptMessage(m["role"], m["content"]) for m in asked["messages"]],
        system=asked["system_prompt"] or "",
        model=asked["model"],
        has_tools=bool(asked["tools"]),
        cache=PromptCachePlan(cache_tools=asked["cache_tools"], ttl="1h"),
    )


def policies(blocks: list[tuple[str, CachePolicy]], **options: Any) -> list[CachePolicy]:
    """The markers behind each block that is sent."""
    made = [PromptBlock(f"b{i}", text, cache) for i, (text, cache) in enumerate(blocks)]
    prompt = blocks_for_wire(made, "anthropic-messages", messages="q", **options)
    return [prompt.marker(Place.SYSTEM, i) for i in range(len(prompt.system))]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_blocks_flatten_as_in_the_reference(row: Any) -> None:
    """Every row, those with empty blocks too."""
    assert flatten_blocks(blocks_of(row)) == row["flatten_blocks"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_blocks_survive_their_plain_form(row: Any) -> None:
    assert [block.to_dict() for block in blocks_of(row)] == row["request"]["blocks"]


@pytest.mark.parametrize(
    "row", [row for row in SENT if row["name"] not in TOO_MANY], ids=lambda row: row["name"]
)
def test_the_wire_gets_what_the_reference_sends(row: Any) -> None:
    """System blocks with their markers, and the marker behind the tools."""
    prompt = sent(row)
    expected = row["expect"]["system"]

    if isinstance(expected, list):
        assert prompt.anthropic_system() == expected
    else:
        assert prompt.system_text == (expected or "")
    tools = row["expect"]["tools"] or [{}]
    assert prompt.marker(Place.TOOLS).cache_control == tools[-1].get("cache_control")
    assert len(prompt.breakpoints) == row["expect"]["cache_control_count"]
    assert prompt.dropped == ()


@pytest.mark.parametrize("name", TOO_MANY)
def test_of_too_many_markers_the_last_four_are_kept(name: str) -> None:
    """The texts are the reference's; the tools count, and lose first, for they cache the least."""
    (row,) = (row for row in ROWS if row["name"] == name)
    prompt = sent(row)
    following = [block.cache for block in prompt.system[1:]]
    runs_end = [
        i
        for i, (block, after) in enumerate(zip_longest(prompt.system, following))
        if block.cache.is_cached and block.cache is not after
    ]

    assert [block.text for block in prompt.system] == [block["text"] for block in row["expect"]["system"]]
    assert [(b.place, b.index) for b in prompt.breakpoints] == [(Place.SYSTEM, i) for i in runs_end[-4:]]
    dropped = [(Place.TOOLS, 0)] * row["request"]["cache_tools"] + [(Place.SYSTEM, i) for i in runs_end[:-4]]
    assert [(b.place, b.index) for b in prompt.dropped] == dropped


def test_a_policy_knows_its_marker() -> None:
    """Only the hour has to be said."""
    assert [policy.is_cached for policy in CachePolicy] == [False, True, True]
    assert NONE.cache_control is None
    assert SHORT.cache_control == {"type": "ephemeral"}
    assert LONG.cache_control == {"type": "ephemeral", "ttl": "1h"}


def test_constructors_say_how_long() -> None:
    assert PromptBlock.plain("a", "x") == PromptBlock("a", "x", NONE)
    assert PromptBlock.cached_short("a", "x") == PromptBlock("a", "x", SHORT)
    assert PromptBlock.cached_long("a", "x") == PromptBlock("a", "x", "1h")


def test_a_block_of_an_ir_keeps_its_kind() -> None:
    """Its id is our label."""
    plain = {"id": "base", "kind": "skill_context", "text": "x"}
    block = PromptBlock.from_dict(plain)

    assert (block.label, block.kind, block.cache) == ("base", "skill_context", NONE)
    assert block.to_dict() == plain
    cached = PromptBlock("base", "x", SHORT, kind="base")
    assert PromptBlock.from_dict(cached.to_dict()) == cached


@pytest.mark.parametrize(
    ("plain", "field"),
    [
        ({"label": "a", "text": "x", "cache": "2h"}, "cache"),
        ({"label": "a", "text": "x", "cache": None}, "cache"),
        ({"label": "a", "text": None}, "text"),
        ({"label": 1, "text": "x"}, "label"),
        ({"label": "a", "text": "x", "ttl": "1h"}, "ttl"),
        ({"label": "a", "id": "b", "text": "x"}, "id"),
        ("text", "block"),
    ],
    ids=str,
)
def test_what_is_no_block_is_refused(plain: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        PromptBlock.from_dict(plain)

    assert caught.value.field == field


def test_a_refused_block_in_a_list_is_named() -> None:
    blocks: Any = [PromptBlock.plain("a", "x"), {"label": "b", "text": "y", "cache": "2h"}]

    with pytest.raises(InvalidRequest) as caught:
        to_request(blocks, wire="openai-chat", model="m")

    assert caught.value.field == "blocks[1].cache"


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([("a", LONG), ("", LONG)], [LONG]),  # the reference loses the marker
        ([("a", LONG), ("", NONE), ("b", LONG)], [NONE, LONG]),  # the reference marks both
        ([("a", LONG), ("", SHORT), ("b", LONG)], [NONE, LONG]),
        ([("", LONG), ("a", LONG)], [LONG]),
        ([("a", LONG), ("", LONG), ("b", SHORT)], [LONG, SHORT]),
        ([("a", SHORT), ("b", NONE), ("", SHORT)], [SHORT, NONE]),
        ([("", LONG), ("", SHORT)], []),
    ],
    ids=str,
)
def test_an_empty_block_makes_no_difference(
    blocks: list[tuple[str, CachePolicy]], expected: list[CachePolicy]
) -> None:
    """It is not sent, so it neither ends a run nor takes its marker along."""
    assert policies(blocks) == expected
    assert policies([block for block in blocks if block[0]]) == expected


def test_a_plan_may_mark_the_last_block_besides() -> None:
    plan = PromptCachePlan(cache_system=True, ttl="1h")

    assert policies([("a", SHORT), ("b", NONE)], cache=plan) == [SHORT, LONG]
    assert policies([("a", SHORT), ("b", SHORT)], cache=plan) == [NONE, SHORT]


def test_the_text_that_follows_the_blocks_is_one_block_without_a_marker() -> None:
    """The system text of the request, and every system message."""
    prompt = blocks_for_wire(
        [PromptBlock.cached_short("a", "A")],
        "anthropic-messages",
        system="B",
        messages=[PromptMessage("user", "q"), PromptMessage("system", "C"), PromptMessage("user", "r")],
    )

    assert prompt.anthropic_system() == [
        {"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "B\n\nC"},
    ]
    assert [message.content for message in prompt.messages] == ["q", "r"]


def test_the_oldest_models_get_no_markers() -> None:
    for model, count in {"claude-2.1": 0, "claude-3-haiku": 1, "claude-sonnet-4-5": 1, "": 1}.items():
        prompt = blocks_for_wire([PromptBlock.cached_short("a", "A")], "anthropic-messages", model=model)
        assert len(prompt.breakpoints) == count, model


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "ollama-chat"])
def test_other_wires_have_one_text_and_no_markers(wire: str) -> None:
    prompt = blocks_for_wire([PromptBlock.cached_short("a", "A"), PromptBlock.plain("b", "B")], wire)

    assert prompt.system_text == "A\n\nB"
    assert prompt.breakpoints == ()


def test_what_was_dropped_is_logged_by_its_label(caplog: pytest.LogCaptureFixture) -> None:
    """Labels and names of turns, and nothing that was said."""
    blocks = [PromptBlock(f"label {i}", f"secret {i}", cache) for i in range(4) for cache in (SHORT, NONE)]
    messages = [PromptMessage("user", "secret q", id="q1")]
    plan = PromptCachePlan(cache_tools=True, breakpoint_message_ids=("q1",))

    with caplog.at_level(logging.WARNING):
        request = to_request(
            blocks,
            wire="anthropic-messages",
            model="m",
            messages=messages,
            tools=[{"name": "f"}],
            cache=plan,
        )

    (record,) = caplog.records
    assert record.name == "cortex_replay.prompt.wire_prompt"
    assert record.getMessage().endswith("left out: the tools, block 'label 0'")
    assert "secret" not in caplog.text
    assert request.cache is not None
    assert not request.cache.cache_tools


def test_an_hour_behind_five_minutes_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The provider refuses it; the order of blocks is the caller's to change."""
    blocks = [PromptBlock.cached_short("a", "A"), PromptBlock.cached_long("b", "B")]

    with caplog.at_level(logging.WARNING):
        to_request(blocks, wire="anthropic-messages", model="m")
        to_request(blocks, wire="openai-chat", model="m")

    assert [record.getMessage() for record in caplog.records] == [
        "Anthropic refuses an hour behind five minutes: block 'a', block 'b'"
    ]


@pytest.mark.parametrize(("block", "expected"), [(LONG, LONG), (SHORT, SHORT), (NONE, SHORT)], ids=str)
def test_the_tools_are_cached_as_long_as_what_follows_them(block: CachePolicy, expected: CachePolicy) -> None:
    plan = PromptCachePlan(cache_tools=True)
    prompt = blocks_for_wire([PromptBlock("a", "A", block)], "anthropic-messages", has_tools=True, cache=plan)

    assert prompt.marker(Place.TOOLS) is expected


def test_nothing_is_logged_when_all_markers_fit(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        to_request([PromptBlock.cached_short("a", "A")], wire="anthropic-messages", model="m", messages="q")

    assert caplog.records == []


def test_breakpoints_are_kept_by_where_they_stand_and_not_by_how_they_come() -> None:
    wanted = [
        Breakpoint(Place.MESSAGES, 3, SHORT, "m3"),
        Breakpoint(Place.TOOLS, 0, LONG, "the tools"),
        Breakpoint(Place.SYSTEM, 1, LONG, "s1"),
        Breakpoint(Place.MESSAGES, 1, SHORT, "m1"),
        Breakpoint(Place.SYSTEM, 0, LONG, "s0"),
    ]

    placement = place_breakpoints(wanted)

    assert [str(b) for b in placement.kept] == ["s0", "s1", "m1", "m3"]
    assert [str(b) for b in placement.dropped] == ["the tools"]
    assert len(placement.kept) == MOST_BREAKPOINTS
    assert place_breakpoints([]).kept == ()
