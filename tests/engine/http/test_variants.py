"""Servers that speak another's API at paths of their own, with keys and errors of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.fake_provider import FakeProvider
from tests.engine.http.harness import ask, run_over
from tests.gateway.upstream import REAL_KEY, model_server

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
DEPLOYMENT = "/azure/openai/deployments/gpt-5-mini/chat/completions?api-version=2024-10-21"


@pytest.fixture(scope="module")
def server() -> Iterator[FakeProvider]:
    with model_server() as provider:
        yield provider


def azure(server: FakeProvider) -> dict[str, str]:
    return {"AZURE_OPENAI_ENDPOINT": server.url, "AZURE_OPENAI_API_KEY": REAL_KEY}


def test_a_deployment_is_recorded_with_the_key_of_azure(tmp_path: Path, server: FakeProvider) -> None:
    """In Azure's own header. The version of the API is not part of the question."""
    with run_over(tmp_path, "record", environment=azure(server)) as run:
        recorded = ask(run, "POST", DEPLOYMENT, HELLO, [("api-key", "of-the-client")])
    received = server.received[-1]

    assert received.path == DEPLOYMENT.removeprefix("/azure")
    assert received.headers["api-key"] == REAL_KEY
    assert "authorization" not in received.headers
    with run_over(tmp_path) as run:
        newer = DEPLOYMENT.replace("2024-10-21", "2026-01-01")
        assert ask(run, "POST", newer, HELLO).body == recorded.body
        other = DEPLOYMENT.replace("gpt-5-mini", "gpt-5")
        assert ask(run, "POST", other, HELLO | {"model": "gpt-5-mini"}).status == 424


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/azure/openai/v1/chat/completions", HELLO | {"model": "gpt-5-mini"}),
        ("/azure/models/chat/completions", HELLO | {"model": "gpt-5-mini"}),
        ("/openai/v1/chat/completions", HELLO | {"model": "gpt-5-mini"}),
        ("/mistral/v1/chat/completions", HELLO | {"model": "gpt-5-mini"}),
        ("/azure/openai/responses", {"model": "gpt-5-mini", "input": "Hello"}),
        ("/cohere/v2/chat", HELLO | {"model": "gpt-5-mini"}),
    ],
)
def test_the_same_question_has_one_answer_at_every_server(
    tmp_path: Path, server: FakeProvider, path: str, body: dict[str, Any]
) -> None:
    with run_over(tmp_path, "record", environment=azure(server)) as run:
        ask(run, "POST", DEPLOYMENT, HELLO)

    with run_over(tmp_path) as run:
        replayed = ask(run, "POST", path, body)
    assert replayed.status == 200
    assert b"You said: Hello" in replayed.body


def test_a_prompt_to_go_on_with_is_no_message_of_a_chat(tmp_path: Path, server: FakeProvider) -> None:
    asked = {"model": "m", "prompt": "Hello"}
    with run_over(tmp_path, "record", server.url) as run:
        recorded = ask(run, "POST", "/v1/completions", asked)

    assert recorded.json["choices"][0]["text"] == "You said: Hello"
    with run_over(tmp_path) as run:
        assert ask(run, "POST", "/v1/completions", asked).body == recorded.body
        assert (
            ask(run, "POST", "/azure/openai/deployments/m/completions", {"prompt": ["Hello"]}).status == 200
        )
        raw = asked | {"raw": True, "stream": False}
        assert ask(run, "POST", "/api/generate", raw).json["response"] == "You said: Hello"
        assert ask(run, "POST", "/v1/chat/completions", HELLO | {"model": "m"}).status == 424
        assert ask(run, "POST", "/api/generate", asked).status == 424
        streamed = ask(run, "POST", "/v1/completions", asked | {"stream": True})
        assert streamed.body.endswith(b"data: [DONE]\n\n")
        assert b"usage" not in streamed.body  # nobody asked for it


def test_several_prompts_are_not_answered_with_the_first_alone(tmp_path: Path, server: FakeProvider) -> None:
    asked = {"model": "m", "prompt": ["One", "Two"]}
    with run_over(tmp_path, "record", server.url) as run:
        ask(run, "POST", "/v1/completions", asked)

    with run_over(tmp_path) as run:
        assert ask(run, "POST", "/v1/completions", asked).status == 200
        assert ask(run, "POST", "/v1/completions", asked | {"stream": True}).status == 424


@pytest.mark.parametrize("stream", [False, True])
def test_cohere_is_recorded_and_replayed_to_the_byte(
    tmp_path: Path, server: FakeProvider, stream: bool
) -> None:
    asked = HELLO | {"model": "command-a", "stream": stream, "k": 3}
    with run_over(tmp_path, "record", environment={"CO_API_URL": server.url, "CO_API_KEY": REAL_KEY}) as run:
        recorded = ask(run, "POST", "/cohere/v2/chat", asked)

    with run_over(tmp_path) as run:
        for _ in range(20):
            assert ask(run, "POST", "/cohere/v2/chat", asked).body == recorded.body
        missed = ask(run, "POST", "/cohere/v2/chat", asked | {"k": 4})
    assert missed.status == 424
    assert "top_k" in missed.json["message"]


def test_a_service_without_a_server_says_which_variable_names_it(tmp_path: Path) -> None:
    """Not even a client's own key is sent anywhere; and a replay needs no server at all."""
    with run_over(tmp_path, "record") as run:
        refused = ask(run, "POST", DEPLOYMENT, HELLO, [("api-key", "of-the-client")])
    assert refused.status >= 400
    assert "AZURE_OPENAI_ENDPOINT: is not set" in refused.json["error"]["message"]

    assert not (tmp_path / "INDEX.toml").exists()
    with run_over(tmp_path) as run:
        assert ask(run, "POST", DEPLOYMENT, HELLO).status == 424
