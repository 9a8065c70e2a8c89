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
        # A server of somebody's own has the provider's name if a client was led there by its variable.
        ("my-model", {"provider": "openai", "upstream": "http://127.0.0.1:8080/v1"}, None),
        ("my-model", {"provider": "openai", "upstream": "https://notopenai.com/v1"}, None),
        ("my-model", {"provider": "openai", "upstream": "https://eu.api.openai.com/v1"}, "openai"),
        ("my-model", {"provider": "azure", "upstream": "https://us.openai.azure.com"}, "openai"),
        ("gpt-6-luna", {"provider": "openai", "upstream": "https://proxy.example/v1"}, "openai"),
        ("my-model", {"provider": "openai", "upstream": "http://[::1"}, None),
        ("my-model", {"provider": "anthropic", "upstream": "http://127.0.0.1:8080"}, None),
        ("opus", {"provider": "anthropic", "upstream": "https://api.anthropic.com"}, "anthropic"),
    ],
)
def test_the_origin_of_a_recording_tells(model: str, meta: dict[str, object], provider: str | None) -> None:
    assert cache_provider(model, meta) == provider  # type: ignore[arg-type]


TIMINGS = '"timings":{"prompt_ms":1.5,"cache_n":7}'


@pytest.mark.parametrize(
    ("answer", "provider"),
    [
        ({"body": f'{{"choices":[],{TIMINGS}}}'}, "llamacpp"),
        (
            {"events": [{"text": "data: {}"}, {"text": f"data: {{{TIMINGS}}}"}, {"text": "data: [DONE]"}]},
            "llamacpp",
        ),
        ({"body": '{"timings":{"prompt_n":7}}'}, "openai"),
        ({"body_base64": "AA=="}, "openai"),
        ({"events": ["odd", {"text": 7}]}, "openai"),
        (None, "openai"),
    ],
)
def test_an_answer_of_llama_cpp_s_tells(answer: dict[str, object] | None, provider: str) -> None:
    meta = {"wire": "openai-chat", "provider": "openai"}

    assert cache_provider("gpt-6-luna", meta, answer) == provider  # type: ignore[arg-type]
