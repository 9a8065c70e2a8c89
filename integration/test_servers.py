"""Each server comes up, answers a call as it should, and goes away again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from integration.mocks import start_aimock, start_llmock
from integration.ollama import start_ollama
from integration.toxiproxy import Toxic, start_toxiproxy
from tests.servers.llamacpp import is_available, start_llamacpp

NO_WHEEL = "xllamacpp has no wheel for this platform"
needs_xllamacpp = pytest.mark.skipif(not is_available(), reason=NO_WHEEL)

HELLO = "Hello from the tiny test model. All is well."
QUESTION = {"model": "tiny", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
FIXTURES = [{"match": {"userMessage": "hi"}, "response": {"content": "Hello from aimock."}}]


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def llamacpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_llamacpp(tmp_path_factory.mktemp("llamacpp")) as url:
        yield url


def chat_text(answer: httpx.Response) -> Any:
    return answer.raise_for_status().json()["choices"][0]["message"]["content"]


def messages_text(answer: httpx.Response) -> Any:
    return answer.raise_for_status().json()["content"][0]["text"]


def test_llamacpp_answers(client: httpx.Client, llamacpp: str) -> None:
    assert chat_text(client.post(f"{llamacpp}/v1/chat/completions", json=QUESTION)) == HELLO
    assert messages_text(client.post(f"{llamacpp}/v1/messages", json=QUESTION)) == HELLO


@needs_xllamacpp
def test_llamacpp_is_gone_afterwards(client: httpx.Client, tmp_path: Path) -> None:
    with start_llamacpp(tmp_path) as url:
        assert client.get(f"{url}/health").is_success

    with pytest.raises(httpx.ConnectError):
        client.get(f"{url}/health")


@needs_xllamacpp
def test_llamacpp_wants_its_key(client: httpx.Client, tmp_path: Path) -> None:
    with start_llamacpp(tmp_path, api_key="sesame") as url:
        refused = client.post(f"{url}/v1/chat/completions", json=QUESTION)
        answered = client.post(f"{url}/v1/messages", json=QUESTION, headers={"x-api-key": "sesame"})

    assert refused.status_code == 401
    assert messages_text(answered) == HELLO


def test_ollama_answers(client: httpx.Client, tmp_path: Path) -> None:
    with start_ollama(tmp_path) as ollama:
        question = {"model": ollama.model, "messages": QUESTION["messages"], "stream": False}
        answer = client.post(f"{ollama.url}/api/chat", json=question).raise_for_status().json()

    assert answer["message"]["content"] == HELLO
    assert len(bytes.fromhex(ollama.digest)) == 32


def test_aimock_answers_and_fails(client: httpx.Client, tmp_path: Path) -> None:
    with start_aimock(tmp_path, FIXTURES) as aimock:
        url = f"{aimock.url}/v1/messages"
        answered = client.post(url, json=QUESTION)
        aimock.fail_once(529, "Overloaded", type="overloaded_error")
        failed = client.post(url, json=QUESTION)
        aimock.break_all(rateLimitRate=1)
        limited = client.post(url, json=QUESTION)
        aimock.break_all()
        recovered = client.post(url, json=QUESTION)

    assert messages_text(answered) == messages_text(recovered) == "Hello from aimock."
    assert (failed.status_code, limited.status_code) == (529, 429)


def test_aimock_wants_its_key(client: httpx.Client, tmp_path: Path) -> None:
    with start_aimock(tmp_path, FIXTURES, api_key="sesame") as aimock:
        url = f"{aimock.url}/v1/chat/completions"
        refused = client.post(url, json=QUESTION)
        aimock.break_all(dropRate=1)
        broken = client.post(url, json=QUESTION, headers={"authorization": "Bearer sesame"})

    assert (refused.status_code, broken.status_code) == (401, 500)


def test_llmock_answers_and_fails(client: httpx.Client, tmp_path: Path) -> None:
    with start_llmock(tmp_path) as llmock:
        url = f"{llmock.url}/anthropic/v1/messages"
        llmock.script({"type": "fail", "status": 529}, {"type": "reply", "text": "Hello from llmock."})
        failed = client.post(url, json=QUESTION)
        answered = client.post(url, json=QUESTION)

    assert failed.status_code == 529
    assert messages_text(answered) == "Hello from llmock."


def test_llmock_cuts_a_stream(client: httpx.Client, tmp_path: Path) -> None:
    with start_llmock(tmp_path) as llmock:
        llmock.script({"type": "stream_fault", "kind": "disconnect", "after_chunks": 3})
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            client.post(f"{llmock.url}/v1/chat/completions", json={**QUESTION, "stream": True})


def test_toxiproxy_lets_through_what_it_is_told_to(
    client: httpx.Client, llamacpp: str, tmp_path: Path
) -> None:
    with start_toxiproxy(tmp_path) as toxiproxy:
        proxy = toxiproxy.before(llamacpp)
        assert chat_text(client.post(f"{proxy.url}/v1/chat/completions", json=QUESTION)) == HELLO
        proxy.enable(False)
        with pytest.raises(httpx.ConnectError):
            client.get(f"{proxy.url}/health")
        proxy.enable()
        assert client.get(f"{proxy.url}/health").is_success


@pytest.mark.parametrize(
    ("toxic", "attributes", "error"),
    [
        ("limit_data", {"bytes": 100}, httpx.RemoteProtocolError),
        ("reset_peer", {"timeout": 0}, httpx.ReadError),
        ("timeout", {"timeout": 0}, httpx.ReadTimeout),
    ],
)
def test_toxiproxy_breaks_connections(
    llamacpp: str, tmp_path: Path, toxic: Toxic, attributes: dict[str, int], error: type[Exception]
) -> None:
    with start_toxiproxy(tmp_path) as toxiproxy, httpx.Client(trust_env=False, timeout=1) as client:
        proxy = toxiproxy.before(llamacpp)
        proxy.add(toxic, attributes)
        with pytest.raises(error):
            client.post(f"{proxy.url}/v1/chat/completions", json=QUESTION)
        proxy.remove(toxic)
        assert chat_text(client.post(f"{proxy.url}/v1/chat/completions", json=QUESTION)) == HELLO


@pytest.mark.parametrize(
    ("toxic", "attributes"),
    [
        ("bandwidth", {"rate": 1000}),
        ("latency", {"latency": 50}),
        ("slicer", {"average_size": 7, "size_variation": 3}),
        ("slow_close", {"delay": 10}),
    ],
)
def test_toxiproxy_keeps_what_it_only_delays(
    client: httpx.Client, llamacpp: str, tmp_path: Path, toxic: Toxic, attributes: dict[str, int]
) -> None:
    with start_toxiproxy(tmp_path) as toxiproxy:
        proxy = toxiproxy.before(llamacpp)
        proxy.add(toxic, attributes)
        assert chat_text(client.post(f"{proxy.url}/v1/chat/completions", json=QUESTION)) == HELLO
