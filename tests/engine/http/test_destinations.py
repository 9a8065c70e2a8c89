"""Where a URL leads that a client has chosen itself: to the same route as by every other road."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.config.servers import server_of
from cortex_replay.engine.http.destinations import Destination, Destinations
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.interception.interception import Interception
from cortex_replay.interception.request import Request
from cortex_replay.run import Run

SETTINGS = Settings(
    providers={
        "mine": ProviderSettings(kind="openai-compat", base_url="https://llm.corp.example/team/v1"),
        "other": ProviderSettings(kind="claude", base_url="https://llm.corp.example"),
    }
)


def find(method: str, url: str, headers: Mapping[str, str] | None = None) -> Destination:
    server, path = server_of(url), Request.at(method, url, []).path
    assert server is not None
    given = headers or {}
    return Destinations(Upstreams(SETTINGS)).find(server, method, path, lambda name: given.get(name, ""))


@pytest.mark.parametrize(
    ("method", "url", "upstream", "path", "protocol"),
    [
        ("POST", "https://api.openai.com/v1/responses", "openai", "/v1/responses", "openai-responses"),
        ("POST", "https://api.anthropic.com/v1/messages", "anthropic", "/v1/messages", "anthropic-messages"),
        ("GET", "https://api.anthropic.com/v1/models", "anthropic", "/v1/models", None),
        (
            "POST",
            "https://llm.corp.example/team/v1/chat/completions",
            "mine",
            "/v1/chat/completions",
            "openai-chat",
        ),
        ("POST", "https://llm.corp.example/v1/messages", "other", "/v1/messages", "anthropic-messages"),
        ("POST", "http://127.0.0.1:11434/api/chat", "ollama", "/api/chat", "ollama-chat"),
    ],
)
def test_providers_are_known_by_their_servers(
    method: str, url: str, upstream: str, path: str, protocol: str | None
) -> None:
    found = find(method, url)

    assert (found.route.upstream, found.route.path, found.route.protocol) == (upstream, path, protocol)
    assert found.server is None


def test_other_servers_are_who_the_client_asked() -> None:
    chat = find("POST", "https://api.moonshot.ai/v1/chat/completions")
    models = find("GET", "https://api.moonshot.ai/v1/models")

    assert chat.route.protocol == "openai-chat"
    assert chat.server is not None
    assert (chat.server.name, chat.server.base_url) == ("openai@api.moonshot.ai", "https://api.moonshot.ai")
    assert chat.server.key({"OPENAI_API_KEY": "sk-not-for-them"}) is None
    assert models.route.protocol is None
    assert models.server is not None
    assert (models.server.name, models.server.base_url) == (
        "https://api.moonshot.ai",
        "https://api.moonshot.ai",
    )


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1/chat/completions",
        "https://api.anthropic.com/v1/messages",
        "https://llm.corp.example/team/v1/chat/completions",
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-3:generateContent",
        "https://api.groq.com/openai/v1/chat/completions",
        "https://eu.example.com:8443/v1/messages",
        "https://aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
        "https://bedrock-runtime.us-east-1.amazonaws.com/model/amazon.nova-lite-v1%3A0/converse",
    ],
)
def test_a_call_means_the_same_in_a_process_and_through_the_proxy(url: str) -> None:
    """Else a recording made by one road would be none for the other."""
    run = Run(SETTINGS, "live")
    interception = Interception(run.engine(), run.open_scope())
    body = b'{"model": "m", "messages": []}'
    request = Request.at("POST", url, [])
    target = interception.target(request)
    assert target is not None
    call = interception.call(target, request, body)
    assert call is not None
    server = server_of(url)
    assert server is not None

    found = Destinations(run.engine().upstreams).find(server, "POST", request.path, lambda _: "")

    assert found.route == call.route
    assert found.server == call.server
