"""A test that says how much of its prompts a cache is to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cortex_replay import LlmMessage, LlmRequest, PromptCachePlan, TokenUsage
from cortex_replay.prompt import (
    CacheMissed,
    PromptBlock,
    PromptIR,
    PromptMessage,
    RenderedContext,
    Segment,
    assert_cache,
)

TEXT = "Umbrella, 12 EUR. " * 300
"""1,350 tokens, which is more than any provider asks for here."""
CLAUDE: Any = {"wire": "anthropic-messages", "model": "claude-opus-5"}


def blocks(time: str, *, is_last: bool) -> list[PromptBlock]:
    catalogue, clock = PromptBlock.cached_short("catalogue", TEXT), f"It is {time}."
    return (
        [catalogue, PromptBlock.plain("clock", clock)]
        if is_last
        else [
            PromptBlock.cached_short("clock", clock),
            catalogue,
        ]
    )


def test_blocks_that_change_in_front_are_named() -> None:
    """With how they changed, what that costs, and what to do."""
    times = ("09:15:02", "09:15:07", "09:15:12")
    assert_cache(
        [blocks(time, is_last=True) for time in times], reads_at_least=0.9, **CLAUDE, messages="Where is it?"
    )

    with pytest.raises(CacheMissed) as caught:
        assert_cache([blocks(time, is_last=False) for time in times], reads_at_least=0.9, **CLAUDE)

    assert (caught.value.share, caught.value.block, caught.value.why) == (0, "block 'clock'", "changed")
    head = "the prompt cache reads 0% of these prompts; expected at least 90%"
    paid = "2,708 tokens were paid again, which costs 3,114 input tokens more than reading them"
    saved = "That saves 3,108 input tokens, 61% of what the run costs."
    assert str(caught.value).split("\n\n") == [
        f"{head}\nblock 'clock' changed (2 calls): {paid}",
        "--- previous: block 'clock'\n+++ current: block 'clock'\n@@\n-It is 09:15:02.\n+It is 09:15:07.",
        "What changed looks like a time.",
        "\n".join(f"call {i} of 1,354 tokens: 0 read, 1,354 written, 0 fresh" for i in (1, 2, 3)),
        "Sizes that no provider counted are estimates: four bytes of text make a token.",
        f"Move block 'clock' behind everything that is cached: it changed 2 times. {saved}",
    ]


def test_contexts_and_irs_are_asked_on_a_wire() -> None:
    turns = [PromptMessage("user", f"Question {i}.", id=f"t{i}") for i in range(3)]
    contexts = [RenderedContext("Be kind.", TEXT, turns[: i + 1]) for i in range(3)]
    irs = [
        PromptIR(
            system_text=TEXT,
            segments=[Segment("conversation", turns[: i + 1])],
            cache=PromptCachePlan(cache_system=True),
        )
        for i in range(3)
    ]

    assert_cache(contexts, reads_at_least=0.9, **CLAUDE)
    assert_cache(irs, reads_at_least=0.9, **CLAUDE)
    assert_cache(contexts, reads_at_least=0.9, wire="openai-chat", model="gpt-4o")
    with pytest.raises(CacheMissed, match="no marker"):
        assert_cache(
            [PromptIR(system_text=TEXT, segments=ir.segments) for ir in irs], reads_at_least=0.9, **CLAUDE
        )


def requests(model: str, plan: PromptCachePlan | None = None) -> list[LlmRequest]:
    return [
        LlmRequest(model, TEXT, [LlmMessage("user", question)], cache=plan)
        for question in ("Where?", "When?")
    ]


@pytest.mark.parametrize(
    ("model", "share"),
    [("gpt-4o", 0.94), ("gemini-2.5-pro", 0), ("us.anthropic.claude-opus-5-v1:0", 0)],
)
def test_the_name_of_a_model_says_whose_rules_count(model: str, share: float) -> None:
    """OpenAI reads 1,280 of 1,352 tokens by itself; Gemini asks for more, and Anthropic for a marker."""
    assert_cache(requests(model), reads_at_least=share)
    with pytest.raises(CacheMissed):
        assert_cache(requests(model), reads_at_least=share + 0.01)


def test_openai_reads_the_start_of_a_block_that_changed_at_its_end() -> None:
    """And the advice is simulated in the same way, so it does not promise what is had already."""
    asked = [LlmRequest("gpt-4o", f"{TEXT} It is {time}.", "Where?") for time in ("09:15", "09:16")]

    assert_cache(asked, reads_at_least=0.9)
    with pytest.raises(CacheMissed) as caught:
        assert_cache(asked, reads_at_least=0.99)

    assert "1,280 read" in str(caught.value)
    assert "That saves" not in str(caught.value)


def test_a_block_is_named_also_where_the_cache_takes_it_for_another_prompt() -> None:
    """llama.cpp gives a prompt with another start a slot of its own, and has nothing to compare it with."""
    prompts = [blocks(time, is_last=False) for time in ("09:15:02", "10:15:07")]

    with pytest.raises(CacheMissed, match="block 'clock' changed") as caught:
        assert_cache(prompts, reads_at_least=0.8, wire="ollama-chat", model="tiny")

    assert caught.value.block == "block 'clock'"


def test_time_passes_between_the_calls() -> None:
    """Five minutes are over at the second one, an hour is not."""
    short, long = (PromptCachePlan(cache_system=True, ttl=ttl) for ttl in ("5m", "1h"))

    assert_cache(requests("claude-opus-5", short), reads_at_least=0.9, every=299)
    assert_cache(requests("claude-opus-5", long), reads_at_least=0.9, every=300)
    with pytest.raises(CacheMissed, match="had expired"):
        assert_cache(requests("claude-opus-5", short), reads_at_least=0.9, every=300)


def test_sizes_are_those_that_the_provider_counted() -> None:
    """By its count the text is shorter than what it caches; what it reported is shown beside."""
    plan = PromptCachePlan(cache_system=True)
    usage = [TokenUsage(400, 1, 0, 0), TokenUsage(400, 1, 0, 0)]

    with pytest.raises(CacheMissed, match="too short to be cached") as caught:
        assert_cache(requests("claude-opus-5", plan), reads_at_least=0.1, usage=usage)

    assert "call 2 of 400 tokens: 0 read, 0 written, 400 fresh; the provider reported 0 read" in str(
        caught.value
    )
    assert "estimates" not in str(caught.value)


def test_a_share_is_reached_exactly() -> None:
    """80% of 2,000 tokens: a float must not make 1,600 too few."""
    plan = PromptCachePlan(cache_system=True)
    usage = [TokenUsage(2000, 1, 0, 1600), TokenUsage(2000, 1, 1600, 0)]

    assert_cache(requests("claude-opus-5", plan), reads_at_least=0.8, usage=usage)
    with pytest.raises(CacheMissed, match=r"reads 80% of these prompts; expected at least 80\.1%"):
        assert_cache(requests("claude-opus-5", plan), reads_at_least=0.801, usage=usage)


@pytest.mark.parametrize(
    ("prompts", "options", "error", "message"),
    [
        (requests("gpt-4o")[:1], {}, ValueError, "a cache needs two calls to read anything, and there is 1"),
        ([], {}, ValueError, "a cache needs two calls"),
        (requests("gpt-4o"), {"reads_at_least": 80}, ValueError, "a share from 0 to 1, not 80"),
        (requests("gpt-4o"), {"every": -1}, ValueError, "a number of seconds"),
        (requests("gpt-4o"), {"usage": [None]}, ValueError, "a usage for each of 2 prompts, not 1"),
        (requests("gpt-4o"), {"model": "x"}, TypeError, "a request says everything itself: leave out model"),
        (requests("mine"), {}, ValueError, "how 'mine' is cached is not known"),
        (requests("mine"), {"wire": "telegraph"}, ValueError, "expected one of the wires anthropic-messages"),
        ([blocks("9", is_last=True)] * 2, {}, TypeError, "say how they are asked"),
        (
            [requests("gpt-4o")[0], blocks("9", is_last=True)],
            {},
            TypeError,
            "one kind, not blocks and request",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(
    prompts: Sequence[Any], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        assert_cache(prompts, **{"reads_at_least": 0.5, **options})


def test_what_is_new_is_not_blamed_on_a_block() -> None:
    """A conversation that grows pays nothing again, and what an hour costs is no matter of what is read."""
    turns = [{"role": role, "content": f"{role} said this. " * 40} for role in ("user", "assistant") * 3]
    contexts = [RenderedContext("Be kind. " * 900, "", turns[:end]) for end in (1, 3, 5)]

    with pytest.raises(CacheMissed) as missed:
        assert_cache(
            contexts,
            reads_at_least=1,
            wire="anthropic-messages",
            model="claude-opus-5",
            max_tokens=9,
            cache=PromptCachePlan(ttl="1h"),
        )

    assert missed.value.block == ""
    text = str(missed.value)
    assert "What is not read is new in each call." in text
    assert "That saves" not in text
