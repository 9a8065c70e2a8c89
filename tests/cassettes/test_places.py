"""A recorded call has the name of its upstream that the test's own call has when it runs again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from cortex_replay.cassettes import Places
from cortex_replay.cassettes.interactions import Interaction
from cortex_replay.config import Settings
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.interception.interception import Interception
from cortex_replay.interception.request import Request
from cortex_replay.modes import Mode

UPSTREAMS = Upstreams(Settings(), {})
AGENT = (("user-agent", "OpenAI/Python 3.49.0"),)
EMBEDDING = b'{"model": "m", "input": "x"}'
CALLS = [
    ("POST", "https://api.openai.com/v1/embeddings", (), EMBEDDING),
    ("GET", "https://api.openai.com/v1/models", (), b""),
    ("POST", "https://api.anthropic.com/v1/messages/count_tokens", (), b'{"model": "m", "messages": []}'),
    ("POST", "https://api.mistral.ai/v1/embeddings", (), EMBEDDING),
    ("POST", "https://api.voyageai.com/v1/embeddings", (), EMBEDDING),
    ("POST", "https://proxy.example.com:8443/openai/v1/embeddings", (), EMBEDDING),
    ("GET", "https://proxy.example.com/openai/v1/models", AGENT, b""),
    ("POST", "https://models.example.com/v1/chat/completions", (), b'{"model": "m", "messages": []}'),
    ("POST", "https://models.example.com/v1/messages", (), b'{"model": "m", "messages": []}'),
    ("POST", "https://bedrock-runtime.eu-west-1.amazonaws.com/model/ai21.j2%3A0/invoke", (), b"{}"),
    ("POST", "http://localhost:11434/api/embed", (), EMBEDDING),
    ("POST", "http://localhost:8000/v1/embeddings", (), EMBEDDING),
    ("GET", "http://127.0.0.1:8000/v1/models", AGENT, b""),
]


def recorded(method: str, url: str, headers: Any, body: bytes) -> Interaction:
    parts = urlsplit(url)
    return Interaction(
        method, parts.netloc, parts.path, parts.query, headers, body, 200, (), b"", parts.scheme
    )


OTHERS = [
    ("GET", "https://example.com/picture.png?size=2", (), b""),
    ("GET", "http://localhost:8080/v1/models", (), b""),
    ("GET", "https://example.com/v1/v1/models", (), b""),
    ("POST", "http://search.example.com:8080/messages", (), b'{"to": "Ann"}'),
]
ALL = [(call, False) for call in CALLS] + [(call, True) for call in (*CALLS, *OTHERS)]


@pytest.mark.parametrize(
    ("call", "is_all"), ALL, ids=[f"{call[0]} {call[1]} {is_all}" for call, is_all in ALL]
)
def test_a_route_is_the_one_of_the_same_call_in_process(
    call: tuple[str, str, Any, bytes], is_all: bool
) -> None:
    http: Any = "all" if is_all else "models"
    method, url, headers, body = call
    engine: Any = SimpleNamespace(upstreams=UPSTREAMS)
    scope: Any = SimpleNamespace(mode=Mode.REPLAY)
    interception = Interception(engine, scope, http=http)
    request = Request.at(method, url, headers)
    target = interception.target(request)
    assert target is not None
    replayed = interception.call(target, request, body)
    assert replayed is not None

    assert Places(UPSTREAMS, {}, takes_all=is_all).route(recorded(*call)) == replayed.route


@pytest.mark.parametrize(
    ("url", "upstream"),
    [
        ("https://example.com/weather", "https://example.com"),
        ("http://example.com:8080/weather", "http://example.com:8080"),
    ],
)
def test_any_other_host_is_called_by_its_url_and_only_on_request(url: str, upstream: str) -> None:
    call = recorded("GET", url, (), b"")
    route = Places(UPSTREAMS, {}, takes_all=True).route(call)

    assert route is not None
    assert (route.upstream, route.path, route.protocol) == (upstream, "/weather", None)
    assert Places(UPSTREAMS, {}).route(call) is None


def test_a_body_that_asks_no_model_is_of_no_model() -> None:
    chat = recorded("POST", "https://chat.example.com/messages", (), b'{"to": "Ann", "text": "Hello"}')

    assert Places(UPSTREAMS, {}).route(chat) is None
