"""Rendered contexts and their fingerprints; against deepstrike-core 0.2.36."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cortex_replay import InvalidRequest, LlmMessage, LlmRequest, PromptCachePlan, blake3_hex
from cortex_replay.prompt import (
    CachePolicy,
    Place,
    PrefixFingerprint,
    PromptBlock,
    PromptIR,
    PromptMessage,
    RenderedContext,
    Segment,
    to_request,
)
from cortex_replay.wire import WIRES
from tests.golden import read_vectors

ROWS = read_vectors("rendered_context.jsonl")
DIRECT = [row for row in ROWS if row["kind"] == "direct"]
PAIRS = [row for row in ROWS if row["kind"] == "pair"]
RENDERED = [row for row in ROWS if row["kind"] == "render"]
ANTHROPIC = "anthropic-messages"
OTHERS = ["openai-chat", "openai-responses", "ollama-chat"]


def hashes(fingerprint: Any, context: Any) -> PrefixFingerprint:
    """What the reference hashed, with our hash."""
    return PrefixFingerprint(
        blake3_hex(context["system_stable"].encode()),
        blake3_hex(context["system_knowledge"].encode()),
        tuple(blake3_hex(material.encode()) for material in fingerprint["turn_material"]),
    )


def talk(*roles: str, **fields: Any) -> RenderedContext:
    turns = [{"role": role, "content": f"{role} {i}"} for i, role in enumerate(roles)]
    return RenderedContext("S", "K", turns, **fields)


def marked(context: RenderedContext, **options: Any) -> list[str]:
    """What a marker stands behind."""
    prompt = context.for_wire(ANTHROPIC, **options)
    return [
        prompt.messages[b.index].content if b.place is Place.MESSAGES else b.name for b in prompt.breakpoints
    ]


@pytest.mark.parametrize("row", DIRECT, ids=lambda row: row["name"])
def test_a_fingerprint_covers_what_the_reference_covers(row: Any) -> None:
    context = RenderedContext.from_dict(row["context"])

    assert context.prefix_fingerprint() == hashes(row["fingerprint"], row["context"])
    assert [turn.turn_bytes().decode() for turn in context.turns] == row["fingerprint"]["turn_material"]


@pytest.mark.parametrize("row", RENDERED, ids=lambda row: row["name"])
def test_what_an_agent_rendered_has_the_same_fingerprint(row: Any) -> None:
    """How it is rendered is not ours, but what comes of it is."""
    context = RenderedContext.from_dict(row["output"])

    assert context.prefix_fingerprint() == hashes(row["fingerprint"], row["output"])
    assert context.to_dict() == row["output"]


@pytest.mark.parametrize("row", PAIRS, ids=lambda row: row["name"])
def test_two_fingerprints_compare_as_in_the_reference(row: Any) -> None:
    previous = RenderedContext.from_dict(row["prev"]).prefix_fingerprint()
    current = RenderedContext.from_dict(row["cur"]).prefix_fingerprint()

    assert current.extends(previous) is row["cur_extends_prev"]
    assert current.common_turn_prefix(previous) == row["common_turn_prefix"]
    assert previous == hashes(row["prev_fingerprint"], row["prev"])
    assert current == hashes(row["cur_fingerprint"], row["cur"])


@pytest.mark.parametrize("row", DIRECT, ids=lambda row: row["name"])
def test_a_context_is_written_as_the_reference_writes_it(row: Any) -> None:
    """To the byte, but for a ``system_text`` that is not that of its parts."""
    written = RenderedContext.from_dict(row["context"]).to_dict()
    expected = json.loads(row["reserialized"])
    if row["name"] == "system_text_not_hashed":
        expected["system_text"] = "s\n\nk"

    assert json.dumps(written, ensure_ascii=False) == json.dumps(expected, ensure_ascii=False)


def test_the_system_text_is_derived() -> None:
    """One that is given is not looked at, unless it is all there is."""
    assert RenderedContext.from_dict({"system_text": "x", "system_stable": "s"}).system_text == "s"
    assert RenderedContext.from_dict({"system_text": "x", "system_stable": ""}).system_text == ""
    old = RenderedContext.from_dict({"system_text": "x", "turns": []})
    assert (old.system_stable, old.system_knowledge) == ("x", "")


def test_the_state_takes_no_part_in_the_fingerprint() -> None:
    plain = talk("user", "assistant")
    stated = talk("user", "assistant", state_turn={"role": "user", "content": "now"}, frozen_prefix_len=1)

    assert stated.prefix_fingerprint() == plain.prefix_fingerprint()


def test_names_and_counts_take_no_part_in_the_fingerprint() -> None:
    """Nothing that is not sent does."""
    plain = RenderedContext("", "", [{"role": "user", "content": "a"}])
    named = RenderedContext("", "", [{"role": "user", "content": "a", "id": "u1", "token_count": 5}])

    assert named.prefix_fingerprint() == plain.prefix_fingerprint()


def test_a_text_that_answers_a_call_is_hashed_as_the_result_that_it_is() -> None:
    """So that another call id is another turn."""
    text = {"role": "tool", "content": "42", "tool_call_id": "c1"}
    part = {"role": "tool", "content": [{"type": "tool_result", "call_id": "c1", "output": "42"}]}
    other = text | {"tool_call_id": "c2"}
    first, second, third = RenderedContext("", "", [text, part, other]).prefix_fingerprint().turn_hashes

    assert first == second != third


def test_a_single_text_part_is_not_a_text() -> None:
    """As in the reference: another turn, whatever a provider makes of it."""
    turns: Any = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
    ]
    first, second = RenderedContext("", "", turns).prefix_fingerprint().turn_hashes

    assert first != second


def test_anthropic_gets_two_system_blocks_with_a_marker_each() -> None:
    marker = {"cache_control": {"type": "ephemeral"}}

    assert talk("user").for_wire(ANTHROPIC).anthropic_system() == [
        {"type": "text", "text": "S"} | marker,
        {"type": "text", "text": "K"} | marker,
    ]
    assert RenderedContext("", "K", []).for_wire(ANTHROPIC).anthropic_system() == [
        {"type": "text", "text": "K"} | marker
    ]
    assert RenderedContext("", "", []).for_wire(ANTHROPIC).breakpoints == ()


SYSTEM = ["block 'system_stable'", "block 'system_knowledge'"]


@pytest.mark.parametrize(
    ("roles", "frozen", "expected"),
    [
        (["user", "assistant", "user", "assistant", "user"], 2, ["assistant 1", "user 4"]),
        (["user", "assistant", "user"], 1, ["user 0", "user 2"]),
        (["user", "assistant", "user"], 3, ["user 2"]),
        (["user", "assistant", "user"], 99, ["user 2"]),  # clamped
        (["user", "assistant", "user"], 0, ["user 0", "user 2"]),  # nothing is frozen
        (["user", "assistant", "user"], None, ["user 0", "user 2"]),
        (["user", "assistant", "user", "assistant"], None, ["user 2", "assistant 3"]),
        (["user", "assistant", "tool", "assistant", "tool"], None, ["tool 2", "tool 4"]),
        (["user", "assistant", "tool", "tool"], None, ["user 0", "tool 3"]),
        (["user", "assistant", "tool", "user"], None, ["user 0", "user 3"]),
        (["user", "user"], None, ["user 0", "user 1"]),
        (["assistant", "user"], None, ["user 1"]),
        (["user"], None, ["user 0"]),
        ([], None, []),
        ([], 3, []),
    ],
    ids=str,
)
def test_one_marker_is_pinned_and_one_rolls(
    roles: list[str], frozen: int | None, expected: list[str]
) -> None:
    """Without a frozen prefix, the second stands where the previous call ended.

    Tool results and what follows them are one message on this wire, so they are no previous call.
    """
    assert marked(talk(*roles, frozen_prefix_len=frozen)) == SYSTEM + expected


@pytest.mark.parametrize(
    ("texts", "frozen", "expected"),
    [
        (["a", "", "c", "d", "e"], 2, ["a", "e"]),
        (["a", "b", "", "", "e"], 4, ["b", "e"]),
        (["a", "b", "c", ""], 2, ["b", "c"]),  # the tail is empty, too
        (["", "", "c"], 2, ["c"]),  # behind the system text, where a marker is already
    ],
    ids=str,
)
def test_a_boundary_on_an_empty_turn_moves_to_what_can_carry_it(
    texts: list[str], frozen: int, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """An assistant that says nothing leaves no block; everything before it is cached all the same."""
    turns = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
    context = RenderedContext("S", "K", turns, frozen_prefix_len=frozen)

    assert marked(context) == SYSTEM + expected
    request = context.to_request(wire=ANTHROPIC, model="m", max_tokens=5)
    assert ("could carry a cache breakpoint; it stands behind turn" in caplog.text) is bool(texts[0])
    body = WIRES[ANTHROPIC].lower(request)
    carried = [block["text"] for m in body["messages"] for block in m["content"] if isinstance(block, dict)]
    assert carried == expected


def test_a_plan_of_a_request_moves_in_the_same_way(caplog: pytest.LogCaptureFixture) -> None:
    messages = [LlmMessage("user", "a"), LlmMessage("assistant", "", id="e"), LlmMessage("user", "c")]
    plan = PromptCachePlan(breakpoint_message_ids=("e",))
    body = WIRES[ANTHROPIC].lower(LlmRequest("m", "S", messages, max_tokens=5, cache=plan))

    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    ]
    assert "turn 2 (assistant, id 'e') has nothing that could carry" in caplog.text


def test_the_state_follows_the_history_on_anthropic_and_its_markers() -> None:
    context = talk("user", "assistant", state_turn={"role": "user", "content": "now"})
    prompt = context.for_wire(ANTHROPIC)

    assert [message.content for message in prompt.messages] == ["user 0", "assistant 1", "now"]
    assert marked(context) == [*SYSTEM, "user 0", "assistant 1"]


@pytest.mark.parametrize("wire", OTHERS)
def test_the_state_stands_before_the_history_elsewhere(wire: str) -> None:
    prompt = talk("user", "assistant", state_turn={"role": "user", "content": "now"}).for_wire(wire)

    assert prompt.system_text == "S\n\nK"
    assert [message.content for message in prompt.messages] == ["now", "user 0", "assistant 1"]
    assert prompt.breakpoints == ()


@pytest.mark.parametrize("wire", [ANTHROPIC, *OTHERS])
def test_the_older_shape_with_the_state_in_its_first_turn_works(wire: str) -> None:
    old = RenderedContext.from_dict(
        {
            "system_text": "S",
            "turns": [{"role": "user", "content": "[TASK STATE]"}, {"role": "assistant", "content": "a"}],
        }
    )
    request = old.to_request(wire=wire, model="m", max_tokens=5)

    assert [message.content for message in request.messages] == ["[TASK STATE]", "a"]
    assert WIRES[wire].lift(WIRES[wire].lower(request)) == request


def test_tools_that_are_cached_too_make_one_marker_too_many() -> None:
    """The tools lose: everything else caches more."""
    plan = PromptCachePlan(cache_tools=True)
    context = talk("user", "assistant", "user")

    assert marked(context, has_tools=True, cache=plan) == [*SYSTEM, "user 0", "user 2"]
    assert marked(talk("user"), has_tools=True, cache=plan) == ["the tools", *SYSTEM, "user 0"]
    assert marked(talk("user"), has_tools=False, cache=plan) == [*SYSTEM, "user 0"]


def test_a_plan_gives_its_time_to_every_marker_and_may_name_turns() -> None:
    turns = [{"role": "user", "content": c, "id": c} for c in "abc"]
    plan = PromptCachePlan(breakpoint_message_ids=("a",), ttl="1h")
    prompt = RenderedContext("S", "", turns).for_wire(ANTHROPIC, cache=plan)

    assert {b.cache for b in prompt.breakpoints} == {CachePolicy.EPHEMERAL_1H}
    assert [prompt.messages[b.index].id for b in prompt.breakpoints[1:]] == ["a", "b", "c"]


TIMES = PromptCachePlan(cache_tools=True, cache_system=True, ttl="1h", tail_ttl="5m")


def sent_times(request: LlmRequest) -> dict[str, str]:
    """The times on Anthropic's wire, by what they stand on."""
    body = WIRES[ANTHROPIC].lower(request)
    blocks = [*body.get("tools", []), *body["system"]]
    blocks += [block for message in body["messages"] for block in message["content"]]
    return {
        block.get("text") or block["name"]: block["cache_control"].get("ttl", "5m")
        for block in blocks
        if isinstance(block, dict) and "cache_control" in block
    }


def test_an_hour_for_what_is_frozen_and_five_minutes_for_the_tail() -> None:
    context = talk("user", "assistant", "user", "assistant", "user", frozen_prefix_len=2)
    request = context.to_request(wire=ANTHROPIC, model="m", max_tokens=5, cache=TIMES)

    assert sent_times(request) == {"S": "1h", "K": "1h", "assistant 1": "1h", "user 4": "5m"}


def test_the_tools_stand_before_what_is_frozen_for_an_hour() -> None:
    """Anthropic refuses an hour behind five minutes, so theirs is an hour, too."""
    turns = [{"role": role, "content": role} for role in ("user", "assistant")]
    context = RenderedContext("", "", turns, frozen_prefix_len=1)
    fields: Any = {"max_tokens": 5, "tools": [{"name": "T"}], "cache": TIMES}
    body = WIRES[ANTHROPIC].lower(context.to_request(wire=ANTHROPIC, model="m", **fields))

    times = [
        block["cache_control"].get("ttl") for block in [body["tools"][0], *body["messages"][0]["content"]]
    ]
    assert times == ["1h", "1h"]
    assert body["messages"][1]["content"][0]["cache_control"] == {"type": "ephemeral"}


def test_what_is_not_frozen_is_all_tail() -> None:
    """The previous call wrote its last turn for five minutes; it is found there, and not written again."""
    request = talk("user", "assistant", "user").to_request(
        wire=ANTHROPIC, model="m", max_tokens=5, cache=TIMES
    )

    assert sent_times(request) == {"S": "1h", "K": "1h", "user 0": "5m", "user 2": "5m"}


def test_blocks_and_the_ir_say_it_in_the_same_way() -> None:
    plan = replace(TIMES, breakpoint_message_ids=("p", "u"))
    turns = [PromptMessage("user", "P", id="p"), PromptMessage("user", "U", id="u")]
    fields: Any = {"wire": ANTHROPIC, "model": "m", "max_tokens": 5, "tools": [{"name": "T"}]}
    ir = PromptIR(
        "S", segments=[Segment("stable_prefix", turns[:1]), Segment("conversation", turns[1:])], cache=plan
    )
    beside_blocks = to_request([PromptBlock.plain("s", "S")], messages=turns, cache=plan, **fields)
    tools = {"T": "1h", "S": "1h"}

    assert sent_times(ir.to_request(**fields)) == {**tools, "P": "1h", "U": "5m"}
    assert sent_times(beside_blocks) == {**tools, "P": "5m", "U": "5m"}
    plain = LlmRequest("m", "S", [turns[1].to_llm_messages()[0]], max_tokens=5, tools=[{"name": "T"}])
    own = replace(plan, breakpoint_message_ids=("u",))
    assert sent_times(replace(plain, cache=own)) == {**tools, "U": "5m"}


def test_an_hour_in_the_tail_behind_five_minutes_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    plan = PromptCachePlan(tail_ttl="1h")
    talk("user").to_request(wire=ANTHROPIC, model="m", max_tokens=5, cache=plan)

    assert "refuses an hour behind five minutes: block 'system_knowledge', turn 1 (user)" in caplog.text


def test_a_time_that_a_provider_does_not_have_is_refused() -> None:
    bad: Any = "2h"
    with pytest.raises(InvalidRequest, match="tail_ttl"):
        PromptCachePlan(tail_ttl=bad)


def test_a_turn_of_several_results_is_marked_behind_the_last() -> None:
    results = [{"type": "tool_result", "call_id": c, "output": c} for c in "xy"]
    prompt = RenderedContext("", "", [{"role": "tool", "content": results}]).for_wire(ANTHROPIC)

    assert [(message.tool_call_id, message.id) for message in prompt.messages] == [
        ("x", None),
        ("y", "turn-2"),
    ]
    assert [b.index for b in prompt.breakpoints] == [1]


def test_a_marked_turn_gets_a_name_that_no_other_has() -> None:
    """A plan in a request points by name."""
    turns = [
        {"role": "user", "content": "0", "id": "same"},
        {"role": "assistant", "content": "1", "id": "turn-3"},
        {"role": "user", "content": "2"},
        {"role": "assistant", "content": "3", "id": "same"},
        {"role": "user", "content": "4", "id": "mine"},
    ]
    request = RenderedContext("", "", turns).to_request(wire=ANTHROPIC, model="m")

    assert request.cache is not None
    names = [message.id for message in request.messages]
    assert names == ["same", "turn-3", "turn-3'", "same", "mine"]
    assert request.cache.breakpoint_message_ids == ("turn-3'", "mine")


def test_the_real_wire_gets_its_markers() -> None:
    context = talk("user", "assistant", "user", state_turn={"role": "user", "content": "now"})
    body = WIRES[ANTHROPIC].lower(context.to_request(wire=ANTHROPIC, model="m", max_tokens=5))

    marker = {"type": "ephemeral"}
    assert [message["content"] for message in body["messages"]] == [
        [{"type": "text", "text": "user 0", "cache_control": marker}],
        "assistant 1",
        [{"type": "text", "text": "user 2", "cache_control": marker}],
        "now",
    ]


@pytest.mark.parametrize(
    ("plain", "field"),
    [
        ({"turns": [{"role": "robot", "content": "a"}]}, "turns[0].role"),
        ({"turns": [{"role": "user"}]}, "turns[0]"),
        ({"turns": [{"role": "user", "content": ["a"]}]}, "turns[0].content[0]"),
        ({"turns": [{"role": "user", "content": [{"text": "a"}]}]}, "turns[0].content[0].type"),
        (
            {"turns": [{"role": "tool", "content": [{"type": "tool_result", "output": "a"}]}]},
            "turns[0].content[0].call_id",
        ),
        ({"turns": "text"}, "turns"),
        ({"state_turn": {"role": "user", "content": 5}}, "state_turn.content"),
        ({"state_turn": "now"}, "state_turn"),
        ({"frozen_prefix_len": -1}, "frozen_prefix_len"),
        ({"frozen_prefix_len": True}, "frozen_prefix_len"),
        ({"system_stable": None, "system_knowledge": ""}, "system_stable"),
        ({"sytem_stable": ""}, "sytem_stable"),
        ([], "context"),
    ],
    ids=str,
)
def test_what_is_no_context_is_refused(plain: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        RenderedContext.from_dict(plain)

    assert caught.value.field == field


def test_a_context_does_not_change_with_what_it_was_made_from() -> None:
    part: dict[str, Any] = {"type": "text", "text": "a"}
    turns = [{"role": "user", "content": [part]}]
    context = RenderedContext("", "", turns)
    before = context.prefix_fingerprint()
    part["text"] = "b"
    turns.clear()

    assert context.prefix_fingerprint() == before


def test_what_the_prompt_gives_is_not_given_again() -> None:
    for name in ("system", "messages"):
        given: Any = {name: "x"}
        with pytest.raises(InvalidRequest, match=name):
            talk("user").to_request(wire=ANTHROPIC, model="m", **given)
    with pytest.raises(InvalidRequest, match="wire"):
        talk("user").to_request(wire="anthropic", model="m")


def test_the_fields_of_a_request_go_through() -> None:
    request = talk("user").to_request(
        wire="openai-chat", model="m", temperature=0.5, tools=[{"name": "f"}], extra={"thinking": True}
    )

    assert request == LlmRequest(
        "m", "S\n\nK", "user 0", 0.5, tools=[{"name": "f"}], extra={"thinking": True}
    )
