"""Keys that nobody knew when the recording began: brought by a client, given to an adapter, set by a test."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import httpx
import pytest

from cortex_replay import Store
from cortex_replay.adapters.openai_compat import OpenAICompatAdapter
from cortex_replay.engine.http.relay import client_keys_in
from cortex_replay.engine.ledger import Ledger
from cortex_replay.engine.recording import RecordingAdapter
from cortex_replay.redact.process import teach
from cortex_replay.redact.redactor import Redactor
from cortex_replay.types import LlmRequest
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import Exchange, serving_in_thread, whole
from tests.cassettes.conftest import interaction, run, said, write
from tests.gateway.conftest import gateway_over
from tests.growth import costs_at_most
from tests.redact.kinds import ALNUM, some
from tests.security.test_exchanges import stored_text

KEY = "Zq" + some(Random(21), ALNUM, 14)
"""Of no shape that a pattern knows."""
BASIC = b64encode(f"bob:{KEY}".encode()).decode()
HEADERS = {
    "a key that ours takes the place of": {"authorization": f"Bearer {KEY}"},
    "a key in another header than ours": {"x-api-key": KEY},
    "a key of a service in between": {"helicone-auth": f"Bearer {KEY}"},
    "a subscription": {"ocp-apim-subscription-key": KEY},
    "a header of no known name": {"x-auth": KEY},
    "a password": {"authorization": f"Basic {BASIC}"},
    "a parameter of a scheme": {"authorization": f'Token token="{KEY}", nonce="def"'},
    "the last of two parameters": {"authorization": f"Custom user=bob,secret={KEY}"},
    "a key behind a tab": {"authorization": f"Bearer\t{KEY}"},
    "a cookie": {"cookie": f"theme=dark; session={KEY}"},
    "a key for a proxy": {"proxy-authorization": f"Bearer {KEY}"},
}


@contextmanager
def chat_server() -> Iterator[str]:
    """Answers every chat, and repeats the key that it was asked with."""
    dialect = DIALECTS[1]

    async def script(exchange: Exchange) -> None:
        await whole(dialect.answer(f"You came with {exchange.received.headers.get('authorization')}."))(
            exchange
        )

    with serving_in_thread(script) as provider:
        yield provider.url


def chat(text: str) -> dict[str, object]:
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
def test_a_key_that_a_client_brings_is_not_stored(tmp_path: Path, headers: dict[str, str]) -> None:
    with chat_server() as url, gateway_over(tmp_path, "record", url) as gateway:
        for path in ("openai/v1/chat/completions", "openai/v1/embeddings"):
            body = {**chat(f"My key is {KEY}."), "input": f"It is {KEY}."}
            reply = httpx.post(f"{gateway.url()}/{path}", json=body, headers=headers, timeout=60)
            assert reply.status_code == 200

    assert KEY not in stored_text(tmp_path)


@pytest.mark.parametrize("name", ["subscription-key", "access-key", "apiKey", "auth_token", "sig"])
def test_a_key_that_a_client_brings_in_the_query_is_not_stored(tmp_path: Path, name: str) -> None:
    with chat_server() as url, gateway_over(tmp_path, "record", url) as gateway:
        for path in ("openai/v1/chat/completions", "openai/v1/embeddings"):
            body = {**chat(f"My key is {KEY}."), "input": f"It is {KEY}."}
            address = f"{gateway.url()}/{path}?{name}={KEY}&page_token=7"
            assert httpx.post(address, json=body, timeout=60).status_code == 200

    assert KEY not in stored_text(tmp_path)


@pytest.mark.parametrize("word", ["assistant", "messages", "not-needed", "unused", "test-key", "gpt-4o"])
def test_what_a_client_brings_instead_of_a_key_is_found_in_no_recording(tmp_path: Path, word: str) -> None:
    """Else one careless client would refuse the recordings of all."""
    with chat_server() as url, gateway_over(tmp_path, "record", url) as gateway:
        headers = {"x-api-key": word, "x-auth": word, "cookie": f"a={word}; since=1700000000"}
        body = chat("As an assistant, list messages not-needed or unused since 1700000000: test-key")
        address = f"{gateway.url()}/openai/v1/chat/completions"
        assert httpx.post(address, json=body, headers=headers, timeout=60).status_code == 200

    (fixture,) = tmp_path.rglob("gpt-4o/*.json")
    assert json.loads(fixture.read_text())["request"]["messages"] == body["messages"]


@pytest.mark.parametrize(
    "value", ["", "   ", "Bearer", "Bearer ", "Basic", "Basic !!!", "Basic é", "=", ",", ";;="]
)
@pytest.mark.parametrize("name", ["authorization", "cookie", "set-cookie", "x-api-key"])
def test_a_header_that_is_empty_or_wrong_is_no_hindrance(name: str, value: str) -> None:
    assert client_keys_in([(name, value)], value) == []


def test_a_key_for_every_call_does_not_slow_the_next() -> None:
    """Some clients sign each call anew."""
    redactor = Redactor()
    random = Random(3)
    text = "hello %41 \\u0041 world " * 50
    for _ in range(160):
        redactor.learn(some(random, ALNUM, 64))
    few = Redactor([some(random, ALNUM, 64) for _ in range(128)])

    assert repr(redactor) == "Redactor(128 known values)"
    assert costs_at_most(2, lambda: redactor.text(text), lambda: few.text(text))


def test_many_keys_that_are_brought_make_no_key_of_the_environment_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", KEY)
    redactor = Redactor([KEY[::-1]])
    teach(redactor)
    for _ in range(200):
        redactor.learn(some(Random(_), ALNUM, 24))

    assert redactor.text(f"{KEY} {KEY[::-1]}")[0] == "[REDACTED:known-value] [REDACTED:known-value]"

    monkeypatch.delenv("SOME_API_KEY")
    teach(redactor)

    assert KEY not in redactor.text(KEY)[0]


def test_a_key_that_an_adapter_was_given_is_not_stored(tmp_path: Path) -> None:
    async def record(url: str) -> None:
        adapter = RecordingAdapter(OpenAICompatAdapter(f"{url}/v1", KEY), tmp_path, "record")
        answer = await adapter.complete(LlmRequest.from_dict({**chat(f"My key is {KEY}.")}))
        assert KEY in answer.text
        await adapter.aclose()

    with chat_server() as url:
        asyncio.run(record(url))

    assert len(Store.open(tmp_path).list()) == 1
    assert KEY not in stored_text(tmp_path)


@pytest.mark.parametrize("given", [None, Redactor()], ids=["default redactor", "a redactor of one's own"])
def test_a_key_that_is_set_after_the_start_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Redactor | None
) -> None:
    """A test loads its ``.env``, or sets a variable, when the recorder is there already."""

    async def record(url: str) -> None:
        inner = OpenAICompatAdapter(f"{url}/v1", "not-needed")
        adapter = RecordingAdapter(inner, tmp_path, "record", redactor=given)
        monkeypatch.setenv("LATE_API_KEY", KEY)
        await adapter.complete(LlmRequest.from_dict({**chat(f"My key is {KEY}.")}))
        await adapter.aclose()

    with chat_server() as url:
        asyncio.run(record(url))

    assert len(Store.open(tmp_path).list()) == 1
    assert KEY not in stored_text(tmp_path)


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
def test_a_key_in_a_cassette_is_not_stored(tmp_path: Path, headers: dict[str, str]) -> None:
    given = {name: [value] for name, value in headers.items()}
    question = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": f"It is {KEY}."}]}
    cassette = write(tmp_path / "c.yaml", interaction(question, said(f"So {KEY}."), asked_headers=given))
    result = run(cassette, "--store", tmp_path / "s", "--json")

    assert result.exit_code == 0
    assert KEY not in stored_text(tmp_path / "s")


def test_a_cookie_that_a_cassette_was_given_is_not_stored(tmp_path: Path) -> None:
    answered = {"content-type": ["application/json"], "set-cookie": [f"sid={KEY}; Path=/; HttpOnly"]}
    question = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    cassette = write(tmp_path / "c.yaml", interaction(question, said(f"So {KEY}."), headers=answered))
    assert run(cassette, "--store", tmp_path / "s", "--json").exit_code == 0

    assert KEY not in stored_text(tmp_path / "s")


def test_a_ledger_shows_no_key_that_was_set_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report is printed when the test that set it is over, and the variable gone."""
    ledger = Ledger(Redactor)
    monkeypatch.setenv("LATE_API_KEY", KEY)
    ledger.miss(f"GET /{KEY}", f"nothing for {KEY}")
    ledger.fail(f"status 400: {KEY}")
    ledger.refuse(KEY)
    ledger.damage(KEY)
    ledger.bypass(KEY)
    monkeypatch.delenv("LATE_API_KEY")

    assert KEY not in repr(ledger)
    assert repr(ledger).count("[REDACTED:known-value]") == 6


def test_what_an_adapter_is_given_instead_of_a_key_is_found_in_no_recording(tmp_path: Path) -> None:
    async def record(url: str) -> None:
        adapter = RecordingAdapter(OpenAICompatAdapter(f"{url}/v1", "not-needed"), tmp_path, "record")
        await adapter.complete(LlmRequest.from_dict({**chat("Is a key not-needed here?")}))
        await adapter.aclose()

    with chat_server() as url:
        asyncio.run(record(url))

    assert "Is a key not-needed here?" in stored_text(tmp_path)
