"""Anthropic's cache from a request on, and at its edges; the rules themselves are in ``golden/``."""

from __future__ import annotations

from dataclasses import replace

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, CacheOutcome
from cortex_replay.prompt.cache.layout import Layouts
from cortex_replay.prompt.cache.requests import estimate_call
from cortex_replay.prompt.cache.simulator import simulate, simulator_for
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.types import CacheMark, LlmRequest, PromptCachePlan

BLOCK = CacheBlock("policy", Place.SYSTEM, "text", 600, CachePolicy.EPHEMERAL_5M)


def test_a_prompt_without_blocks_costs_nothing() -> None:
    call = CacheCall("anthropic", "claude-opus-5", 0, (), automatic=CachePolicy.EPHEMERAL_5M)

    assert simulate(simulator_for("anthropic"), [call, call]) == [CacheOutcome()] * 2


def test_an_unknown_model_follows_its_family_and_the_outcome_says_so() -> None:
    known, unknown = (
        simulator_for("anthropic").ask(CacheCall("anthropic", model, 0, (BLOCK,)))
        for model in ("claude-opus-5", "claude-opus-7")
    )

    assert (known.write_5m, known.is_assumed) == (600, False)
    assert (unknown.write_5m, unknown.is_assumed) == (600, True)


def test_a_cache_is_empty_at_first_whatever_another_one_holds() -> None:
    call = CacheCall("anthropic", "claude-opus-5", 0, (BLOCK,))

    assert [simulator_for("anthropic").ask(call).read for _ in range(2)] == [0, 0]


def test_calls_that_begin_alike_but_for_their_model_say_so_only_while_it_is_cached() -> None:
    calls = [
        CacheCall("anthropic", "claude-opus-5", 0, (BLOCK,)),
        CacheCall("anthropic", "claude-fable-5", 299, (BLOCK,)),
        CacheCall("anthropic", "claude-sonnet-5-5", 700, (BLOCK,)),
    ]

    reasons = [outcome.reasons[0].why for outcome in simulate(simulator_for("anthropic"), calls)]

    assert reasons == ["first", "other model", "first"]


def test_a_question_makes_an_older_model_forget_the_thinking_of_a_real_request() -> None:
    plan = PromptCachePlan(marks=(CacheMark("prompt"),))
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "What is the weather? " * 300},
        {
            "role": "assistant",
            "content": "",
            "parts": [{"type": "thinking", "thinking": "I look it up.", "signature": "s"}],
            "tool_calls": [{"id": "c1", "name": "weather", "arguments": {}}],
        },
        {"role": "tool", "content": "Sunny.", "tool_call_id": "c1"},
    ]
    question: dict[str, object] = {"role": "user", "content": "And tomorrow?"}
    layouts = Layouts()
    loop, asked = (
        estimate_call(LlmRequest("", messages=said, cache=plan), "anthropic", layouts)
        for said in (messages, [*messages, question])
    )

    def read(model: str) -> int:
        calls = [replace(call, model=model) for call in (loop, asked)]
        return simulate(simulator_for("anthropic"), calls)[-1].read

    assert read("claude-sonnet-4-5") == 0
    assert read("claude-sonnet-4-6") == loop.tokens
