from __future__ import annotations

import pytest

from cortex_replay.prompt.cache.calls import Provider
from cortex_replay.prompt.cache.layout import Layouts
from cortex_replay.prompt.cache.requests import estimate_call
from cortex_replay.prompt.explain import explain
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole, PromptCachePlan, TokenUsage


def ask(model: str, plan: PromptCachePlan | None) -> LlmRequest:
    turns = tuple(LlmMessage(LlmRole.USER, f"question {n} " * 40) for n in range(3))
    return LlmRequest(model, "You sell umbrellas.", turns, cache=plan)


def test_a_call_has_what_the_plan_says() -> None:
    plan = PromptCachePlan(key="shop", retention="24h", mode="explicit", kept_messages=2)

    call = estimate_call(ask("gpt-5.6", plan), "openai", Layouts(), tokens=2000, at=3.0)

    assert (call.key, call.retention, call.adds_breakpoint) == ("shop", "24h", False)
    assert (call.tokens, call.is_estimate, call.at) == (2000, False, 3.0)
    assert call.explicit == 3  # the system text and two turns


def test_a_request_without_a_plan_asks_for_nothing() -> None:
    call = estimate_call(ask("gpt-5.6", None), "openai", Layouts())

    assert (call.key, call.retention, call.adds_breakpoint, call.explicit) == ("", "", True, 0)
    assert call.is_estimate


@pytest.mark.parametrize(
    ("model", "provider", "plan", "read"),
    [
        pytest.param("gpt-5.6", "openai", PromptCachePlan(mode="explicit"), 0, id="no breakpoint of its own"),
        pytest.param("gpt-5.6", "openai", None, 4000, id="one of its own"),
        pytest.param("gemini-2.5-pro", "gemini", PromptCachePlan(kept_messages=3), 4000, id="all is kept"),
    ],
)
def test_an_explanation_keeps_to_the_plan(
    model: str, provider: Provider, plan: PromptCachePlan | None, read: int
) -> None:
    found = explain(ask(model, plan), TokenUsage(4000, 1))

    assert {hit.provider: hit.tokens for hit in found.cached}[provider] == read
