"""What is recorded, what is not, and what the client has meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from cortex_replay import Store
from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.gateway import Gateway
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import (
    Exchange,
    FakeProvider,
    Script,
    hang_up,
    serving_in_thread,
    stream,
    whole,
)
from tests.gateway.conftest import Opened
from tests.gateway.upstream import REAL_KEY
from tests.waiting import wait_until

CLAUDE, CHAT, _, OLLAMA = DIALECTS
ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]}
STREAMED = {**ASKED, "stream": True}


def post(
    gateway: Gateway, body: Any = None, path: str = "anthropic/v1/messages", **options: Any
) -> httpx.Response:
    return httpx.post(f"{gateway.url()}/{path}", json=ASKED if body is None else body, timeout=60, **options)


def scoped(gateway: Gateway, scope: str, body: Any = None) -> httpx.Response:
    url = gateway.url("anthropic", scope) + "/v1/messages"
    return httpx.post(url, json=ASKED if body is None else body, timeout=60)


def stored(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


def cut(pieces: list[bytes]) -> Script:
    return stream(pieces, ends=False)


EVENTS = CLAUDE.events("Hello ", "there", "!")
CANNOT_BE_RECORDED: dict[str, Script] = {
    "cut off": cut(EVENTS[:-1]),
    "cut off at once": cut([]),
    "ends without its last event": stream(EVENTS[:-1]),
    "server error": whole(b'{"type":"error","error":{"type":"api_error","message":"x"}}', 500),
    "too many requests": whole(b'{"type":"error","error":{"type":"rate_limit_error","message":"x"}}', 429),
    "a redirect": whole(b"", 307, location="http://127.0.0.1:1/"),
    "hangs up": hang_up,
}
NO_COMPLETIONS: dict[str, Script] = {
    "an error in mid-stream": stream(
        [
            *EVENTS[:2],
            b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n',
        ]
    ),
    "html": whole(b"<html>", 200, "text/html"),
    "an empty body": whole(b""),
    "an error with a good status": whole({"error": {"message": "no", "type": "api_error"}}),
    "half a document": whole(b'{"content": [{"type": "text", "te'),
    "not utf-8": whole(b'{"content": "\xff\xfe"}'),
}


@pytest.mark.parametrize("name", CANNOT_BE_RECORDED)
@pytest.mark.parametrize("body", [ASKED, STREAMED], ids=["whole", "streamed"])
def test_what_is_no_answer_is_not_recorded(opened: Opened, tmp_path: Path, name: str, body: Any) -> None:
    """And the next call asks again, as if nothing had been."""
    good = whole(CLAUDE.answer("fine")) if body is ASKED else stream(CLAUDE.events("fine"))
    with (
        serving_in_thread(CANNOT_BE_RECORDED[name], good) as provider,
        opened("once", provider.url) as gateway,
    ):
        try:
            first = post(gateway, body).content
        except httpx.HTTPError:
            first = b""
        assert REAL_KEY.encode() not in first
        assert b"fine" in post(gateway, body).content
        assert gateway.run.ledger.recorded == 1
    (item,) = stored(tmp_path).list()
    assert stored(tmp_path).get(item.model, item.prompt_hash).answers[0].text == "fine"


@pytest.mark.parametrize("name", NO_COMPLETIONS)
def test_what_is_no_completion_is_recorded_as_it_came(opened: Opened, tmp_path: Path, name: str) -> None:
    """Its status says that it is no error; the next call gets the next answer."""
    with (
        serving_in_thread(NO_COMPLETIONS[name], whole(CLAUDE.answer("fine"))) as provider,
        opened("once", provider.url) as gateway,
    ):
        live = [scoped(gateway, "a") for _ in range(2)]
        assert gateway.run.ledger.recorded == 2
    with opened() as gateway:
        replayed = [scoped(gateway, "a") for _ in range(2)]

    assert [got.content for got in replayed] == [got.content for got in live]
    assert [got.status_code for got in replayed] == [200, 200]
    (item,) = stored(tmp_path).list()
    assert list(stored(tmp_path).failures(item.model, item.prompt_hash)) == [1]


def test_errors_are_passed_on_as_they_are(opened: Opened) -> None:
    """Status, body, and when to come back."""
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
    with (
        serving_in_thread(whole(body, 429, retry_after="7", request_id="req_9")) as provider,
        opened("once", provider.url) as gateway,
    ):
        answer = post(gateway)

    assert (answer.status_code, answer.content) == (429, body)
    assert (answer.headers["retry-after"], answer.headers["request-id"]) == ("7", "req_9")
    ledger = gateway.run.ledger  # the gateway is closed: no call is under way
    assert (ledger.live, ledger.failed) == (1, 1)


def test_failures_are_answers_when_that_is_asked_for(opened: Opened) -> None:
    """In their turn, then the recording goes on; in another protocol, in its shape."""
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'
    scripts = (whole(body, 529, retry_after="3"), whole(CLAUDE.answer("fine")))
    with (
        serving_in_thread(*scripts) as provider,
        opened("once", provider.url, record_failures=True) as gateway,
    ):
        assert [post(gateway).status_code for _ in range(2)] == [529, 200]
    with opened() as gateway:
        failed, fine = scoped(gateway, "a"), scoped(gateway, "a")
        url = gateway.url("openai", "b") + "/v1/chat/completions"
        other = httpx.post(url, json=ASKED)

    assert (failed.status_code, failed.content, failed.headers["retry-after"]) == (529, body, "3")
    assert fine.json()["content"][0]["text"] == "fine"
    assert (other.status_code, other.json()["error"]["message"]) == (529, "busy")


def test_the_first_event_is_there_before_the_last_is_sent(opened: Opened) -> None:
    may_go_on = threading.Event()

    async def slow(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.piece(EVENTS[0] + EVENTS[1])
        await asyncio.to_thread(may_go_on.wait)
        for event in EVENTS[2:]:
            await exchange.piece(event)
        await exchange.end_stream()

    with (
        serving_in_thread(slow) as provider,
        opened("once", provider.url) as gateway,
        httpx.stream("POST", gateway.url("anthropic") + "/v1/messages", json=STREAMED, timeout=60) as answer,
    ):
        pieces = answer.iter_raw()
        first = next(pieces)
        assert b"message_start" in first
        may_go_on.set()
        assert first + b"".join(pieces) == b"".join(EVENTS)


def test_a_client_that_leaves_ends_the_call_upstream(opened: Opened, tmp_path: Path) -> None:
    """Nothing of it is recorded, and whoever asks next has the turn."""

    async def endless(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.piece(EVENTS[0])
        while True:
            await exchange.piece(EVENTS[1])
            await asyncio.sleep(0.01)

    with (
        serving_in_thread(endless, stream(CLAUDE.events("fine"))) as provider,
        opened("once", provider.url) as gateway,
    ):
        with httpx.stream("POST", gateway.url("anthropic") + "/v1/messages", json=STREAMED) as answer:
            next(answer.iter_raw())
        wait_until(lambda: provider.closed_early == 1)
        assert b"fine" in post(gateway, STREAMED).content
    assert len(stored(tmp_path)) == 1


def test_a_client_that_leaves_before_the_answer_begins_ends_the_call_too(opened: Opened) -> None:
    async def silent(exchange: Exchange) -> None:
        await exchange.until_closed()
        raise ConnectionError

    with serving_in_thread(silent) as provider, opened("once", provider.url) as gateway:
        with pytest.raises(httpx.TimeoutException):
            httpx.post(gateway.url("anthropic") + "/v1/messages", json=ASKED, timeout=0.3)
        wait_until(lambda: provider.closed_early == 1)


def test_compressed_answers_are_stored_readable(opened: Opened, tmp_path: Path) -> None:
    body = gzip.compress(json.dumps(CLAUDE.answer("fine")).encode())
    with (
        serving_in_thread(whole(body, content_encoding="gzip")) as provider,
        opened("once", provider.url) as gateway,
    ):
        answer = post(gateway)
        assert answer.json()["content"][0]["text"] == "fine"
        assert provider.received[0].headers["accept-encoding"] == "identity"
    (item,) = stored(tmp_path).list()
    assert b"fine" in stored(tmp_path).content(item.model, item.prompt_hash)


@pytest.mark.parametrize("ends", ["\n\n", "\r\n\r\n", "\r\r"], ids=repr)
def test_a_stream_comes_again_byte_for_byte(opened: Opened, ends: str) -> None:
    """Whatever its line ends, wherever the network cut it."""
    whole_stream = b"".join(EVENTS).decode().replace("\n", ends[: len(ends) // 2]).encode() + "é".encode()[:0]
    pieces = [whole_stream[i : i + 7] for i in range(0, len(whole_stream), 7)]
    with serving_in_thread(stream(pieces)) as provider, opened("once", provider.url) as gateway:
        first = post(gateway, STREAMED).content
    with opened() as gateway:
        again = post(gateway, STREAMED)

    assert again.content == first == whole_stream
    assert again.headers["content-type"] == "text/event-stream"


def test_only_named_headers_are_recorded(opened: Opened, tmp_path: Path) -> None:
    headers: dict[str, Any] = {
        "request_id": "req_1",
        "anthropic_organization_id": "org_1",
        "set_cookie": "a=b",
        "server": "x",
    }
    with (
        serving_in_thread(whole(CLAUDE.answer(), **headers)) as provider,
        opened("once", provider.url) as gateway,
    ):
        assert "set-cookie" not in post(gateway).headers
    (item,) = stored(tmp_path).list()
    wire = stored(tmp_path).get(item.model, item.prompt_hash).answers[0].wire
    assert wire is not None
    assert wire["headers"] == {"content-type": "application/json", "request-id": "req_1"}


def test_a_secret_in_an_answer_is_cut_out_and_the_client_has_it(opened: Opened, tmp_path: Path) -> None:
    """What came over the wire is then not kept as it came."""
    halves = f"Your key is {REAL_KEY[:9]}", f"{REAL_KEY[9:]}."
    with (
        serving_in_thread(stream(CLAUDE.events(*halves))) as provider,
        opened("once", provider.url) as gateway,
    ):
        assert REAL_KEY[9:].encode() in post(gateway, STREAMED).content
    (item,) = stored(tmp_path).list()
    answer = stored(tmp_path).get(item.model, item.prompt_hash).answers[0]
    assert answer.text == "Your key is [REDACTED:known-value]."
    assert answer.wire is None
    with opened() as gateway:
        assert b"REDACTED" in post(gateway, STREAMED).content


def test_the_key_goes_to_its_provider_and_the_client_s_nowhere(opened: Opened) -> None:
    with serving_in_thread(whole(CLAUDE.answer())) as provider, opened("once", provider.url) as gateway:
        mine = {
            "authorization": "Bearer mine",
            "x-api-key": "mine",
            "cookie": "c=1",
            "x-cortex-replay-scope": "s",
            "anthropic-version": "2023-06-01",
        }
        post(gateway, headers=mine)
    received = provider.received[0].headers
    assert received["x-api-key"] == REAL_KEY
    assert received["anthropic-version"] == "2023-06-01"
    assert {"authorization", "cookie", "x-cortex-replay-scope"}.isdisjoint(received)


def test_labelled_text_does_not_leave(opened: Opened) -> None:
    with serving_in_thread(whole(CLAUDE.answer())) as provider, opened("once", provider.url) as gateway:
        secret = {**ASKED, "messages": [{"role": "user", "content": "[SENSITIVITY:high] the plan"}]}
        answer = post(gateway, secret)

        assert answer.status_code == 400
        assert "sensitivity" in answer.text.lower()
        assert answer.headers["x-should-retry"] == "false"
        assert provider.received == []


def test_a_budget_is_kept(opened: Opened) -> None:
    with (
        serving_in_thread(whole(CLAUDE.answer())) as provider,
        opened("record", provider.url, budget_calls=1) as gateway,
    ):
        other = {**ASKED, "max_tokens": 8}
        assert [post(gateway, body).status_code for body in (ASKED, ASKED, other)] == [200, 200, 400]
        assert len(provider.received) == 1


def counted(count: int) -> Callable[[], Script]:
    def make() -> Script:
        given = iter(range(1, count + 1))

        async def script(exchange: Exchange) -> None:
            await asyncio.sleep(0.02)
            await exchange.whole(json.dumps(CLAUDE.answer(f"answer {next(given)}")).encode())

        return script

    return make


def text(answer: httpx.Response) -> str:
    return str(answer.json()["content"][0]["text"])


def in_threads(calls: list[Callable[[], httpx.Response]]) -> list[httpx.Response]:
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda call=call: answers.append(call())) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_the_n_th_call_of_a_scope_is_answer_n(opened: Opened) -> None:
    """Eight at once in one scope are eight answers; eight scopes share the first."""
    with serving_in_thread(counted(99)()) as provider, opened("once", provider.url) as gateway:
        in_one = in_threads([lambda: scoped(gateway, "one")] * 3)
        in_many = in_threads([lambda i=i: scoped(gateway, f"test {i}") for i in range(8)])  # type: ignore[misc]
        assert len(provider.received) == 3, "other scopes are given what the first one got"
    assert sorted(map(text, in_one)) == ["answer 1", "answer 2", "answer 3"]
    assert {text(answer) for answer in in_many} == {"answer 1"}
    with opened() as gateway:
        assert [text(scoped(gateway, "a")) for _ in range(3)] == ["answer 1", "answer 2", "answer 3"]
        assert text(scoped(gateway, "b/ü [1]")) == "answer 1"
        used_up = scoped(gateway, "a")
        assert used_up.status_code == 424
        assert "was given already" in used_up.text


def test_recording_again_replaces_and_once_does_not(opened: Opened, tmp_path: Path) -> None:
    for mode, expected in (
        ("once", "answer 1"),
        ("once", "answer 1"),
        ("record", "answer 1"),
        ("live", "answer 1"),
    ):
        with serving_in_thread(counted(9)()) as provider, opened(mode, provider.url) as gateway:
            assert text(post(gateway)) == expected
            assert len(provider.received) == (0 if mode == "once" and (tmp_path / "x").exists() else 1)
            (tmp_path / "x").touch()
    with serving_in_thread(whole(CLAUDE.answer("new"))) as provider:
        with opened("once", provider.url) as gateway:
            assert text(post(gateway)) == "answer 1"
        with opened("live", provider.url) as gateway:
            assert text(post(gateway)) == "new"
            assert gateway.run.ledger.recorded == 0
        with opened("record", provider.url) as gateway:
            assert text(post(gateway)) == "new"
    with opened() as gateway:
        assert text(post(gateway)) == "new"


@pytest.mark.parametrize(
    "change",
    [
        {"system": "Be brief."},
        {"temperature": 0.5},
        {"max_tokens": 10},
        {"tools": [{"name": "f", "input_schema": {}}]},
        {"messages": [{"role": "user", "content": "q "}]},
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]},
        {"model": "n"},
        {"top_k": 1},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"never_heard_of": 1},
    ],
    ids=str,
)
def test_whatever_a_model_sees_makes_a_difference(
    opened: Opened, provider: FakeProvider, change: dict[str, Any]
) -> None:
    with opened("once", provider.url) as gateway:
        post(gateway)
    with opened() as gateway:
        assert post(gateway).status_code == 200
        assert (
            post(gateway, {**ASKED, "metadata": {"user_id": "u"}, "service_tier": "auto"}).status_code == 200
        )
        assert post(gateway, {**ASKED, **change}).status_code == 424


def test_everything_else_is_recorded_as_it_is(opened: Opened, provider: FakeProvider, tmp_path: Path) -> None:
    """Lists, counts, embeddings, uploads, lasting errors, other providers; but no credentials in a query."""
    settings = Settings(providers={"other": ProviderSettings(kind="http", base_url=provider.url)})

    def ask(gateway: Gateway) -> list[tuple[int, bytes]]:
        base = gateway.url()
        upload = {"file": ("a.txt", b"text", "text/plain")}
        answers = [
            httpx.get(f"{base}/v1/models"),
            httpx.get(f"{base}/v1/models?limit=2&key=secret-{gateway.port}"),
            httpx.get(f"{base}/anthropic/v1/models"),
            httpx.get(f"{base}/api/tags"),
            httpx.post(f"{base}/anthropic/v1/messages/count_tokens", json=ASKED),
            httpx.post(f"{base}/openai/embeddings", json={"input": "a", "model": "m"}),
            httpx.post(f"{base}/openai/embeddings", json={"model": "m", "input": "a"}),
            httpx.post(f"{base}/openai/v1/files", files=upload, data={"purpose": "batch"}),
            httpx.post(f"{base}/other/v1/messages/count_tokens", json={"anything": [1.5, None]}),
            httpx.get(f"{base}/openai/v1/files/nobody"),
        ]
        return [(answer.status_code, answer.content) for answer in answers]

    with opened("once", provider.url, settings=settings) as gateway:
        first = ask(gateway)
        assert gateway.run.ledger.refused == []
        calls = len(provider.received)
    with opened(settings=settings) as gateway:
        assert ask(gateway) == first
        missed = httpx.post(gateway.url("openai") + "/embeddings", json={"input": "b", "model": "m"})
        assert gateway.run.ledger.hits == 10

    assert calls == 9, "the second embedding is the first, in another order"
    assert [status for status, _ in first] == [200] * 7 + [404, 200, 404]
    assert missed.status_code == 424
    assert "POST /v1/embeddings of openai" in missed.json()["error"]["message"]
    files = b"".join(path.read_bytes() for path in (tmp_path / "store").rglob("*.json"))
    assert b"secret-" not in files
    report = check_store(DirectorySource(tmp_path / "store"), keep=False)
    assert report.is_trusted


def test_streams_of_other_providers_come_again(opened: Opened) -> None:
    """Event by event, though nobody here can read them."""
    events = [b'data: {"candidates": [1]}\r\n\r\n', b'data: {"candidates": ["\xc3\xa9"]}\r\n\r\n']
    path = "gemini/v1beta/interactions?alt=sse"
    with (
        serving_in_thread(stream([events[0] + events[1][:25], events[1][25:]])) as provider,
        opened("once", servers={"gemini": provider.url}) as gateway,
    ):
        first = httpx.post(f"{gateway.url()}/{path}", json={"contents": []}).content
    with opened(pace="recorded") as gateway:
        answer = httpx.post(f"{gateway.url()}/{path}", json={"contents": []})

    assert answer.content == first == b"".join(events)


def test_a_body_that_makes_no_request_is_passed_on_and_recorded_as_it_is(opened: Opened) -> None:
    """The provider's own complaint is what the client gets, also in replay."""
    complaint = b'{"type":"error","error":{"type":"invalid_request_error","message":"messages: required"}}'
    with serving_in_thread(whole(complaint, 400)) as provider, opened("once", provider.url) as gateway:
        first = post(gateway, {"model": "m", "max_tokens": 5})
    with opened() as gateway:
        again = post(gateway, {"model": "m", "max_tokens": 5})
        unknown = post(gateway, {"model": "m"})

    assert (first.status_code, first.content) == (again.status_code, again.content) == (400, complaint)
    assert unknown.status_code == 400
    assert "messages" in unknown.json()["error"]["message"]


def test_the_pace_of_a_recording(opened: Opened) -> None:
    async def slow(exchange: Exchange) -> None:
        await exchange.start_stream()
        for event in EVENTS:
            await exchange.piece(event)
            await asyncio.sleep(0.1)
        await exchange.end_stream()

    def taken(gateway: Gateway) -> tuple[float, int]:
        started = time.monotonic()
        with httpx.stream("POST", gateway.url("anthropic") + "/v1/messages", json=STREAMED) as answer:
            pieces = list(answer.iter_raw())
        assert b"".join(pieces) == b"".join(EVENTS)
        return time.monotonic() - started, len(pieces)

    with serving_in_thread(slow) as provider, opened("once", provider.url) as gateway:
        post(gateway, STREAMED)
    for pace, least in (("instant", 0.0), ("recorded", 0.25), ("2", 0.5)):
        with opened(pace=pace) as gateway:
            seconds, pieces = taken(gateway)
            assert seconds >= least, pace
            assert pace == "instant" or pieces >= 4


def test_usage_is_for_those_who_ask(opened: Opened, provider: FakeProvider) -> None:
    """A client that did not may not expect an event without choices."""
    path = "openai/v1/chat/completions"
    with opened("once", provider.url) as gateway:
        post(gateway, {**STREAMED, "stream_options": {"include_usage": True}}, path)
    with opened() as gateway:
        without = post(gateway, STREAMED, path).content
        with_it = post(gateway, {**STREAMED, "stream_options": {"include_usage": True}}, path).content

    assert b'"choices":[]' in with_it
    assert b'"choices":[]' not in without
    assert without.endswith(b"data: [DONE]\n\n")


def test_a_damaged_recording_is_not_served(opened: Opened, provider: FakeProvider, tmp_path: Path) -> None:
    with opened("once", provider.url) as gateway:
        post(gateway)
    with opened() as gateway:
        (path,) = (tmp_path / "store/fixtures").rglob("*.json")
        path.write_bytes(path.read_bytes().replace(b"You said", b"You paid"))
        answer = post(gateway)

    assert answer.status_code == 424
    assert "not what its index says" in answer.text
    assert "You paid" not in answer.text
