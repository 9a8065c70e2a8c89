"""What goes wrong at the other end is one of our errors, within its time, and shows no key."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import pickle
import socket
import traceback
from functools import cache

import pytest

from cortex_replay import (
    LlmError,
    LlmRequest,
    OllamaAdapter,
    ResponseParse,
    Timeout,
    Transport,
    Upstream,
)
from cortex_replay.adapters.deadline import Deadline
from cortex_replay.adapters.live import LiveAdapter
from tests.adapters.calling import Call, calls, complete, dialects, failed_with, read_stream, run
from tests.adapters.dialects import CANARY, DIALECTS, Dialect, ask
from tests.adapters.fake_provider import (
    Exchange,
    Script,
    hang_up,
    serving,
    silence,
    stream,
    whole,
)


@dialects
@calls
@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_an_error_status_keeps_status_type_and_message(dialect: Dialect, call: Call, status: int) -> None:
    """And is not tried again."""
    script = whole(dialect.error(status, "no such thing"), status)

    outcome, provider = run(dialect, call, script, max_retries=3)

    error = failed_with(outcome, Upstream)
    assert isinstance(error, Upstream)
    assert (error.status, error.message) == (status, "no such thing")
    assert (error.error_type is not None) == (dialect.protocol != "ollama-chat")
    assert len(provider.received) == 1


@dialects
@calls
@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_what_may_pass_is_tried_again(dialect: Dialect, call: Call, status: int) -> None:
    """Up to the allowed number of times, and then the last error counts."""
    refusal = whole(dialect.error(status, "later"), status, retry_after="0.01")
    good = stream(dialect.events("Hel", "lo."), dialect.media_type)
    if call is complete:
        good = whole(dialect.answer())

    outcome, provider = run(dialect, call, refusal, refusal, good, max_retries=2)
    assert not isinstance(outcome, LlmError), outcome
    assert len(provider.received) == 3

    outcome, provider = run(dialect, call, refusal, max_retries=2)
    error = failed_with(outcome, Upstream)
    assert isinstance(error, Upstream)
    assert error.status == status
    assert len(provider.received) == 3


@dialects
@calls
def test_a_server_that_says_not_to_try_again_is_believed(dialect: Dialect, call: Call) -> None:
    outcome, provider = run(
        dialect, call, whole(dialect.error(500, "no"), 500, x_should_retry="false"), max_retries=2
    )

    failed_with(outcome, Upstream)
    assert len(provider.received) == 1


@dialects
@calls
def test_a_wait_beyond_the_budget_is_not_waited(
    dialect: Dialect, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets the error now, not a timeout later."""
    script = whole(dialect.error(429, "later"), 429, retry_after="3600")
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", note)
    outcome, provider = run(dialect, call, script, max_retries=2)

    error = failed_with(outcome, Upstream)
    assert isinstance(error, Upstream)
    assert error.status == 429
    assert len(provider.received) == 1
    assert max(pauses, default=0) < 0.1, "but for the server's own"


@dialects
@calls
def test_a_broken_connection_is_tried_again(dialect: Dialect, call: Call) -> None:
    good = whole(dialect.answer()) if call is complete else stream(dialect.events("a"), dialect.media_type)

    outcome, provider = run(dialect, call, hang_up, good, max_retries=1)
    assert not isinstance(outcome, LlmError), outcome
    assert len(provider.received) == 2

    outcome, _ = run(dialect, call, hang_up)
    error = failed_with(outcome, Transport)
    assert "the connection to http://127.0.0.1:" in str(error)


@dialects
@calls
def test_a_server_that_is_not_there(dialect: Dialect, call: Call) -> None:
    async def main() -> object:
        async with dialect.adapter("http://127.0.0.1:1", max_retries=1) as adapter:
            try:
                return await call(adapter, ask())
            except LlmError as error:
                return error

    error = failed_with(asyncio.run(main()), Transport)
    told = "cannot connect to http://127.0.0.1:1 (Connection refused)"
    assert str(error) == f"transport: {told}; start the server, or correct its address"


def test_a_name_that_nobody_knows_is_told_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(*_: object, **__: object) -> object:
        raise socket.gaierror(-2, "Name or service not known")

    async def main() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
        async with DIALECTS[0].adapter("https://models.example/v1", max_retries=0) as adapter:
            await complete(adapter, ask())

    with pytest.raises(Transport) as caught:
        asyncio.run(main())
    assert "cannot connect to https://models.example (Name or service not known); check" in str(caught.value)


def test_calls_that_fail_give_their_places_back() -> None:
    """At most a hundred are under way at once; the next one does not wait for those that have failed."""

    async def main() -> list[object]:
        async with DIALECTS[0].adapter("http://127.0.0.1:1", max_retries=0) as adapter:
            return [
                error
                for _ in range(11)
                for error in await asyncio.gather(
                    *[complete(adapter, ask()) for _ in range(10)], return_exceptions=True
                )
            ]

    assert {type(error) for error in asyncio.run(main())} == {Transport}


def test_an_error_takes_nothing_along_that_was_being_handled() -> None:
    """It may hold the answer, or the request with its key."""

    class Hasty(OllamaAdapter):
        async def _before_call(self, _: LlmRequest, deadline: Deadline) -> None:
            try:
                raise ValueError("x-api-key: ...")
            except ValueError as error:
                raise Timeout(deadline.timeout_ms) from error

    for call in (complete, read_stream):
        with pytest.raises(Timeout) as caught:
            asyncio.run(call(Hasty(allow_unpinned=True), ask()))
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)


@dialects
@calls
def test_the_deadline_counts_everything(dialect: Dialect, call: Call) -> None:
    """No answer at all; and retries with their pauses, none of which is long in itself."""
    outcome, _ = run(dialect, call, silence, request=ask(timeout_ms=200))
    error = failed_with(outcome, Timeout)
    assert isinstance(error, Timeout)
    assert error.timeout_ms == 200
    assert "timeout after 200 ms, waiting for http://127.0.0.1:" in str(error)

    outcome, provider = run(dialect, call, hang_up, request=ask(timeout_ms=300), max_retries=1000)
    assert isinstance(outcome, Transport | Timeout)
    assert len(provider.received) < 100


@dialects
@calls
def test_a_stall_in_the_middle_is_a_timeout(dialect: Dialect, call: Call) -> None:
    """Also when bytes keep trickling: the deadline is for the whole answer."""

    async def trickle(exchange: Exchange) -> None:
        await exchange.start_stream(dialect.media_type if call is read_stream else "application/json")
        for _ in range(1000):
            await exchange.piece(b" ")
            await asyncio.sleep(0.01)

    outcome, _ = run(dialect, call, trickle, request=ask(timeout_ms=150))

    failed_with(outcome, Timeout)


@dialects
@pytest.mark.parametrize("ends", [True, False], ids=["ended", "reset"])
def test_a_stream_without_its_last_event_is_an_error(dialect: Dialect, ends: bool) -> None:
    """Weakness 13 of the reference, which ended in silence. The chunks up to there are handed on."""
    events = dialect.events("Hel", "lo.")[:-1]
    seen: list[str] = []

    async def call(adapter: LiveAdapter, request: LlmRequest) -> object:
        async for chunk in adapter.stream(request):
            seen.append(chunk.delta)  # noqa: PERF401 - what came before the error counts
        return seen

    outcome, _ = run(dialect, call, stream(events, dialect.media_type, ends=ends))

    failed_with(outcome, Transport)
    assert "".join(seen) == "Hello." or not ends


@dialects
def test_an_error_in_mid_stream_is_an_upstream_error(dialect: Dialect) -> None:
    """Weakness 13: the reference ignored Anthropic's, and took Ollama's for an empty chunk."""
    events = [*dialect.events("Hel")[:-1], dialect.error_event("overloaded")]

    outcome, _ = run(dialect, read_stream, stream(events, dialect.media_type))

    error = failed_with(outcome, Upstream)
    assert isinstance(error, Upstream)
    assert (error.status, error.message) == (200, "overloaded")


@dialects
@calls
def test_an_error_in_a_successful_answer_is_an_error(dialect: Dialect, call: Call) -> None:
    """Weakness 13: an Ollama error body was an empty success."""
    outcome, _ = run(dialect, call, whole(dialect.error(500, "broken inside")))

    error = failed_with(outcome, Upstream)
    assert isinstance(error, Upstream)
    assert (error.status, error.message) == (200, "broken inside")


NO_ANSWERS: dict[str, tuple[bytes, str]] = {
    "html": (b"<html>Sign in to the hotel's network</html>", "text/html"),
    "empty": (b"", "application/json"),
    "a list": (b"[]", "application/json"),
    "an empty object": (b"{}", "application/json"),
    "a number": (b"12", "application/json"),
    "null": (b"null", "application/json"),
    "half": (b'{"id": "x", "content": [', "application/json"),
    "not utf-8": (b'{"content": "\xff\xfe"}', "application/json"),
    "deep": (b"[" * 100_000, "application/json"),
}


@dialects
@calls
@pytest.mark.parametrize("name", NO_ANSWERS)
def test_what_is_no_answer_is_a_parse_error(dialect: Dialect, call: Call, name: str) -> None:
    body, content_type = NO_ANSWERS[name]

    outcome, _ = run(dialect, call, whole(body, content_type=content_type))

    failed_with(outcome, ResponseParse)


@dialects
@calls
def test_a_good_answer_with_a_wrong_content_type_is_a_parse_error(dialect: Dialect, call: Call) -> None:
    script = whole(dialect.answer(), content_type="text/html")
    if call is read_stream:
        script = stream(dialect.events("Hi."), "application/octet-stream")

    outcome, _ = run(dialect, call, script)

    failed_with(outcome, ResponseParse)


NO_EVENTS = {
    "not json": b"hello",
    "not utf-8": b'{"type": "x", "delta": "\xff"}',
    "a list": b"[]",
    "wrong kinds": b'{"type": "content_block_delta", "delta": 5, "choices": 5, "message": 5, "response": 5}',
}


@dialects
@pytest.mark.parametrize("name", NO_EVENTS)
def test_a_stream_that_is_none_is_a_parse_error(dialect: Dialect, name: str) -> None:
    event = NO_EVENTS[name]
    if dialect.protocol == "openai-responses" and name == "wrong kinds":
        event = b'{"type": "response.completed", "response": 5}'
    event = event + b"\n" if dialect.protocol == "ollama-chat" else b"data: " + event + b"\n\n"

    outcome, _ = run(dialect, read_stream, stream([event], dialect.media_type))

    failed_with(outcome, ResponseParse)


@dialects
def test_text_split_inside_a_character_is_whole(dialect: Dialect) -> None:
    """Every byte of the stream in a piece of its own."""
    raw = b"".join(dialect.events("Grüße 🙂", "日本"))

    outcome, _ = run(
        dialect, read_stream, stream([raw[i : i + 1] for i in range(len(raw))], dialect.media_type)
    )

    assert outcome[-1].response.text == "Grüße 🙂日本"


@dialects
def test_an_endless_stream_is_cut_at_its_size(dialect: Dialect) -> None:
    """Whatever time is left."""
    first, delta, *_ = dialect.events("x" * 1000)

    async def endless(exchange: Exchange) -> None:
        await exchange.start_stream(dialect.media_type)
        await exchange.piece(first)
        while True:
            await exchange.piece(delta * 10)

    outcome, _ = run(dialect, read_stream, endless, request=ask(timeout_ms=60_000), max_body_bytes=1_000_000)

    assert "larger than 1000000 bytes" in str(failed_with(outcome, ResponseParse))


@dialects
def test_an_endless_event_is_cut_at_its_size(dialect: Dialect) -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.start_stream(dialect.media_type)
        await exchange.piece(b"data: {")
        while True:
            await exchange.piece(b"x" * 1_000_000)

    outcome, _ = run(dialect, read_stream, endless, request=ask(timeout_ms=60_000))

    failed_with(outcome, ResponseParse)


@cache
def make_bomb() -> bytes:
    return gzip.compress(b" " * 50_000_000)


@dialects
@calls
def test_a_compressed_bomb_does_not_go_off(dialect: Dialect, call: Call) -> None:
    """Nothing compressed is asked for; what comes all the same is decoded no further than the limit."""
    kind = "application/json" if call is complete else dialect.media_type
    script = whole(make_bomb(), content_type=kind, content_encoding="gzip")

    outcome, provider = run(dialect, call, script, max_body_bytes=1_000_000)

    assert "larger than" in str(failed_with(outcome, ResponseParse))
    assert provider.received[-1].headers["accept-encoding"] == "identity"


@dialects
@calls
def test_a_compressed_answer_is_read(dialect: Dialect, call: Call) -> None:
    """A proxy in between may not care what was asked for."""
    raw = json.dumps(dialect.answer()).encode() if call is complete else b"".join(dialect.events("Hello."))
    packed = gzip.compress(raw)
    kind = "application/json" if call is complete else dialect.media_type

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream(kind, content_encoding="gzip")
        for i in range(len(packed)):
            await exchange.piece(packed[i : i + 1])
        await exchange.end_stream()

    outcome, _ = run(dialect, call, script)

    response = outcome if call is complete else outcome[-1].response
    assert response.text == "Hello."

    outcome, _ = run(dialect, call, whole(raw, content_type=kind, content_encoding="br"))
    failed_with(outcome, ResponseParse)
    outcome, _ = run(dialect, call, whole(raw, content_type=kind, content_encoding="gzip"))
    failed_with(outcome, ResponseParse)


@dialects
def test_a_lie_about_the_length_is_an_error(dialect: Dialect) -> None:
    async def script(exchange: Exchange) -> None:
        body = json.dumps(dialect.answer()).encode()
        await exchange.head(200, {"content-type": "application/json", "content-length": str(len(body) + 10)})
        await exchange.send(body)
        exchange.reset()

    outcome, _ = run(dialect, complete, script)

    failed_with(outcome, Transport)


@dialects
@calls
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_never_followed(dialect: Dialect, call: Call, status: int) -> None:
    """httpx would take ``x-api-key`` along; no request reaches the other host, with a key or without."""

    async def main() -> None:
        async with serving(whole(dialect.answer())) as elsewhere:
            script = whole(b"", status, location=elsewhere.url + "/v1/messages")
            async with serving(script) as provider, dialect.adapter(provider.url) as adapter:
                with pytest.raises(Upstream, match="redirect") as caught:
                    await call(adapter, ask())
                assert caught.value.status == status
            assert elsewhere.received == []

    asyncio.run(main())


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d.has_key], ids=str)
@calls
@pytest.mark.parametrize("where", ["message", "type", "plain text", "mid-stream"])
def test_a_key_that_the_server_repeats_is_cut_out(
    dialect: Dialect, call: Call, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In messages, in representations, in tracebacks and in every log at its most talkative."""
    caplog.set_level(logging.DEBUG)
    echo = f"Incorrect API key provided: {CANARY}."
    script = whole({"error": {"message": echo, "type": "auth"}}, 401)
    if where == "type":
        script = whole({"error": {"message": "no", "type": echo}}, 401)
    if where == "plain text":
        script = whole(echo.encode(), 401, "text/plain")
    if where == "mid-stream":
        script = stream([dialect.error_event(echo)], dialect.media_type)

    outcome, provider = run(dialect, call, script)

    assert any(CANARY in value for value in provider.received[0].headers.values()), "it was sent"
    failed_with(outcome, Upstream if where != "mid-stream" or call is read_stream else ResponseParse)
    assert CANARY not in caplog.text


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d.has_key], ids=str)
@calls
@pytest.mark.parametrize("script", [hang_up, silence, whole(b"<html>", 502, "text/html"), whole(b"{")])
def test_no_failure_shows_the_key_even_with_local_variables(
    dialect: Dialect, call: Call, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    """pytest's ``--showlocals`` and error trackers print every variable of every frame."""
    caplog.set_level(logging.DEBUG)

    outcome, _ = run(dialect, call, script, request=ask(timeout_ms=150))

    assert isinstance(outcome, LlmError)
    shown = traceback.TracebackException.from_exception(outcome, capture_locals=True)
    assert CANARY not in "".join(shown.format()) + caplog.text


@dialects
def test_the_adapter_itself_shows_no_key(dialect: Dialect) -> None:
    adapter = dialect.adapter("http://127.0.0.1:1")

    assert CANARY not in repr(adapter) + repr(vars(adapter)) + repr(vars(adapter._http))
    if dialect.has_key:
        with pytest.raises(TypeError):
            pickle.dumps(adapter._http._key)
