"""What looks like a call to a model, and what does not."""

from __future__ import annotations

import json

import pytest

from cortex_replay.engine.http.model_calls import ModelCall, model_call
from cortex_replay.providers import ENDPOINTS, PROVIDERS


def read(method: str, path: str, body: object, agent: str = "") -> ModelCall | None:
    """What a request is, looked at as a whole; and the same in pieces."""
    found = model_call(method, path, {"user-agent": agent}.get if agent else lambda _: "")  # type: ignore[arg-type]
    if found is None:
        return None
    data = json.dumps(body).encode()
    halves = found.fields_in(data[: len(data) // 2]) | found.fields_in(data)
    assert found.fits(data) == found.fits_fields(halves)
    return found if found.fits(data) else None


ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi."}]}

VERTEX = "/v1/projects/p/locations/us-central1/publishers"


@pytest.mark.parametrize(
    ("path", "body", "provider", "protocol"),
    [
        ("/v1/chat/completions", ASKED, "openai", "openai-chat"),
        ("/chat/completions", ASKED, "openai", "openai-chat"),
        ("/chat/completions/", {}, "openai", "openai-chat"),
        ("/openai/v1/chat/completions", ASKED, "openai", "openai-chat"),
        ("/v1beta/openai/chat/completions", ASKED, "openai", "openai-chat"),
        ("/openai/deployments/mine/chat/completions", ASKED, "azure", "openai-chat"),
        ("/openai/deployments/mine/completions", {"prompt": "Hi."}, "azure", "openai-completions"),
        ("/openai/deployments/mine/embeddings", {"input": "Hi."}, "azure", None),
        ("/models/chat/completions", ASKED, "azure", "openai-chat"),
        ("/v1/responses", {"model": "m", "input": "Hi."}, "openai", "openai-responses"),
        ("/v1/messages", ASKED, "anthropic", "anthropic-messages"),
        ("/anthropic/v1/messages", ASKED, "anthropic", "anthropic-messages"),
        ("/v1/messages/count_tokens", ASKED, "anthropic", None),
        ("/api/chat", ASKED, "ollama", "ollama-chat"),
        ("/api/generate", {"model": "m", "prompt": "Hi."}, "ollama", "ollama-generate"),
        ("/api/embed", {"model": "m", "input": "Hi."}, "ollama", None),
        ("/v1/embeddings", {"model": "m", "input": "Hi."}, "openai", None),
        ("/v1/completions", {"model": "m", "prompt": "Hi."}, "openai", "openai-completions"),
        ("/v1/fim/completions", {"model": "m", "prompt": "Hi."}, "openai", None),
        ("/v1beta/models/gemini-2.5-flash:generateContent", {"contents": []}, "gemini", "gemini-generate"),
        ("/proxy/v1/models/gemini:streamGenerateContent", {"contents": []}, "gemini", "gemini-generate"),
        ("/v1beta/models/gemini-embedding:embedContent", {"content": {}}, "gemini", None),
        (f"{VERTEX}/google/models/gemini:generateContent", {"contents": []}, "vertex", "gemini-generate"),
        (f"{VERTEX}/anthropic/models/claude:rawPredict", {}, "vertex", "anthropic-messages"),
        (f"{VERTEX}/mistralai/models/mistral:rawPredict", {}, "vertex", None),
        ("/model/anthropic.claude/converse", {"messages": []}, "bedrock", "bedrock-converse"),
        ("/model/eu.anthropic.claude-4/invoke", {"messages": []}, "bedrock", "bedrock-anthropic"),
        ("/model/anthropic.claude-v2/invoke", {"prompt": "Hi."}, "bedrock", None),
        ("/model/amazon.nova-lite-v1%3A0/invoke", {"messages": []}, "bedrock", "bedrock-nova"),
        ("/model/amazon.nova-canvas-v1%3A0/invoke", {}, "bedrock", None),
        ("/model/meta.llama3/invoke-with-response-stream", {"prompt": "Hi."}, "bedrock", None),
        ("/v2/chat", ASKED, "cohere", "cohere-chat"),
        ("/v1/chat", {"model": "m", "message": "Hi."}, "cohere", None),
        ("/serving-endpoints/mine/invocations", {"messages": []}, "endpoint", None),
    ],
)
def test_models_are_known_by_what_they_are_asked(
    path: str, body: object, provider: str, protocol: str | None
) -> None:
    found = read("POST", path, body)
    assert found is not None
    assert (found.provider, found.protocol) == (provider, protocol)


def test_every_call_that_is_lifted_is_known() -> None:
    for endpoint in ENDPOINTS:
        model = "amazon.nova-pro" if "nova" in endpoint.models else "anthropic.claude"
        found = model_call("POST", endpoint.path.replace("{model}", model), lambda _: "")
        assert found is not None
        assert found.protocol == endpoint.protocol


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/chat/completions", None),
        ("POST", "/messages", {"text": "Hi."}),
        ("POST", "/rooms/7/messages", {"messages": ["Hi."]}),
        ("POST", "/api/chat", {"messages": [{"role": "user", "content": "Hi."}]}),
        ("POST", "/api/generate", {"pdf": True}),
        ("POST", "/survey/responses", {"input": "yes"}),
        ("POST", "/responses", ["yes"]),
        ("POST", "/embeddings", {"text": "Hi."}),
        ("POST", "/login", ASKED),
        ("POST", "/", ASKED),
    ],
)
def test_an_application_under_test_is_left_alone(method: str, path: str, body: object) -> None:
    assert read(method, path, body) is None


@pytest.mark.parametrize(
    ("agent", "provider"),
    [
        ("OpenAI/Python 3.49.0", "openai"),
        ("AsyncAzureOpenAI/Python 3.49.0", "azure"),
        ("azsdk-python-ai-inference/1.0.0b9 Python/3.11", "azure"),
        ("mistral-client-typescript/2.7.0", "mistral"),
        ("cohere/7.3.1", "cohere"),
        ("cohere-ai/8.1.0", "cohere"),
        ("AsyncGroq/Python 1.7.0", "groq"),
        ("Together/Python 3.0.0", "together"),
        ("Fireworks/Python 1.2.28", "fireworks"),
        ("Cerebras/Python 1.91.0", "cerebras"),
        ("AsyncAnthropic/Python 2.8.0", "anthropic"),
        ("ollama-python/0.6.0 (x86_64 linux) Python/3.11", "ollama"),
        ("google-genai-sdk/1.0", "gemini"),
    ],
)
def test_an_sdk_of_a_provider_is_known_by_its_name(agent: str, provider: str) -> None:
    """Whatever it asks: a list of models, a file, a thread."""
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/files"), ("POST", "/v1/threads/7/runs")):
        found = read(method, path, {"role": "user"}, agent)
        assert found is not None
        assert (found.provider, found.protocol) == (provider, None)


def test_an_sdk_speaks_its_own_provider_s_wires() -> None:
    messages = model_call("POST", "/v1/threads/7/messages", lambda _: "OpenAI/Python 3")
    chat = model_call("POST", "/v1/chat/completions", lambda _: "OpenAI/Python 3")
    assert messages is not None
    assert chat is not None
    assert (messages.protocol, chat.protocol) == (None, "openai-chat")


def test_no_row_takes_another_agent_for_its_own() -> None:
    assert model_call("GET", "/", lambda _: "python-httpx/0.28") is None
    assert all(row.agents for row in PROVIDERS.values())


def test_a_body_that_nobody_can_read_may_be_for_a_model() -> None:
    found = model_call("POST", "/v1/embeddings", lambda _: "")
    assert found is not None
    assert found.fits(b"\x1f\x8b compressed")
    assert not found.fits(b"")
    assert not found.fits(b'{"model": ')


def test_the_server_is_the_one_that_the_client_chose() -> None:
    """And it has no key but what the client brings."""
    found = model_call("POST", "/v1/messages", lambda _: "")
    assert found is not None
    server = found.server("http", "10.0.0.7:8000")
    assert (server.name, server.base_url) == ("anthropic@10.0.0.7:8000", "http://10.0.0.7:8000")
    assert server.key({"ANTHROPIC_API_KEY": "mine", "CORTEX_CLAUDE_API_KEY": "mine"}) is None
