"""What a provider says is passed on as it is, recorded if it is good, and then replayed byte for byte."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Store, Transport
from cortex_replay.providers import DUMMY_KEY
from tests.adapters.dialects import DIALECTS
from tests.adapters.fake_provider import (
    FakeProvider,
    Script,
    held_back,
    serving_in_thread,
    stream,
    whole,
)
from tests.engine.http.harness import (
    PATHS,
    PROTOCOLS,
    Got,
    answer,
    ask,
    body_of,
    open_call,
    request_for,
    run_over,
)
from tests.gateway.upstream import REAL_KEY, model_server

CLAUDE = DIALECTS[0]
HELLO = request_for("Say hello.")
MESSAGES = "/anthropic/v1/messages"
EMBEDDINGS = "/openai/v1/embeddings"
ASKED = body_of("anthropic-messages", HELLO)
STREAMED = body_of("anthropic-messages", HELLO, stream=True)
wires = pytest.mark.parametrize("protocol", PROTOCOLS)
ways = pytest.mark.parametrize("stream_it", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A model server that speaks every wire."""
    with model_server() as serving:
        yield serving


def counted(*texts: str) -> list[Script]:
    return [whole(CLAUDE.answer(text)) for text in texts]


@wires
@ways
def test_once_asks_and_a_replay_gives_the_same_bytes(
    provider: FakeProvider, tmp_path: Path, protocol: str, stream_it: bool
) -> None:
    asked = body_of(protocol, HELLO, stream=stream_it)
    with run_over(tmp_path, "once", provider.url) as run:
        live, again = (ask(run, "POST", PATHS[protocol], asked) for _ in range(2))
        assert (run.ledger.live, run.ledger.recorded, run.ledger.refused) == (1, 1, [])
    with run_over(tmp_path, "once", provider.url) as run:
        known = [ask(run, "POST", PATHS[protocol], asked) for _ in range(2)]
        assert (run.ledger.live, run.ledger.hits) == (0, 2)
    with run_over(tmp_path) as run:
        replayed = [ask(run, "POST", PATHS[protocol], asked) for _ in range(2)]

    assert b"Say" in live.body
    assert [got.body for got in known] == [got.body for got in replayed] == [live.body, again.body]
    assert {got.status for got in (live, again, *known, *replayed)} == {200}
    assert len(provider.received) == 1


@ways
def test_live_asks_every_time_and_records_nothing(
    provider: FakeProvider, tmp_path: Path, stream_it: bool
) -> None:
    with run_over(tmp_path, "live", provider.url) as run:
        got = [ask(run, "POST", MESSAGES, STREAMED if stream_it else ASKED) for _ in range(2)]
        assert (run.ledger.live, run.ledger.recorded) == (2, 0)

    assert [one.status for one in got] == [200, 200]
    assert len(provider.received) == 2
    assert len(Store.open_or_create(tmp_path)) == 0


def test_record_overwrites_as_much_as_is_asked(tmp_path: Path) -> None:
    with serving_in_thread(*counted("old", "older", "new")) as provider:
        for calls in (2, 1):
            with run_over(tmp_path, "record", provider.url, every_answer=True) as run:
                for _ in range(calls):
                    ask(run, "POST", MESSAGES, ASKED)
    store = Store.open(tmp_path)

    assert [one.text for one in store.get(*store.key(HELLO)).answers] == ["new", "older"]


def test_scopes_share_what_is_asked_once(tmp_path: Path) -> None:
    async def at_once() -> list[Got]:
        calls = (answer(run, "POST", MESSAGES, ASKED, scope=scope) for scope in "abc")
        return await asyncio.gather(*calls)

    with (
        serving_in_thread(*counted("one", "two")) as provider,
        run_over(tmp_path, "once", provider.url) as run,
    ):
        got = asyncio.run(at_once())
        assert len(provider.received) == 1
        assert b"two" in ask(run, "POST", MESSAGES, ASKED, scope="b").body

    assert len({one.body for one in got}) == 1


def test_the_key_goes_to_its_provider_and_the_client_s_nowhere(
    provider: FakeProvider, tmp_path: Path
) -> None:
    brought = [("x-api-key", "mine"), ("cookie", "c=1"), ("anthropic-version", "2023-06-01")]
    with run_over(tmp_path, "live", provider.url) as run:
        assert ask(run, "POST", MESSAGES, ASKED, brought).status == 200
    (received,) = provider.received

    assert received.headers["x-api-key"] == REAL_KEY
    assert received.headers["anthropic-version"] == "2023-06-01"
    assert "cookie" not in received.headers


@pytest.mark.parametrize("path", [MESSAGES, EMBEDDINGS])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_passed_on_or_recorded(tmp_path: Path, path: str, status: int) -> None:
    """Whoever is at its end would get the key."""
    with (
        serving_in_thread(whole(CLAUDE.answer())) as elsewhere,
        serving_in_thread(whole(b"", status, location=elsewhere.url)) as provider,
        run_over(tmp_path, "once", provider.url) as run,
    ):
        got = ask(run, "POST", path, ASKED)
        assert elsewhere.received == []
        assert run.ledger.recorded == 0

    assert got.status == 502
    assert "location" not in dict(got.headers)
    assert elsewhere.url.encode() not in got.body
    assert not list(tmp_path.rglob("fixtures/**/*.json"))


@pytest.mark.parametrize(
    ("path", "variable"), [(MESSAGES, "ANTHROPIC_API_KEY"), ("/openai/v1/models", "OPENAI_API_KEY")]
)
def test_without_a_key_nobody_is_asked_and_the_client_is_told_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, variable: str
) -> None:
    """A client that brings a key of its own is passed on."""

    async def send(*_: object) -> None:
        raise Transport("passed on")

    monkeypatch.setattr("cortex_replay.adapters.http.RelayClient.relay", send)
    with run_over(tmp_path, "once") as run:
        run.open_scope("bare", environment={"HOME": "/"})
        dummy, own = ("authorization", f"Bearer {DUMMY_KEY}"), ("authorization", "Bearer mine")
        refused = ask(run, "POST", path, ASKED, [dummy], "bare")
        passed = ask(run, "POST", path, ASKED, [own], "bare")
        assert any(variable in reason for reason in run.ledger.failures)

    assert (refused.status, passed.status) == (400, 502)
    assert variable in refused.json["error"]["message"]
    assert "passed on" in passed.json["error"]["message"]


def test_an_error_is_passed_on_and_not_recorded(tmp_path: Path) -> None:
    body = CLAUDE.error(429, "slow down")
    with (
        serving_in_thread(whole(body, 429, retry_after="7"), *counted("fine")) as provider,
        run_over(tmp_path, "once", provider.url) as run,
    ):
        failed, fine = (ask(run, "POST", MESSAGES, ASKED) for _ in range(2))
        assert (run.ledger.failed, run.ledger.recorded) == (1, 1)

    assert (failed.status, failed.body, failed.headers["retry-after"]) == (429, body, "7")
    assert b"fine" in fine.body
    with run_over(tmp_path) as run:
        assert ask(run, "POST", MESSAGES, ASKED).body == fine.body


def test_a_failure_is_recorded_in_its_turn_when_asked(tmp_path: Path) -> None:
    body = CLAUDE.error(529, "busy")
    with (
        serving_in_thread(whole(body, 529), *counted("fine")) as provider,
        run_over(tmp_path, "once", provider.url, record_failures=True) as run,
    ):
        live = [ask(run, "POST", MESSAGES, ASKED) for _ in range(2)]
    with run_over(tmp_path) as run:
        replayed = [ask(run, "POST", MESSAGES, ASKED) for _ in range(2)]

    assert [(got.status, got.body) for got in replayed] == [(got.status, got.body) for got in live]
    assert [got.status for got in live] == [529, 200]


def test_a_stream_without_its_end_is_not_recorded(tmp_path: Path) -> None:
    cut = stream(CLAUDE.events("Hel", "lo")[:-1], ends=False)
    with (
        serving_in_thread(cut, stream(CLAUDE.events("fine"))) as provider,
        run_over(tmp_path, "once", provider.url) as run,
    ):
        with pytest.raises(Transport):
            ask(run, "POST", MESSAGES, STREAMED)
        assert run.ledger.recorded == 0
        assert b"fine" in ask(run, "POST", MESSAGES, STREAMED).body
    store = Store.open(tmp_path)

    assert [one.text for one in store.get(*store.key(HELLO)).answers] == ["fine"]


def test_a_provider_that_is_not_there_may_be_tried_again(tmp_path: Path) -> None:
    with run_over(tmp_path, "once", "http://127.0.0.1:1") as run:
        got = ask(run, "POST", MESSAGES, ASKED)

    assert got.status == 502
    assert "x-should-retry" not in got.headers
    message = got.json["error"]["message"]
    assert "anthropic did not answer: transport: cannot connect to http://127.0.0.1:1 (Conn" in message


def test_an_opaque_exchange_is_asked_once(provider: FakeProvider, tmp_path: Path) -> None:
    asked = {"model": "m", "input": "x"}
    with run_over(tmp_path, "once", provider.url) as run:
        live = [ask(run, "POST", EMBEDDINGS, asked) for _ in range(2)]
        assert len(provider.received) == 1
    with run_over(tmp_path) as run:
        replayed = ask(run, "POST", EMBEDDINGS, asked)

    assert {got.body for got in (*live, replayed)} == {live[0].body}
    assert live[0].json["data"][0]["embedding"] == [0.5, 0.25]


def split_over_messages(secret: str) -> dict[str, Any]:
    halves = [{"role": "user", "content": half} for half in (secret[:9], secret[9:])]
    return {**ASKED, "messages": halves}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (EMBEDDINGS, {"model": "m", "input": f"It is {REAL_KEY}."}),
        (f"{EMBEDDINGS}?tag={REAL_KEY}", {"model": "m", "input": "x"}),
        (MESSAGES, split_over_messages(REAL_KEY)),
    ],
    ids=["in an opaque body", "in a query", "over two messages"],
)
def test_a_secret_that_cannot_be_cut_out_of_a_request_is_not_recorded(
    provider: FakeProvider, tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    """The client has its answer, the ledger the reason, and the store nothing (ADR 8)."""
    with run_over(tmp_path, "once", provider.url) as run:
        assert ask(run, "POST", path, body).status == 200
        (reason,) = run.ledger.refused
        assert run.ledger.recorded == 0

    assert REAL_KEY not in reason
    assert not list(tmp_path.rglob("fixtures/**/*.json"))


def test_a_secret_in_a_message_is_cut_out_and_the_key_stays(provider: FakeProvider, tmp_path: Path) -> None:
    asked = body_of("anthropic-messages", request_for(f"It is {REAL_KEY}."))
    with run_over(tmp_path, "once", provider.url) as run:
        assert REAL_KEY.encode() in ask(run, "POST", MESSAGES, asked).body
        assert run.ledger.recorded == 1
    with run_over(tmp_path) as run:
        assert b"[REDACTED:known-value]" in ask(run, "POST", MESSAGES, asked).body

    assert all(REAL_KEY.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_labelled_text_is_refused_before_it_leaves(provider: FakeProvider, tmp_path: Path) -> None:
    for path, body in (
        (MESSAGES, body_of("anthropic-messages", request_for("[SENSITIVITY:high] the plan"))),
        (EMBEDDINGS, {"model": "m", "input": "[SENSITIVITY:high] the plan"}),
    ):
        with run_over(tmp_path, "once", provider.url) as run:
            got = ask(run, "POST", path, body)
            assert (got.status, got.headers["x-should-retry"]) == (400, "false")
    assert provider.received == []


def test_the_first_bytes_are_there_before_the_last_are_sent(tmp_path: Path) -> None:
    """A recording does not hold an answer back."""
    first, *rest = CLAUDE.events("Hel", "lo")
    may_end = threading.Event()

    async def read() -> bytes:
        async with open_call(run, "POST", MESSAGES, STREAMED) as reply:
            assert reply.live is not None
            got = await anext(reply.live)
            may_end.set()
            return got + b"".join([piece async for piece in reply.live])

    with (
        serving_in_thread(held_back(first, rest, may_end)) as provider,
        run_over(tmp_path, "once", provider.url) as run,
    ):
        assert asyncio.run(read()) == b"".join([first, *rest])


GEMINI = "/gemini/v1beta/models/g"
CONTENTS = {"contents": [{"parts": [{"text": "Say hello."}]}]}


def test_a_stream_in_another_form_than_its_wire_s_is_recorded_as_it_is(tmp_path: Path) -> None:
    """Google sends one list of JSON where nobody asked for events; who asks for events does not get it."""
    path = f"{GEMINI}:streamGenerateContent"
    pieces = b'[{"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}\n]\n'
    with (
        serving_in_thread(whole(pieces)) as provider,
        run_over(tmp_path, "once", provider.url) as run,
    ):
        assert ask(run, "POST", path, CONTENTS).body == pieces
    with run_over(tmp_path) as run:
        assert ask(run, "POST", path, CONTENTS).body == pieces
        missed = ask(run, "POST", f"{path}?alt=sse", CONTENTS)

    assert missed.status == 424
    assert missed.json["error"]["status"] == "no_fixture"
    store = Store.open(tmp_path)
    assert (len(store), len(store.exchange_keys())) == (0, 1)


def test_one_recording_serves_both_places_of_google(provider: FakeProvider, tmp_path: Path) -> None:
    """The same model is at its own API and at Vertex, whose clients bring a token."""
    vertex = "/vertex/v1beta1/projects/p/locations/l/publishers/google/models/g"
    with run_over(tmp_path, "once", provider.url) as run:
        live = ask(run, "POST", f"{GEMINI}:generateContent", CONTENTS)
    with run_over(tmp_path) as run:
        again = ask(run, "POST", f"{vertex}:generateContent", CONTENTS)
        streamed = ask(run, "POST", f"{vertex}:streamGenerateContent?alt=sse", CONTENTS)

    assert again.body == live.body
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert b"You said: Say hello." in streamed.body


def test_the_key_of_google_s_own_api_does_not_go_to_vertex(provider: FakeProvider, tmp_path: Path) -> None:
    path = "/vertex/v1/projects/p/locations/l/publishers/anthropic/models/c:rawPredict"
    asked = {"anthropic_version": "vertex-2023-10-16", "max_tokens": 5, "messages": []}
    given = [("authorization", f"Bearer {REAL_KEY}")]
    with run_over(tmp_path, "once", provider.url) as run:
        assert ask(run, "POST", path, asked, given).status == 200

    (received,) = provider.received
    assert received.headers["authorization"] == f"Bearer {REAL_KEY}"
    assert "x-goog-api-key" not in received.headers


def test_what_an_older_version_recorded_as_it_is_is_still_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knew nothing of the wire; and what is recorded since then comes first."""
    path, old = f"{GEMINI}:generateContent", b'{"candidates": [{"finishReason": "STOP"}], "old": true}'
    with monkeypatch.context() as before, serving_in_thread(whole(old)) as provider:
        before.setattr("cortex_replay.engine.http.routes.address_at", lambda _: None)
        with run_over(tmp_path, "once", provider.url) as run:
            assert ask(run, "POST", path, CONTENTS).body == old
    with run_over(tmp_path) as run:
        assert ask(run, "POST", path, CONTENTS).body == old
        assert ask(run, "POST", path, {"contents": [{"parts": [{"text": "Other."}]}]}).status == 424
    with model_server() as provider, run_over(tmp_path, "record", provider.url) as run:
        ask(run, "POST", path, CONTENTS)
    with run_over(tmp_path) as run:
        assert b"You said" in ask(run, "POST", path, CONTENTS).body
