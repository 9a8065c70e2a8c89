"""What holds for every prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cortex_replay.prompt import (
    MOST_BREAKPOINTS,
    WIRES,
    CachePolicy,
    Continuation,
    Place,
    PrefixChanged,
    PromptBlock,
    PromptCachePlan,
    PromptIR,
    PromptMessage,
    RenderedContext,
    Segment,
    SegmentRole,
    assert_prefix_stable,
    blocks_for_wire,
    flatten_blocks,
)
from cortex_replay.prompt.diff import short_diff
from cortex_replay.types import CacheMark
from cortex_replay.wire import WIRES as CODECS
from tests.property.strategies import effort, texts

few = st.sampled_from(["", "a", "b", " ", "a\n"])
names = st.none() | st.sampled_from(["m1", "m2", "m3"])
policies = st.sampled_from(CachePolicy)
blocks = st.lists(st.builds(PromptBlock, few, few, policies), max_size=7)
turns = st.lists(st.builds(PromptMessage, st.sampled_from(["user", "assistant"]), few, names), max_size=6)
contexts = st.builds(
    RenderedContext,
    few,
    few,
    turns,
    st.none() | st.just(PromptMessage("user", "now")),
    st.none() | st.integers(0, 9),
)
plans = st.builds(
    PromptCachePlan,
    cache_tools=st.booleans(),
    cache_system=st.booleans(),
    breakpoint_message_ids=st.lists(st.sampled_from(["m1", "m2", "m3", "gone"]), max_size=4),
    ttl=st.sampled_from([None, "5m", "1h"]),
    tail_ttl=st.sampled_from([None, "5m", "1h"]),
    marks=st.lists(st.builds(CacheMark, st.sampled_from(["tool", "message"]), st.integers(0, 9)), max_size=2),
    labels=st.lists(few, max_size=2),
    key=names,
    retention=names,
)


@st.composite
def irs(draw: st.DrawFn) -> PromptIR:
    roles = draw(st.lists(st.sampled_from(SegmentRole), unique=True))
    segments = [
        Segment(
            role,
            [PromptMessage("system", t.content, t.id) for t in drawn]
            if role is SegmentRole.SYSTEM_REMAINDER
            else drawn,
        )
        for role in roles
        for drawn in [draw(turns)]
    ]
    continuation = draw(st.none() | st.builds(Continuation, st.none() | st.just("r"), names))
    return PromptIR(draw(few), draw(blocks), segments, draw(plans), continuation)


def breaks(previous: Any, current: Any) -> bool:
    try:
        assert_prefix_stable(previous, current)
    except PrefixChanged:
        return True
    return False


@given(contexts)
@effort(100)
def test_a_context_extends_itself(context: RenderedContext) -> None:
    print_ = context.prefix_fingerprint()

    assert print_.extends(print_)
    assert print_.common_turn_prefix(print_) == len(context.turns)


@given(contexts, turns)
@effort(100)
def test_a_context_with_more_turns_extends_the_one_before(context: RenderedContext, more: Any) -> None:
    """And not the other way round, unless nothing was added."""
    grown = RenderedContext(context.system_stable, context.system_knowledge, [*context.turns, *more])
    before, after = context.prefix_fingerprint(), grown.prefix_fingerprint()

    assert after.extends(before)
    assert before.extends(after) is (not more)
    assert after.common_turn_prefix(before) == before.common_turn_prefix(after) == len(context.turns)


@given(contexts, contexts, contexts)
@effort(200)
def test_extending_is_an_order(a: RenderedContext, b: RenderedContext, c: RenderedContext) -> None:
    first, second, third = (context.prefix_fingerprint() for context in (a, b, c))

    if first.extends(second) and second.extends(third):
        assert first.extends(third)
    if first.extends(second) and second.extends(first):
        assert first == second


@given(contexts, contexts)
@effort(300)
def test_the_common_prefix_is_as_long_as_the_turns_are_equal(
    previous: RenderedContext, current: RenderedContext
) -> None:
    common = current.prefix_fingerprint().common_turn_prefix(previous.prefix_fingerprint())
    seen = [[turn.turn_bytes() for turn in context.turns] for context in (previous, current)]

    assert seen[0][:common] == seen[1][:common]
    assert common == min(map(len, seen)) or seen[0][common] != seen[1][common]


@given(contexts, contexts)
@effort(300)
def test_the_assertion_holds_exactly_when_a_context_extends_what_the_other_froze(
    previous: RenderedContext, current: RenderedContext
) -> None:
    promised = replace(previous, turns=previous.turns[: previous.frozen_prefix_len or None])
    extends = current.prefix_fingerprint().extends(promised.prefix_fingerprint())

    assert breaks(previous, current) is not extends


@given(contexts)
@effort(100)
def test_a_context_survives_its_plain_form(context: RenderedContext) -> None:
    assert RenderedContext.from_dict(context.to_dict()) == context


@given(irs())
@effort(150)
def test_an_ir_survives_its_plain_form(ir: PromptIR) -> None:
    assert PromptIR.from_dict(ir.to_dict()).to_dict() == ir.to_dict()


@given(irs(), st.randoms())
@effort(150)
def test_the_order_of_segments_makes_no_difference(ir: PromptIR, random: Any) -> None:
    shuffled = list(ir.segments)
    random.shuffle(shuffled)
    other = PromptIR(ir.system_text, ir.system_blocks, shuffled, ir.cache, ir.continuation)

    assert other.flatten() == ir.flatten()
    assert other.continuation_delta() == ir.continuation_delta()
    assert all(other.for_wire(wire) == ir.for_wire(wire) for wire in WIRES)


@given(irs())
@effort(150)
def test_every_message_is_in_a_whole_conversation_once(ir: PromptIR) -> None:
    """And a delta has no others, nor the stable prefix."""
    body = ir.body_chat()
    delta = ir.continuation_delta()

    assert len(body) == sum(len(segment.messages) for segment in ir.segments)
    assert all(message in body for message in delta)
    held = len(ir.run(SegmentRole.STABLE_PREFIX))
    assert len(delta) <= len(body) - held
    if ir.continuation is None:
        assert len(delta) == len(body) - held


def nothing_is_lost(parts: list[str], request: Any) -> bool:
    said = [request.system, *(message.content for message in request.messages)]
    return all(any(part in text for text in said) for part in parts)


@pytest.mark.parametrize("wire", WIRES)
@given(irs())
@effort(100)
def test_no_wire_loses_a_message(wire: str, ir: PromptIR) -> None:
    """Unless the provider has it; and the key is that of the body."""
    request = ir.to_request(wire=wire, model="m", max_tokens=5)
    goes_on = wire == "openai-responses" and "previous_response_id" in request.extra
    turns_sent = ir.continuation_delta() if goes_on else ir.body_chat()

    assert nothing_is_lost([str(turn.content) for turn in turns_sent], request)
    codec = CODECS[wire]
    assert codec.lift(codec.encode_request(request)).prompt_hash() == request.prompt_hash()


@given(blocks)
@effort(300)
def test_markers_stand_at_the_end_of_runs_and_are_few(made: list[PromptBlock]) -> None:
    prompt = blocks_for_wire(made, "anthropic-messages")
    ends = [b.index for b in (*prompt.dropped, *prompt.breakpoints)]

    assert len(prompt.breakpoints) <= MOST_BREAKPOINTS
    assert ends == sorted(ends)
    assert prompt.dropped == () or len(prompt.breakpoints) == MOST_BREAKPOINTS
    for i, block in enumerate(prompt.system):
        is_end = i + 1 == len(prompt.system) or prompt.system[i + 1].cache is not block.cache
        assert (i in ends) is (block.cache.is_cached and is_end)
    assert prompt.system_text == flatten_blocks(made)


@given(contexts, plans, st.booleans())
@effort(150)
def test_a_request_never_has_more_than_four_markers(
    context: RenderedContext, plan: PromptCachePlan, has_tools: bool
) -> None:
    """The body that is really made, too; and each breakpoint is found by its message's own name."""
    prompt = context.for_wire("anthropic-messages", has_tools=has_tools, cache=plan)
    fields: Any = {"tools": [{"name": "f"}]} if has_tools else {}
    body = CODECS["anthropic-messages"].encode_request(prompt.to_request("m", **fields))

    assert len(prompt.breakpoints) <= MOST_BREAKPOINTS
    assert str(body).count("cache_control") <= MOST_BREAKPOINTS
    marked = [prompt.messages[b.index].id for b in prompt.breakpoints if b.place is Place.MESSAGES]
    assert None not in marked
    assert all(sum(message.id == name for message in prompt.messages) == 1 for name in marked)


@given(blocks, blocks)
@effort(300)
def test_blocks_with_more_behind_them_are_stable(made: list[PromptBlock], more: list[PromptBlock]) -> None:
    """As far as they are cached; and every prompt is stable against itself."""
    assert not breaks(made, made)
    if any(block.cache.is_cached and block.text for block in more):
        assert not breaks(made, made + more)


long_texts = st.text(st.sampled_from("ab \n\t\u200b"), max_size=300)


@given(long_texts | texts, long_texts | texts)
@effort(500)
def test_two_texts_that_differ_have_a_diff(before: str, after: str) -> None:
    assert bool(short_diff(before, after, "x", "y")) is (before != after)
