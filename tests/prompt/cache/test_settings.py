"""What splits a cache beside the prompt."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import Provider
from cortex_replay.prompt.cache.settings import settings_of
from cortex_replay.types import LlmRequest

IMAGE = {"type": "image", "blake3": "0" * 64}


def asked(**fields: Any) -> LlmRequest:
    return LlmRequest("m", **fields)


@pytest.mark.parametrize(
    ("provider", "fields", "places"),
    [
        ("anthropic", {}, set()),
        ("anthropic", {"temperature": 0.5, "max_tokens": 7, "stop": ["x"]}, set()),
        ("anthropic", {"tool_choice": "required"}, {Place.MESSAGES}),
        ("anthropic", {"extra": {"parallel_tool_calls": False}}, {Place.MESSAGES}),
        ("anthropic", {"extra": {"thinking": {"type": "enabled", "budget_tokens": 9}}}, {Place.MESSAGES}),
        ("anthropic", {"messages": [{"role": "user", "content": "", "parts": [IMAGE]}]}, {Place.MESSAGES}),
        (
            "anthropic",
            {"messages": [{"role": "user", "content": "", "parts": [{"type": "x", "content": [IMAGE]}]}]},
            {Place.MESSAGES},
        ),
        ("anthropic", {"messages": [{"role": "user", "content": "", "parts": [{"type": "x"}]}]}, set()),
        ("anthropic", {"extra": {"speed": "fast"}}, {Place.SYSTEM}),
        ("anthropic", {"json_schema": {"type": "object"}}, {Place.TOOLS}),
        ("anthropic", {"extra": {"output_config": {"effort": "low"}}}, {Place.MESSAGES}),
        ("openai", {"extra": {"reasoning": {"effort": "low"}}}, {Place.TOOLS}),
        ("openai", {"extra": {"reasoning_effort": "low"}}, {Place.TOOLS}),
        ("openai", {"extra": {"parallel_tool_calls": False}}, {Place.TOOLS}),
        ("openai", {"json_schema": {"type": "object"}}, {Place.TOOLS}),
        ("openai", {"extra": {"text": {"format": {"type": "json_object"}}}}, {Place.TOOLS}),
        ("openai", {"tool_choice": "required"}, set()),
        ("gemini", {"tool_choice": "required", "json_schema": {}}, set()),
    ],
)
def test_a_setting_counts_from_its_place_on(
    provider: Provider, fields: dict[str, Any], places: set[Place]
) -> None:
    assert settings_of(asked(**fields), provider).keys() == places


def test_equal_settings_are_one_text() -> None:
    thinking = [
        settings_of(asked(extra={"thinking": {"budget_tokens": budget}}), "anthropic") for budget in (1, 1, 2)
    ]

    assert thinking[0] == thinking[1] != thinking[2]


def test_other_efforts_are_other_texts() -> None:
    low, high = ({"effort": effort} for effort in ("low", "high"))

    assert settings_of(asked(extra={"reasoning": low}), "openai") != settings_of(
        asked(extra={"reasoning": high}), "openai"
    )
    assert settings_of(asked(extra={"output_config": low}), "anthropic") != settings_of(
        asked(extra={"output_config": high}), "anthropic"
    )
