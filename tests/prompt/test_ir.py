"""The prompt IR and its lowerings; against bamboo-llm 2026.6.20."""

from __future__ import annotations

import json
import logging
from dataclasses import fields, replace
from typing import Any

import pytest

from cortex_replay import InvalidRequest, ToolCall
from cortex_replay.prompt import (
    CachePolicy,
    Continuation,
    Place,
    PromptBlock,
    PromptCachePlan,
    PromptIR,
    PromptMessage,
    Segment,
    SegmentRole,
)
from cortex_replay.prompt.plan import plan_from_dict, plan_to_dict
from cortex_replay.types import CacheMark
from cortex_replay.wire import WIRES
from tests.golden import read_vectors

ANTHROPIC = "anthropic-messages"
ROWS = [row for row in read_vectors("prompt_ir.jsonl") if row["kind"] == "ir"]


def has_two_of_a_role(row: Any) -> bool:
    roles = [segment["role"] for segment in row["ir"]["segments"]]
    return len(roles) != len(set(roles))


SOUND = [row for row in ROWS if not has_two_of_a_role(row)]
TWICE = [row for row in ROWS if has_two_of_a_role(row)]
rows = pytest.mark.parametrize("row", SOUND, ids=lambda row: row["name"])


def seen(messages: list[PromptMessage]) -> list[Any]:
    """What the vectors show of a message that was put somewhere."""
    return [{name: message.to_dict()[name] for name in ("role", "content", "id")} for message in messages]


def plan_of(row: Any) -> PromptCachePlan:
    """The plan that the reference obeyed: an option of the request, not the IR's own."""
    asked = row["request_plan"]
    return PromptCachePlan(cache_tools=True, cache_system=True) if asked is None else plan_from_dict(asked)


def simple(**fields: Any) -> PromptIR:
    """One message for each role, all out of order."""
    made = {
        "volatile_tail": ("user", "VOLATILE"),
        "conversation": ("user", "question"),
        "system_remainder": ("system", "REMAINDER"),
        "dynamic_context": ("user", "DYNAMIC"),
        "stable_prefix": ("user", "PREFIX"),
    }
    segments = [Segment(role, [PromptMessage(who, text, id=role)]) for role, (who, text) in made.items()]
    return PromptIR("SYSTEM", segments=segments, **fields)


def texts(messages: Any) -> list[str]:
    return [message.content for message in messages]


@rows
def test_a_whole_conversation_is_in_the_order_of_the_reference(row: Any) -> None:
    ir = PromptIR.from_dict(row["ir"])

    assert ir.system_field() == row["expect"]["system_field"]
    assert seen(ir.body_chat()) == row["expect"]["body_chat"]
    assert seen(ir.flatten()) == row["expect"]["flatten"]
    assert seen(ir.responses_input()) == row["expect"]["responses_input"]
    runs = {role.value: [message.id for message in ir.run(role)] for role in SegmentRole}
    assert runs == row["expect"]["runs"]


@rows
def test_a_delta_is_that_of_the_reference(row: Any) -> None:
    assert seen(PromptIR.from_dict(row["ir"]).continuation_delta()) == row["expect"]["continuation_delta"]


@rows
def test_the_options_of_a_responses_call_are_those_of_the_reference(row: Any) -> None:
    base = row["base_options"]
    options = PromptIR.from_dict(row["ir"]).responses_request_options(base)

    options["input_messages"] = seen(options["input_messages"])
    assert options == row["expect"]["responses_request_options"]
    assert base == row["base_options"]


@rows
def test_an_ir_survives_its_plain_form(row: Any) -> None:
    """Plan, continuation and kinds of blocks too; calls are OpenAI's functions."""
    assert PromptIR.from_dict(row["ir"]).to_dict() == row["ir"]


@rows
def test_a_plan_is_enabled_when_the_reference_says_so(row: Any) -> None:
    plan = PromptCachePlan() if row["request_plan"] is None else plan_of(row)

    asks = plan.cache_tools or plan.cache_system or bool(plan.breakpoint_message_ids)
    assert asks is row["expect"]["plan"]["is_enabled"]


@pytest.mark.parametrize("row", TWICE, ids=lambda row: row["name"])
def test_a_second_segment_of_a_role_is_refused(row: Any) -> None:
    """The reference never looks at it."""
    with pytest.raises(InvalidRequest) as caught:
        PromptIR.from_dict(row["ir"])

    assert caught.value.field.startswith("segments[")
    assert "there is a" in caught.value.reason


def within_budget(row: Any) -> bool:
    plan = plan_of(row)
    return len(set(plan.breakpoint_message_ids)) + plan.cache_tools + plan.cache_system <= 4


@pytest.mark.parametrize(
    "row",
    [row for row in SOUND if not row["ir"]["system_blocks"] and within_budget(row)],
    ids=lambda row: row["name"],
)
def test_anthropic_without_blocks_gets_what_the_reference_sends(row: Any) -> None:
    """System text and remainder in one block, messages, and all markers of the plan."""
    body = row["expect"]["anthropic_body"]
    ir = replace(PromptIR.from_dict(row["ir"]), cache=plan_of(row))
    prompt = ir.for_wire(ANTHROPIC, has_tools=bool(row["tools"]))

    assert prompt.anthropic_system() == body.get("system", [])
    assert prompt.marker(Place.TOOLS).cache_control == (body["tools"] or [{}])[-1].get("cache_control")
    sent = [block for message in body["messages"] for block in message["content"]]
    behind = [prompt.marker(Place.MESSAGES, i).cache_control for i in range(len(prompt.messages))]
    if row["name"] == "tool_results_merged_breakpoint_second_lost":
        assert [marker is not None for marker in behind] == [False] * 5 + [True, False]
    else:
        assert behind == [block.get("cache_control") for block in sent]


def test_the_remainder_stands_apart_in_a_conversation_and_in_a_delta() -> None:
    """Two independent concatenations.

    A conversation is read from its start: the remainder tells what was cut from it, so it stands
    right before it, behind the stable prefix that a provider has cached. A delta is read by a
    provider that holds the prefix and the conversation already: the remainder speaks about those,
    so it comes before anything new. Made from one list, either order would break the other.
    """
    ir = simple()

    assert texts(ir.body_chat()) == ["PREFIX", "DYNAMIC", "REMAINDER", "question", "VOLATILE"]
    assert texts(ir.continuation_delta()) == ["REMAINDER", "DYNAMIC", "question", "VOLATILE"]


def talk(*ids: str | None) -> Segment:
    return Segment("conversation", [PromptMessage("user", f"c{i}", id=name) for i, name in enumerate(ids)])


@pytest.mark.parametrize(
    ("continuation", "expected"),
    [
        (None, ["c0", "c1", "c2"]),
        (Continuation("r"), ["c0", "c1", "c2"]),
        (Continuation("r", "gone"), ["c0", "c1", "c2"]),
        (Continuation("r", ""), ["c0", "c1", "c2"]),
        (Continuation("r", "a"), ["c1", "c2"]),
        (Continuation("r", "b"), ["c2"]),
        (Continuation("r", "c"), ["c0", "c1", "c2"]),
    ],
    ids=str,
)
def test_a_doubtful_boundary_sends_everything(continuation: Continuation | None, expected: list[str]) -> None:
    """Also one that nothing follows: a message read twice does no harm, one that is missed does."""
    ir = PromptIR(segments=[talk("a", "b", "c")], continuation=continuation)

    assert texts(ir.continuation_delta()) == expected


def test_the_last_message_with_the_boundary_s_name_counts() -> None:
    ir = PromptIR(segments=[talk("a", None, "a", "b")], continuation=Continuation(None, "a"))

    assert texts(ir.continuation_delta()) == ["c3"]


def test_only_white_space_is_trimmed() -> None:
    """Unicode's, which is not Python's: file separators stay."""
    assert texts(PromptIR("\x1c x \u3000\x85").flatten()) == ["\x1c x"]
    assert PromptIR("\u2003").flatten() == []
    assert PromptIR(" x ").system_field() == " x "


def test_a_blank_text_hides_the_blocks_only_in_the_reference_s_own_lowerings() -> None:
    """The vectors pin these; on every wire the blocks are sent."""
    ir = PromptIR("  ", [PromptBlock("b", "BLOCK", kind="base")])

    assert ir.system_field() == "  "
    assert ir.flatten() == []
    for wire in (ANTHROPIC, "openai-chat", "openai-responses", "ollama-chat"):
        assert ir.for_wire(wire).system_text == "BLOCK"


def test_a_continuation_keeps_its_system_text_and_all_messages_on_a_chat_wire() -> None:
    """Such a provider keeps nothing."""
    ir = simple(continuation=Continuation("resp_1", "conversation"))

    for wire in ("openai-chat", "ollama-chat"):
        request = ir.to_request(wire=wire, model="m")
        assert request.system == "SYSTEM"
        assert texts(request.messages) == texts(ir.body_chat())
        assert request.extra == {}


def test_a_continuation_sends_its_delta_to_the_responses_api() -> None:
    """With the instructions, which that provider does not keep; the remainder follows them."""
    ir = simple(continuation=Continuation("resp_1"))
    request = ir.to_request(wire="openai-responses", model="m")

    assert request.system == "SYSTEM\n\nREMAINDER"
    assert texts(request.messages) == ["DYNAMIC", "question", "VOLATILE"]
    assert request.extra == {"previous_response_id": "resp_1"}


@pytest.mark.parametrize(
    ("boundary", "sent", "words"),
    [
        ("a", ["c1", "c2"], "it has the conversation up to 'a' from resp_1"),
        ("c", ["c0", "c1", "c2"], "nothing follows 'c'"),
        ("gone", ["c0", "c1", "c2"], "no message is called 'gone'"),
        (None, ["c0", "c1", "c2"], "no `last_committed_assistant_id` says where resp_1 ended"),
    ],
)
def test_a_delta_says_what_is_left_out_and_why(boundary: str | None, sent: list[str], words: str) -> None:
    prefix = Segment("stable_prefix", [PromptMessage("user", "PREFIX")])
    ir = PromptIR(segments=[prefix, talk("a", "b", "c")], continuation=Continuation("resp_1", boundary))
    prompt = ir.for_wire("openai-responses")

    assert texts(prompt.messages) == sent, "the provider has the stable prefix either way"
    assert prompt.is_delta
    assert words in prompt.note
    assert "resp_1" in prompt.note


@pytest.mark.parametrize("wire", [ANTHROPIC, "openai-chat", "openai-responses", "ollama-chat"])
def test_a_whole_prompt_is_no_delta_and_needs_no_note(wire: str) -> None:
    prompt = simple(continuation=Continuation(None, "conversation")).for_wire(wire)

    assert (prompt.is_delta, prompt.note) == (False, "")


def test_a_boundary_without_a_response_to_go_on_from_sends_everything() -> None:
    ir = simple(continuation=Continuation(None, "conversation"))
    request = ir.to_request(wire="openai-responses", model="m")

    assert texts(request.messages) == texts(ir.body_chat())
    assert "previous_response_id" not in request.extra


def test_on_anthropic_the_remainder_joins_the_system_text() -> None:
    """Behind the blocks too, where the reference loses it; the marker stays where it was."""
    ir = simple(cache=PromptCachePlan(cache_system=True))
    blocks = [PromptBlock("a", "A", kind="base"), PromptBlock("b", "B", kind="base")]

    marker = {"type": "ephemeral"}
    assert ir.for_wire(ANTHROPIC).anthropic_system() == [
        {"type": "text", "text": "SYSTEM\n\nREMAINDER", "cache_control": marker}
    ]
    assert replace(ir, system_blocks=tuple(blocks)).for_wire(ANTHROPIC).anthropic_system() == [
        {"type": "text", "text": "A"},
        {"type": "text", "text": "B", "cache_control": marker},
        {"type": "text", "text": "REMAINDER"},
    ]
    assert texts(ir.for_wire(ANTHROPIC).messages) == ["PREFIX", "DYNAMIC", "question", "VOLATILE"]


def test_blank_blocks_do_not_hide_the_system_text() -> None:
    """The reference sends the remainder alone."""
    ir = replace(simple(), system_blocks=(PromptBlock("b", " ", kind="base"),))

    assert ir.for_wire(ANTHROPIC).system_text == "SYSTEM\n\nREMAINDER"


def test_a_breakpoint_on_a_message_that_joined_the_system_text_stands_behind_that() -> None:
    blocks = [PromptBlock.cached_long("a", "A")]
    ir = simple(system_blocks=blocks, cache=PromptCachePlan(breakpoint_message_ids=("system_remainder",)))

    assert [(b.place, b.index, b.cache) for b in ir.for_wire(ANTHROPIC).breakpoints] == [
        (Place.SYSTEM, 0, CachePolicy.EPHEMERAL_1H),
        (Place.SYSTEM, 1, CachePolicy.EPHEMERAL_5M),
    ]


def test_the_plan_inside_is_obeyed() -> None:
    """It is the only one: another beside it is refused."""
    plan = PromptCachePlan(
        cache_tools=True, cache_system=True, breakpoint_message_ids=("stable_prefix",), ttl="1h"
    )
    ir = simple(cache=plan)

    assert ir.to_request(wire=ANTHROPIC, model="m", tools=[{"name": "f"}]).cache == plan
    with pytest.raises(InvalidRequest, match="cache"):
        ir.to_request(wire=ANTHROPIC, model="m", cache=plan)
    assert ir.to_request(wire="openai-chat", model="m", tools=[{"name": "f"}]).cache is None


def test_of_too_many_markers_the_last_are_kept() -> None:
    """The reference keeps tools and system, and so fewer messages."""
    ids = ("stable_prefix", "dynamic_context", "conversation", "volatile_tail")
    ir = simple(cache=PromptCachePlan(cache_tools=True, cache_system=True, breakpoint_message_ids=ids))
    prompt = ir.for_wire(ANTHROPIC, has_tools=True)

    assert [prompt.messages[b.index].id for b in prompt.breakpoints] == list(ids)
    assert [str(b) for b in prompt.dropped] == ["the tools", "block 'system text'"]


def test_a_message_with_nothing_in_it_takes_no_marker_from_others() -> None:
    """There is no block that it could stand on, and before it, the system text has one already."""
    turns = [PromptMessage("assistant", "", id=f"m{i}") for i in range(3)] + [
        PromptMessage("user", "q", id="q"),
        PromptMessage("assistant", "", id="call", tool_calls=[ToolCall(id="c", name="f")]),
        PromptMessage("tool", "", id="result", tool_call_id="c"),
    ]
    plan = PromptCachePlan(breakpoint_message_ids=tuple(str(turn.id) for turn in turns), cache_system=True)
    prompt = PromptIR("S", segments=[Segment("conversation", turns)], cache=plan).for_wire(ANTHROPIC)

    assert [b.index for b in prompt.breakpoints] == [0, 3, 4, 5]
    assert prompt.dropped == ()


@pytest.mark.parametrize("named", [["t1"], ["t2"], ["t1", "t2"]], ids=str)
def test_a_breakpoint_on_one_of_two_merged_results_stands_behind_that_one(named: list[str]) -> None:
    """The reference merges the names with the messages.

    There the first name marks the last block, and the second name nothing. Here a name means what was named:
    what follows it may still change.
    """
    calls = [ToolCall(id=name, name="read", arguments={}) for name in ("c1", "c2")]
    turns = [
        PromptMessage("user", "q"),
        PromptMessage("assistant", "", tool_calls=calls),
        PromptMessage("tool", "one", id="t1", tool_call_id="c1"),
        PromptMessage("tool", "two", id="t2", tool_call_id="c2"),
    ]
    plan = PromptCachePlan(breakpoint_message_ids=tuple(named))
    ir = PromptIR("S", segments=[Segment("conversation", turns)], cache=plan)
    body = WIRES[ANTHROPIC].lower(ir.to_request(wire=ANTHROPIC, model="m", max_tokens=5))

    results = body["messages"][-1]["content"]
    assert [block["content"] for block in results] == ["one", "two"], "both are one message on this wire"
    marked = [name for name, block in zip(("t1", "t2"), results, strict=True) if "cache_control" in block]
    assert marked == named


def test_a_breakpoint_that_no_message_has_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The history may have been cut since the plan was made."""
    ir = simple(cache=PromptCachePlan(breakpoint_message_ids=("conversation", "gone")))

    with caplog.at_level(logging.WARNING):
        ir.to_request(wire="openai-chat", model="m")
        assert caplog.text == ""  # where there are no breakpoints, none is missing
        request = ir.to_request(wire=ANTHROPIC, model="m")

    assert request.cache is not None
    assert request.cache.breakpoint_message_ids == ("conversation",)
    assert "gone" in caplog.text


def test_messages_with_one_name_are_all_marked() -> None:
    """And told apart in the request."""
    ir = PromptIR(segments=[talk("a", "a", "b")], cache=PromptCachePlan(breakpoint_message_ids=("a",)))
    request = ir.to_request(wire=ANTHROPIC, model="m")

    assert request.cache is not None
    assert request.cache.breakpoint_message_ids == tuple(m.id for m in request.messages[:2])
    assert len({message.id for message in request.messages}) == 3


def test_no_plan_is_the_empty_plan() -> None:
    assert PromptIR("S", cache=None) == PromptIR("S") == PromptIR("S", cache=PromptCachePlan())


def test_calls_may_be_written_flat_or_as_functions() -> None:
    flat = {"id": "c", "name": "f", "arguments": {"a": 1}}
    function = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    first = PromptMessage("assistant", None, tool_calls=[flat])
    second = PromptMessage.from_dict({"role": "assistant", "content": "", "tool_calls": [function]})

    assert first == second
    assert second.to_dict()["tool_calls"] == [flat]


def test_options_of_the_base_stay() -> None:
    base = {"store": True, "instructions": "old", "previous_response_id": "r0", "mine": 1}
    options = PromptIR("", continuation=Continuation(None, "a")).responses_request_options(base)

    assert (options["store"], options["mine"]) == (True, 1)
    assert options["instructions"] is None
    assert options["previous_response_id"] == "r0"
    assert base["instructions"] == "old"


@pytest.mark.parametrize(
    ("plain", "field"),
    [
        ({"system_text": None}, "system_text"),
        ({"system_blocks": [{"id": "a", "kind": "base"}]}, "system_blocks[0]"),
        ({"system_blocks": [5]}, "system_blocks[0]"),
        ({"segments": [{"role": "prefix", "messages": []}]}, "segments[0].role"),
        (
            {"segments": [{"role": "conversation", "messages": [{"role": "u", "content": ""}]}]},
            "segments[0].messages[0].role",
        ),
        ({"cache": {"ttl": "2h"}}, "cache.ttl"),
        ({"cache": {"cache_tool": True}}, "cache.cache_tool"),
        ({"cache": "all"}, "cache"),
        ({"continuation": "r"}, "continuation"),
        ({"continuation": {"previous_response_id": 5}}, "continuation.previous_response_id"),
        ({"text": ""}, "text"),
        ("", "ir"),
    ],
    ids=str,
)
def test_what_is_no_ir_is_refused(plain: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        PromptIR.from_dict(plain)

    assert caught.value.field == field


def test_every_field_of_a_plan_survives_its_plain_form() -> None:
    plan = PromptCachePlan(
        cache_tools=True,
        cache_system=True,
        breakpoint_message_ids=("a",),
        ttl="1h",
        tail_ttl="5m",
        system_cuts=((3, "1h"), (8, "none")),
        marks=(CacheMark("message", 2, "1h", 1), CacheMark("prompt")),
        labels=("policy", ""),
        key="team-a",
        retention="24h",
        mode="explicit",
        kept_messages=2,
    )

    assert plan_from_dict(json.loads(json.dumps(plan_to_dict(plan)))) == plan
    assert all(getattr(plan, field.name) != field.default for field in fields(PromptCachePlan))
