"""The assertion that a prompt's cacheable prefix only grew, and its message."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from cortex_replay import LlmMessage, LlmRequest
from cortex_replay.prompt import (
    MEDIA_TOKENS,
    PrefixChanged,
    PromptBlock,
    PromptCachePlan,
    PromptIR,
    PromptMessage,
    RenderedContext,
    Segment,
    assert_prefix_stable,
    estimate_tokens,
    parts_of,
    to_request,
)

POLICY = PromptBlock.cached_long("policy", "Refunds take five days.\nBe kind.")
STYLE = PromptBlock.cached_short("style", "Be brief.")
TODAY = PromptBlock.plain("today", "It is Monday.")


def broken(previous: Any, current: Any) -> PrefixChanged:
    with pytest.raises(PrefixChanged) as caught:
        assert_prefix_stable(previous, current)
    return caught.value


def context(*texts: str, **fields: Any) -> RenderedContext:
    turns = [PromptMessage(("user", "assistant")[i % 2], text) for i, text in enumerate(texts)]
    return RenderedContext(**{"system_stable": "S" * 8, "system_knowledge": "K" * 8, "turns": turns} | fields)


def request(*texts: str, **fields: Any) -> LlmRequest:
    messages = [
        LlmMessage(("user", "assistant")[i % 2], text, id=f"m{i + 1}") for i, text in enumerate(texts)
    ]
    return LlmRequest(**{"model": "m", "system": "S" * 8, "messages": messages} | fields)


@pytest.mark.parametrize(
    ("previous", "current"),
    [
        ([POLICY, STYLE, TODAY], [POLICY, STYLE, PromptBlock.plain("today", "It is Tuesday.")]),
        ([POLICY, STYLE], [POLICY, STYLE, PromptBlock.cached_short("more", "Use tables.")]),
        ([POLICY], [PromptBlock.cached_long("renamed", POLICY.text)]),  # labels are not sent
        ([POLICY], [PromptBlock.cached_long("empty", ""), POLICY]),
        ([], [POLICY]),
        (context("a"), context("a", "b", "c")),
        (context("a", state_turn=PromptMessage("user", "now")), context("a")),
        (context(), context("a")),
        (request("a"), request("a", "b", "c")),
        (
            request("a", "b", cache=PromptCachePlan(cache_system=True)),
            request("x", cache=PromptCachePlan(cache_system=True)),
        ),
    ],
    ids=str,
)
def test_a_prefix_that_only_grew_passes(previous: Any, current: Any) -> None:
    assert_prefix_stable(previous, current)
    assert_prefix_stable(previous, previous)


def test_a_time_in_a_stable_block_is_shown_with_what_it_costs() -> None:
    """The message alone is enough to mend it."""

    def build(now: str) -> list[PromptBlock]:
        return [PromptBlock.cached_long("policy", f"Be kind.\nIt is {now}.\nBe brief."), STYLE, TODAY]

    error = broken(build("2026-03-01T09:15:02Z"), build("2026-03-01T09:15:07Z"))

    assert str(error) == (
        "the cacheable prefix changed: block 'policy' is not what it was\n"
        "About 15 tokens that were cached would be paid again.\n"
        "\n"
        "--- previous: block 'policy'\n"
        "+++ current: block 'policy'\n"
        "@@\n"
        " Be kind.\n"
        "-It is 2026-03-01T09:15:02Z.\n"
        "+It is 2026-03-01T09:15:07Z.\n"
        " Be brief.\n"
        "\n"
        "What changed looks like a time. Put what changes from call to call behind the last cached block, "
        "into a `PromptBlock.plain`."
    )
    assert isinstance(error, AssertionError)
    assert (error.part, error.tokens) == ("block 'policy'", 15)


@pytest.mark.parametrize(
    ("current", "change"),
    [
        ([STYLE, POLICY, TODAY], "block 'style' stands where block 'policy' was"),
        ([PromptBlock.plain("new", "Hello."), POLICY, STYLE], "block 'new' stands where block 'policy' was"),
        ([POLICY, TODAY], "block 'style' is gone"),
        ([POLICY], "block 'style' is gone"),
        ([POLICY, PromptBlock.cached_short("tone", "Joke.")], "block 'style' was replaced by block 'tone'"),
        ([POLICY, replace(STYLE, text="Be brief!")], "block 'style' is not what it was"),
        (
            [POLICY, PromptBlock.plain("style", STYLE.text), TODAY],
            "block 'style' is as it was, but no breakpoint stands behind it any more",
        ),
    ],
    ids=str,
)
def test_the_message_says_what_happened_to_a_block(current: list[PromptBlock], change: str) -> None:
    error = broken([POLICY, STYLE, TODAY], current)

    assert error.change == change
    assert change in str(error)


def test_an_order_that_changed_is_not_mistaken_for_a_text_that_did() -> None:
    error = broken([POLICY, STYLE], [STYLE, POLICY])

    assert "Keep what is cached in the order in which it was" in str(error)
    assert "call to call" not in str(error)


def test_words_that_come_again_are_not_mistaken_for_a_turn_that_moved() -> None:
    error = broken(context("yes", "ok", "yes"), context("no", "ok", "yes"))

    assert error.change == "turn 1 (user) is not what it was"


def test_blocks_without_a_policy_are_all_prefix() -> None:
    """An assertion that could never fail would be worth nothing, and some providers cache unasked."""
    plain = [PromptBlock.plain("a", "A"), PromptBlock.plain("b", "B")]

    assert broken(plain, [plain[0], PromptBlock.plain("b", "C")]).part == "block 'b'"


def test_a_context_names_the_part_or_the_turn() -> None:
    before = context("a", "b", "c")

    assert broken(before, replace(before, system_stable="T" * 8)).part == "system_stable"
    assert broken(before, replace(before, system_knowledge="")).part == "system_knowledge"
    assert broken(before, context("a", "x", "c")).part == "turn 2 (assistant)"
    assert broken(before, context("a", "b")).change == "turn 3 (user) is gone"
    assert "`state_turn`" in str(broken(before, context("a", "x", "c")))


def test_only_frozen_turns_have_to_stay_as_they_are() -> None:
    """What stands behind them is hot: an agent may still shorten it."""
    frozen = context("a", "b", "hot", frozen_prefix_len=2)

    assert_prefix_stable(frozen, context("a", "b", "shorter", "d", frozen_prefix_len=2))
    assert_prefix_stable(frozen, context("a", "b", frozen_prefix_len=2))
    assert_prefix_stable(frozen, context("a", "b", "c", "d"))
    error = broken(frozen, context("a", "B", "hot", frozen_prefix_len=2))
    assert error.part == "turn 2 (assistant)"
    assert error.tokens == 1, "the hot turn was not promised"
    assert broken(frozen, context("a", frozen_prefix_len=1)).change == "turn 2 (assistant) is gone"


@pytest.mark.parametrize("nothing", [None, 0])
def test_without_frozen_turns_every_turn_has_to_stay(nothing: int | None) -> None:
    previous = context("a", "b", frozen_prefix_len=nothing)

    assert broken(previous, context("a", "B", frozen_prefix_len=1)).part == "turn 2 (assistant)"
    assert_prefix_stable(previous, context("a", "b", "c", frozen_prefix_len=1))


def test_more_frozen_turns_than_there_are_is_all_of_them() -> None:
    assert (
        broken(context("a", frozen_prefix_len=9), context("b", frozen_prefix_len=9)).part == "turn 1 (user)"
    )


def grown(count: int, **fields: Any) -> RenderedContext:
    return context(*(f"turn {i}" for i in range(1, count + 1)), **fields)


@pytest.mark.parametrize(("count", "is_found"), [(21, True), (22, False), (61, False)])
def test_a_prefix_is_found_only_as_far_as_anthropic_looks_back(count: int, is_found: bool) -> None:
    """Twenty blocks with that of the breakpoint. The nearest of a context stands before its last turns."""
    if is_found:
        assert_prefix_stable(grown(1), grown(count))
        return
    error = broken(grown(1), grown(count))

    assert error.part == "turn 1 (user)"
    assert error.tokens == estimate_tokens("turn 1"), "the system parts have breakpoints of their own"
    assert "too many blocks stand between it and the next breakpoint" in str(error)
    assert "Put one in between, at most every 20 blocks" in str(error)


def test_a_breakpoint_in_between_is_enough() -> None:
    """In a request, one that a plan names; in a context, what is frozen has one."""
    texts = [f"turn {i}" for i in range(61)]

    def asked(count: int, *marked: str) -> LlmRequest:
        return request(*texts[:count], cache=PromptCachePlan(breakpoint_message_ids=marked))

    assert "turn 1" in broken(asked(1, "m1"), asked(61, "m61")).part
    assert_prefix_stable(asked(1, "m1"), asked(61, "m20", "m61"))
    assert "turn 1" in broken(asked(1, "m1"), asked(61, "m21", "m61")).part
    assert_prefix_stable(grown(3, frozen_prefix_len=2), grown(61, frozen_prefix_len=2))


@pytest.mark.parametrize(
    "other",
    [
        {"tool_choice": "required"},
        {"extra": {"thinking": {"type": "enabled", "budget_tokens": 2000}}},
        {"json_schema": {"type": "object"}},
    ],
    ids=str,
)
def test_settings_that_split_the_cache_break_what_was_cached_of_the_messages(other: Any) -> None:
    in_messages = PromptCachePlan(breakpoint_message_ids=("m1",))
    error = broken(request("a", cache=in_messages), request("a", "b", cache=in_messages, **other))

    assert error.change == "turn 1 (user, id 'm1') is as it was, but other settings have a cache of their own"
    assert "Keep them from call to call." in str(error)
    assert_prefix_stable(request("a", cache=in_messages), request("a", cache=in_messages, temperature=0.5))


def test_the_choice_of_tools_leaves_the_system_text_cached() -> None:
    plan = PromptCachePlan(cache_system=True)

    assert_prefix_stable(request("a", cache=plan), request("a", cache=plan, tool_choice="required"))


def test_a_provider_that_caches_by_itself_does_not_look_back() -> None:
    assert_prefix_stable(request("a"), request("a", *map(str, range(60))))


def test_calls_and_results_of_tools_in_a_row_are_one_step_back() -> None:
    """So a turn with thirty calls does not break the prefix."""
    calls = [{"id": f"c{i}", "name": "f", "arguments": {}} for i in range(30)]
    results = [{"type": "tool_result", "call_id": f"c{i}", "output": str(i)} for i in range(30)]
    turns = [
        PromptMessage("user", "q"),
        PromptMessage("assistant", "", tool_calls=calls),
        PromptMessage("tool", results),
        PromptMessage("assistant", "done"),
        PromptMessage("user", "next"),
    ]

    assert_prefix_stable(context(turns=turns[:1]), context(turns=turns))


def test_the_state_in_the_first_turn_breaks_the_prefix_each_time() -> None:
    """Which is why there is a state turn."""
    error = broken(context("[TASK STATE] step 1", "a"), context("[TASK STATE] step 2", "a"))

    assert error.part == "turn 1 (user)"


def test_the_cost_is_what_was_cached_from_the_change_on() -> None:
    before = context("12345678", "1234", "123456789")

    assert broken(before, context("12345678", "1234", "x")).tokens == 3
    assert broken(before, context("12345678", "x", "123456789")).tokens == 1 + 3
    assert broken(before, replace(before, system_stable="x")).tokens == 2 + 2 + 2 + 1 + 3


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("漢字", 2)])
def test_a_token_is_four_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_a_picture_counts_as_a_picture_and_not_as_its_base64() -> None:
    picture = {"type": "image", "media_type": "image/png", "data": "QUJD" * 10_000}
    (*_, turn) = parts_of(RenderedContext("", "", [PromptMessage("user", [picture])])).parts

    assert MEDIA_TOKENS < turn.tokens < MEDIA_TOKENS + 100
    assert "QUJD" not in turn.text


def test_the_same_words_in_another_role_are_another_turn() -> None:
    error = broken(
        RenderedContext("", "", [PromptMessage("user", "a")]),
        RenderedContext("", "", [PromptMessage("assistant", "a")]),
    )

    assert error.change == "turn 1 (user) was replaced by turn 1 (assistant)"
    assert '-["user","a",[]]' in error.diff


def ir(*, dynamic: str = "D", remainder: str = "R", talk: str = "q", **fields: Any) -> PromptIR:
    segments = [
        Segment("stable_prefix", [PromptMessage("user", "P", id="p")]),
        Segment("dynamic_context", [PromptMessage("user", dynamic, id="d")]),
        Segment("system_remainder", [PromptMessage("system", remainder, id="r")]),
        Segment("conversation", [PromptMessage("user", talk, id="u")]),
        Segment("volatile_tail", [PromptMessage("user", "V", id="v")]),
    ]
    return PromptIR(**{"system_text": "SYS", "segments": segments} | fields)


def test_an_ir_without_a_plan_promises_its_system_text_and_its_stable_prefix() -> None:
    changed = [Segment("stable_prefix", [PromptMessage("user", "P!", id="p")])]

    assert_prefix_stable(ir(), ir(dynamic="E", remainder="S", talk="r"))
    assert broken(ir(), ir(segments=changed)).part == "stable_prefix turn 1 (user, id 'p')"
    assert broken(ir(), ir(system_text="SYS!")).part == "system text"


def test_an_ir_with_a_plan_promises_everything_before_its_last_breakpoint() -> None:
    """In the order of the wire that has breakpoints: the remainder is system text there."""
    plan = PromptCachePlan(cache_system=True, breakpoint_message_ids=("u",))
    before = ir(cache=plan)

    assert_prefix_stable(before, before)
    assert broken(before, ir(dynamic="E", cache=plan)).part == "dynamic_context turn 1 (user, id 'd')"
    assert broken(before, ir(remainder="S", cache=plan)).part == "system_remainder turn 1 (system, id 'r')"
    system_only = PromptCachePlan(cache_system=True)
    assert_prefix_stable(ir(cache=system_only), ir(dynamic="E", talk="r", cache=system_only))
    assert broken(ir(cache=system_only), ir(remainder="S", cache=system_only)).part.startswith("system_rem")


def test_the_blocks_of_an_ir_are_named() -> None:
    blocks = [PromptBlock("base", "B", kind="base"), PromptBlock("skills", "S", kind="skill_context")]
    plan = PromptCachePlan(cache_system=True)
    before = ir(system_blocks=blocks, cache=plan)

    assert_prefix_stable(before, ir(system_blocks=blocks, cache=plan, remainder="S"))
    error = broken(before, ir(system_blocks=[blocks[0], replace(blocks[1], text="T")], cache=plan))
    assert error.part == "block 'skills'"
    own = [PromptBlock.cached_short("base", "B"), PromptBlock.plain("skills", "S")]
    assert_prefix_stable(ir(system_blocks=own), ir(system_blocks=[own[0], replace(own[1], text="T")]))


TOOL = {"name": "search", "description": "Finds.", "input_schema": {"type": "object"}}
OTHER = {"name": "send", "description": "Sends.", "input_schema": {"type": "object"}}


def test_a_request_names_the_tool() -> None:
    before = request("a", tools=[TOOL, OTHER])

    assert (
        broken(before, request("a", tools=[TOOL, {**OTHER, "description": "Posts."}])).part == "tool 'send'"
    )
    moved = broken(before, request("a", tools=[OTHER, TOOL]))
    assert moved.change == "tool 'send' stands where tool 'search' was"
    assert broken(before, request("a", tools=[TOOL])).change == "tool 'send' is gone"
    assert broken(before, request("a", tools=[TOOL, OTHER, {"name": "x"}])).part == "tool 'x'"


def test_the_order_of_a_tool_s_fields_is_part_of_the_prefix() -> None:
    """The key does not care, but the provider's cache does."""
    turned = dict(reversed(TOOL.items()))
    before, after = request("a", tools=[TOOL]), request("a", tools=[turned])

    assert before.prompt_hash() == after.prompt_hash()
    error = broken(before, after)
    assert error.part == "tool 'search'"
    assert error.diff


def test_a_request_without_a_plan_is_all_prefix() -> None:
    """As providers see it that cache by themselves."""
    assert broken(request("a", "b"), request("a", "x")).part == "turn 2 (assistant, id 'm2')"
    assert broken(request("a"), request("a", model="other")).part == "the model"
    assert broken(request("a"), request("a", system="")).part == "system text"


def test_a_request_with_a_plan_is_prefix_up_to_the_last_breakpoint() -> None:
    plan = PromptCachePlan(breakpoint_message_ids=("m1",))
    before = request("a", "b", cache=plan)

    assert_prefix_stable(before, request("a", "x", cache=plan))
    assert broken(before, request("x", "b", cache=plan)).part == "turn 1 (user, id 'm1')"
    less = PromptCachePlan(cache_system=True)
    assert broken(before, request("a", "b", cache=less)).change.endswith(
        "no breakpoint stands behind it any more"
    )
    tools = PromptCachePlan(cache_tools=True)
    assert_prefix_stable(
        request("a", tools=[TOOL], cache=tools), request("b", system="x", tools=[TOOL], cache=tools)
    )


def test_a_change_in_a_call_is_shown() -> None:
    calls = [{"id": "c1", "name": "f", "arguments": {"q": "old"}}]
    other = [{"id": "c1", "name": "f", "arguments": {"q": "new"}}]
    before = [LlmMessage("user", "a"), LlmMessage("assistant", "", tool_calls=calls)]
    after = [LlmMessage("user", "a"), LlmMessage("assistant", "", tool_calls=other)]

    error = broken(LlmRequest("m", "", before), LlmRequest("m", "", after))
    assert error.part == "turn 2 (assistant)"
    assert '"q": "old"' in error.diff
    assert '"q": "new"' in error.diff


def test_prompts_of_two_kinds_are_not_compared() -> None:
    with pytest.raises(TypeError, match="one kind, not context and request"):
        assert_prefix_stable(context("a"), request("a"))
    nothing: Any = "You are helpful."
    with pytest.raises(TypeError, match="PromptBlock"):
        assert_prefix_stable(nothing, nothing)


def test_a_long_line_is_broken_where_it_differs() -> None:
    line = "word " * 2000
    error = broken([PromptBlock.plain("a", line)], [PromptBlock.plain("a", line + "changed")])

    assert len(error.diff.splitlines()) < 10
    assert "changed" in error.diff


def test_a_long_diff_is_cut() -> None:
    old, new = ("\n".join(f"{word} {i}" for i in range(50)) for word in ("old", "new"))
    error = broken([PromptBlock.plain("a", old)], [PromptBlock.plain("a", new)])

    assert len(error.diff.splitlines()) == 25
    assert error.diff.endswith("more lines")


def test_what_nobody_can_see_is_spelled_out() -> None:
    error = broken([PromptBlock.plain("a", "x ")], [PromptBlock.plain("a", "x\u200b")])

    assert "-x\\x20" in error.diff
    assert "+x\\u200b" in error.diff


@pytest.mark.parametrize(
    ("old", "new", "guess"),
    [
        ("at 09:15", "at 09:16", "a time"),
        ("on 2026-03-01", "on 2026-03-02", "a time"),
        ("t=1760000000.25", "t=1760000007.5", "a time"),
        ("6f1c1a52-0b1e-4c57-9d55-3f0f6a1d2b3c", "7f1c1a52-0b1e-4c57-9d55-3f0f6a1d2b3c", "an id"),
        ("at 09:15 be kind", "at 09:15 be brief", None),
        ("be kind", "be brief", None),
    ],
)
def test_a_guess_is_made_at_what_changed(old: str, new: str, guess: str | None) -> None:
    text = str(broken([PromptBlock.plain("a", old)], [PromptBlock.plain("a", new)]))

    assert (f"looks like {guess}." in text) is (guess is not None)


def test_the_error_survives_the_way_from_a_worker() -> None:
    """Test runners send errors between processes."""
    error = broken([POLICY], [STYLE])

    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_taking_every_breakpoint_away_breaks_what_was_cached() -> None:
    cached, plain = [PromptBlock.cached_long("a", "A")], [PromptBlock.plain("a", "A")]

    with pytest.raises(PrefixChanged, match="no breakpoint stands behind it any more"):
        assert_prefix_stable(cached, plain)
    with pytest.raises(PrefixChanged, match="no breakpoint"):
        assert_prefix_stable(*(to_request(b, wire="anthropic-messages", model="m") for b in (cached, plain)))
    assert_prefix_stable(plain, [*cached, PromptBlock.plain("b", "B")])


def test_a_marked_system_message_of_an_ir_marks_all_that_it_is_sent_with() -> None:
    def ir(text: str) -> PromptIR:
        messages = [PromptMessage("system", "r1", id="r1"), PromptMessage("system", text, id="r2")]
        plan = PromptCachePlan(breakpoint_message_ids=("r1",))
        return PromptIR("s", (), [Segment("system_remainder", messages)], plan)

    with pytest.raises(PrefixChanged):
        assert_prefix_stable(ir("x"), ir("y"))


def test_white_space_that_is_not_sent_is_no_change_of_an_ir() -> None:
    plan = PromptCachePlan(cache_system=True)

    assert_prefix_stable(PromptIR("a", cache=plan), PromptIR("a\n", cache=plan))
    assert_prefix_stable(PromptIR(" ", cache=plan), PromptIR("", cache=plan))


def test_a_breakpoint_on_a_message_with_nothing_in_it_caches_what_stands_before_that() -> None:
    def ir(text: str, tail: str = "t") -> PromptIR:
        turns = [
            PromptMessage("user", text),
            PromptMessage("assistant", "", id="e"),
            PromptMessage("user", tail),
        ]
        plan = PromptCachePlan(breakpoint_message_ids=("e",))
        return PromptIR("s", (), [Segment("conversation", turns)], plan)

    assert broken(ir("x"), ir("y")).part == "conversation turn 1 (user)"
    assert_prefix_stable(ir("x"), ir("x", "other"))


def test_without_a_plan_both_the_text_and_the_blocks_of_an_ir_count() -> None:
    """Some wires are sent the one, some the other."""
    blocks = [PromptBlock("b", "B", kind="base")]

    with pytest.raises(PrefixChanged):
        assert_prefix_stable(PromptIR("time 1", blocks), PromptIR("time 2", blocks))


def test_which_call_a_result_in_parts_answers_is_part_of_the_prefix() -> None:
    def context(call: str, *, is_error: bool = False) -> RenderedContext:
        turn = PromptMessage("tool", [{"type": "text", "text": "x"}], tool_call_id=call, is_error=is_error)
        return RenderedContext("s", "k", [turn])

    for other in (context("c2"), context("c1", is_error=True)):
        with pytest.raises(PrefixChanged):
            assert_prefix_stable(context("c1"), other)


def test_a_difference_where_a_long_line_is_broken_is_shown() -> None:
    with pytest.raises(PrefixChanged) as caught:
        assert_prefix_stable(
            [PromptBlock.cached_long("a", "x" * 99 + " " + "y" * 50)],
            [PromptBlock.cached_long("a", "x" * 99 + "\n" + "y" * 50)],
        )

    assert caught.value.diff
