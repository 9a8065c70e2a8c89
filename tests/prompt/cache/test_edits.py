"""What an edit of a prompt costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from cortex_replay import LlmMessage, LlmRequest, PromptCachePlan
from cortex_replay.config import Price
from cortex_replay.prompt import PromptBlock, to_request
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.prompt.cache.edits import cost_of_edit, costs_of_edits

MODEL = "claude-sonnet-4-5"
POLICY = PromptBlock.cached_long("policy", "p" * 8000)
FACTS = PromptBlock.cached_short("facts", "f" * 8000)
TODAY = PromptBlock.plain("today", "t" * 400)


def asked(*blocks: PromptBlock, question: str = "q" * 40, model: str = MODEL) -> LlmRequest:
    return to_request(list(blocks), wire="anthropic-messages", model=model, messages=question)


BEFORE = asked(POLICY, FACTS, TODAY)


def test_everything_cached_from_the_edit_on_is_paid_again() -> None:
    """A token that is read costs a tenth, one that is written for an hour two, for five minutes 1.25."""
    edit = cost_of_edit("anthropic", BEFORE, asked(replace(POLICY, text="P" * 8000), FACTS, TODAY), Tariff())

    assert edit is not None
    assert (edit.block, edit.tokens, edit.is_estimate) == ("block 'policy'", 4000, True)
    cost = 2000 * (2 - Fraction("0.1")) + 2000 * (Fraction("1.25") - Fraction("0.1"))
    assert edit.per_call.value == cost
    assert edit.per_thousand.value == 1000 * cost
    assert str(edit) == (
        "After this edit of block 'policy', about 4,000 cached tokens are paid again. If every call has "
        "such an edit, that costs 6,100 input tokens per call, 6,100,000 input tokens per thousand calls."
    )


def test_what_stands_before_the_edit_is_still_read() -> None:
    edit = cost_of_edit("anthropic", BEFORE, asked(POLICY, replace(FACTS, text="F" * 8000), TODAY), Tariff())

    assert edit is not None
    assert (edit.block, edit.tokens) == ("block 'facts'", 2000)
    assert edit.per_call.value == 2300


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        asked(POLICY, FACTS, PromptBlock.plain("today", "Tuesday")),
        asked(POLICY, FACTS, TODAY, question="another"),
        asked(POLICY, FACTS, PromptBlock.cached_short("more", "m" * 4000)),
        asked(POLICY, FACTS, TODAY, model="claude-opus-4-1"),
    ],
    ids=["nothing", "behind the breakpoints", "the question", "more to cache", "another model"],
)
def test_what_was_never_cached_costs_nothing_again(after: LlmRequest) -> None:
    assert cost_of_edit("anthropic", BEFORE, after, Tariff()) is None


def test_a_block_that_was_put_in_or_taken_out_is_named() -> None:
    new = PromptBlock.plain("new", "n" * 40)
    put_in = cost_of_edit("anthropic", BEFORE, asked(new, POLICY, FACTS, TODAY), Tariff())
    taken_out = cost_of_edit("anthropic", BEFORE, asked(FACTS, TODAY), Tariff())

    assert put_in is not None
    assert put_in.block == "block 'new'"
    assert taken_out is not None
    assert taken_out.block == "block 'policy'"


def test_with_prices_it_is_money() -> None:
    price = Price(3, 15, cached=0.3, cache_write_5m=3.75, cache_write_1h=6)
    tariff = Tariff.for_models([MODEL], {MODEL: price}, "USD")
    edit = cost_of_edit("anthropic", BEFORE, asked(replace(POLICY, text="P"), FACTS, TODAY), tariff)

    assert edit is not None
    assert edit.tokens == 2001, "of the policy only its one token is left to be paid again"
    assert edit.to_dict()["per_thousand"] == {"amount": "6.90345", "unit": "money", "currency": "USD"}
    assert "that costs 0.0069 USD per call, 6.903" in str(edit)


def test_a_count_of_the_provider_counts_for_both() -> None:
    """The second was never asked: it is taken to be as dense as the first."""
    after = asked(replace(POLICY, text="P" * 8000), FACTS, TODAY)
    edit = cost_of_edit("anthropic", BEFORE, after, Tariff(), (8220, None))

    assert edit is not None
    assert (edit.tokens, edit.is_estimate) == (8000, False)


def test_a_provider_that_caches_by_itself_reads_up_to_the_edit() -> None:
    first = LlmRequest("gpt-4o", "s" * 16000, "q")
    second = replace(first, system="s" * 8000 + "S" * 8000)
    edit = cost_of_edit("openai", first, second, Tariff())

    assert edit is not None
    assert (edit.block, edit.tokens) == ("system text", 3968 - 1920)
    assert edit.per_call.value == Fraction(edit.tokens, 2)


def test_an_edit_of_each_block() -> None:
    """Behind the last breakpoint nothing is cached, so nothing is paid again."""
    edits = list(costs_of_edits("anthropic", BEFORE, Tariff()))

    assert [None if edit is None else (edit.block, edit.tokens) for edit in edits] == [
        ("block 'policy'", 4000),
        ("block 'facts'", 2000),
        None,
        None,
    ]


def talk(count: int, *marked: int) -> LlmRequest:
    messages = [LlmMessage(("user", "assistant")[i % 2], "x" * 4000, id=str(i)) for i in range(count)]
    plan = PromptCachePlan(breakpoint_message_ids=tuple(map(str, marked)))
    return LlmRequest(MODEL, "s" * 8000, messages, cache=plan)


def test_an_edit_between_two_breakpoints_costs_what_every_other_there_costs() -> None:
    """So only one of them is simulated, and each is what it is alone."""
    request = talk(12, 3, 9)
    edits = list(costs_of_edits("anthropic", request, Tariff()))

    assert [edit and edit.tokens for edit in edits] == [12000] * 5 + [6000] * 6 + [None] * 2
    for i, message in enumerate(request.messages[:10]):
        messages = [*request.messages[:i], replace(message, content="y" * 4000), *request.messages[i + 1 :]]
        changed = replace(request, messages=tuple(messages))
        assert cost_of_edit("anthropic", request, changed, Tariff()) == edits[i + 1]


def test_edits_of_a_long_conversation_are_found_soon() -> None:
    """Those at a provider that caches by itself are not simulated one by one to the end."""
    request = talk(599, 598)

    at_markers = list(costs_of_edits("anthropic", request, Tariff()))
    by_itself = list(costs_of_edits("openai", replace(request, model="gpt-4o"), Tariff()))
    assert [edit is not None for edit in at_markers] == [True] * 600
    assert [edit is not None for edit in by_itself] == [True] * 100 + [False] * 500
