"""Whose rules a recorded call's cache follows."""

from __future__ import annotations

import pytest

from cortex_replay.history.cache_rules import cache_provider


@pytest.mark.parametrize(
    ("model", "meta", "provider"),
    [
        ("claude-opus-5-5", {"wire": "anthropic-messages", "provider": "anthropic"}, "anthropic"),
        ("claude-opus-5-5", {"wire": "anthropic-messages", "provider": "vertex"}, "anthropic"),
        ("us.anthropic.claude-opus-4-6-v1:0", {"wire": "bedrock-converse"}, "anthropic"),
        ("us.anthropic.claude-opus-4-6-v1:0", {"wire": "bedrock-anthropic"}, "anthropic"),
        ("anthropic/claude-opus-5", {"wire": "openai-chat", "provider": "openrouter"}, "anthropic"),
        ("opus", {"wire": "anthropic-messages", "provider": "anthropic"}, "anthropic"),
        ("my-model", {"adapter": "claude"}, "anthropic"),
        ("deepseek-chat", {"wire": "anthropic-messages", "provider": "deepseek"}, None),
        ("gpt-6-luna", {"wire": "openai-chat", "provider": "openai"}, "openai"),
        ("my-deployment", {"wire": "openai-responses", "provider": "azure"}, "openai"),
        ("gpt-6-luna", {"wire": "openai-chat"}, "openai"),
        ("gpt-6-luna", {}, "openai"),
        ("o3-mini", {"adapter": "openai-compat"}, "openai"),
        ("gpt-oss-120b", {"wire": "openai-chat", "provider": "groq"}, None),
        ("openhermes", {"wire": "openai-chat"}, None),
        ("llama3.2", {"wire": "ollama-chat"}, "llamacpp"),
        ("llama3.2", {"wire": "openai-chat", "provider": "ollama"}, "llamacpp"),
        ("gemini-3-pro", {"wire": "gemini-generate"}, "gemini"),
        ("gemini-3-pro", {"wire": "openai-chat", "provider": "gemini"}, "gemini"),
        ("gemini-3-pro", {}, "gemini"),
        ("amazon.nova-pro", {"wire": "bedrock-converse", "provider": "bedrock"}, None),
        ("command-a", {"wire": "cohere-chat", "provider": "cohere"}, None),
        ("m", {"wire": 7, "provider": ["openai"]}, None),
    ],
)
def test_the_origin_of_a_recording_tells(model: str, meta: dict[str, object], provider: str | None) -> None:
    assert cache_provider(model, meta) == provider  # type: ignore[arg-type]
