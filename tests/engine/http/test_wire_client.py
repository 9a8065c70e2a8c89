"""Our own calls over a client's wire."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cortex_replay import Answer, InvalidRequest, LlmError, TokenUsage, Upstream
from cortex_replay.config import ProviderSettings
from cortex_replay.engine.http.upstreams import UpstreamServer
from cortex_replay.engine.http.wire_client import WireClient
from tests.adapters.fake_provider import Script, serving_in_thread, stream, whole
from tests.builder import ask
from tests.engine.http.harness import PROTOCOLS
from tests.gateway.upstream import model_server

STREAMED: dict[str, Any] = {"stream": True}


def call(
    url: str,
    protocol: str,
    before: Answer,
    provider: ProviderSettings | None = None,
    **asked: Any,
) -> Answer:
    """Ask a server once more for a recorded answer."""

    async def work() -> Answer:
        client = WireClient(
            UpstreamServer("x", "http", url),
            protocol,
            provider,
            {},
            max_retries=0,
            max_sensitivity="medium",
        )
        try:
            return (await client.ask(ask("Hi.", **asked), before))[0]
        finally:
            await client.aclose()

    return asyncio.run(work())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_comes_with_its_bytes_and_only_harmless_headers(protocol: str, is_stream: bool) -> None:
    with model_server() as server:
        answer = call(server.url, protocol, Answer("", wire={"stream": is_stream}))

    wire = answer.wire or {}
    assert answer.text == "You said: Hi."
    assert (wire["protocol"], wire["stream"], wire["status"]) == (protocol, is_stream, 200)
    assert "anthropic-organization-id" not in str(wire["headers"])


@pytest.mark.parametrize("usage", [None, TokenUsage(1, 1)])
def test_usage_is_asked_for_where_it_was_recorded(usage: TokenUsage | None) -> None:
    """A client that did not ask for it does not expect an event without choices."""
    with model_server() as server:
        call(server.url, "openai-chat", Answer("", usage=usage, wire=STREAMED))

    assert ("stream_options" in server.received[0].json) == (usage is not None)


def test_what_is_configured_goes_along() -> None:
    claude = ProviderSettings(kind="claude", version="2024-01-01", betas=("a", "b"))
    openai = ProviderSettings(kind="openai-compat", max_tokens_field="max_completion_tokens")
    with model_server() as server:
        call(server.url, "anthropic-messages", Answer(""), claude)
        call(server.url, "openai-chat", Answer(""), openai)

    first, second = server.received
    assert (first.headers["anthropic-version"], first.headers["anthropic-beta"]) == ("2024-01-01", "a,b")
    assert "max_completion_tokens" in second.json


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (whole({"error": {"message": "no"}}, 400), Upstream),
        (whole({}, 307, location="http://127.0.0.1:1/"), Upstream),
        (whole(b"no JSON"), LlmError),
        (stream([b"data: {}\n\n"], ends=False), LlmError),
        (stream([b"data: [DONE]\n\n"]), LlmError),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_what_is_no_answer_is_an_error(script: Script, error: type[LlmError], is_stream: bool) -> None:
    with serving_in_thread(script) as server, pytest.raises(error):
        call(server.url, "openai-chat", Answer("", wire={"stream": is_stream}))


def test_a_text_that_must_not_leave_stays() -> None:
    with pytest.raises(InvalidRequest):
        call("http://127.0.0.1:1", "openai-chat", Answer(""), system="[SENSITIVITY:high] x")
