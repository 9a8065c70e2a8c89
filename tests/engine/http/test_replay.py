"""What is recorded is answered over every wire, whole and streamed, each answer in its turn."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import orjson
import pytest

from cortex_replay import (
    Answer,
    FixtureIntegrityFailed,
    LlmRequest,
    LlmResponse,
    StreamChunk,
    TimedChunk,
    TokenUsage,
    ToolCall,
)
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.opaque import opaque_exchange
from cortex_replay.engine.http.tapes import StreamTape
from cortex_replay.store.exchange import Exchange, render_exchange
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.wire import WIRES
from tests.builder import StoreBuilder, fixture_of
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

HELLO = request_for("Say hello.")
DIE = request_for("Roll a die.")
CALL = ToolCall(id="call_1", name="look", arguments={"city": "Paris"})
CHUNKS = (StreamChunk("Hel"), StreamChunk("lo."), StreamChunk("", "stop"))
ANSWER = Answer("Hello.", None, "real", TokenUsage(3, 4), "stop")
STREAMED = Answer(
    "Hello.", None, "real", TokenUsage(3, 4), "stop", stream=tuple(TimedChunk(7, chunk) for chunk in CHUNKS)
)
NAMELESS = ("bedrock-converse", "cohere-chat")
"""The wires whose answers do not name the model."""
wires = pytest.mark.parametrize("protocol", PROTOCOLS)
ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def made(tmp_path: Path) -> StoreBuilder:
    """A store that is made by hand."""
    return StoreBuilder(tmp_path / "store")


def store_of(made: StoreBuilder, request: LlmRequest, *answers: Answer) -> Path:
    made.add_fixture(fixture_of(request, *answers))
    return made.write()


def read(protocol: str, got: Got, *, stream: bool) -> LlmResponse:
    """An answer as this project's own decoder of the wire reads it."""
    assert got.status == 200, got
    if not stream:
        return WIRES[protocol].decode_answer(got.body, "asked")
    decoder = WIRES[protocol].stream_decoder("asked")
    chunks = [*decoder.feed(got.body), *decoder.finish()]
    assert chunks[-1].response is not None
    return chunks[-1].response


def message_of(got: Got) -> str:
    """What an error says, in whatever shape."""
    error: Any = got.json.get("error", got.json)
    return str(error if isinstance(error, str) else error["message"])


def text_of(protocol: str, got: Got) -> str:
    return read(protocol, got, stream=False).text


@wires
@ways
@pytest.mark.parametrize("recorded", [ANSWER, STREAMED], ids=["recorded whole", "recorded as a stream"])
@pytest.mark.parametrize("is_quick", [True, False])
def test_an_answer_comes_over_every_wire(
    made: StoreBuilder, protocol: str, stream: bool, recorded: Answer, is_quick: bool
) -> None:
    root = store_of(made, HELLO, recorded)
    with run_over(root) as run:
        asked = body_of(protocol, HELLO, stream=stream)
        got = ask(run, "POST", PATHS[protocol], asked, is_quick=is_quick)

        response = read(protocol, got, stream=stream)
        assert (response.text, response.finish_reason) == ("Hello.", "stop")
        assert response.model == ("asked" if protocol in NAMELESS else "real")
        assert response.usage == TokenUsage(3, 4)
        media_type = WIRES[protocol].stream_media_type if stream else "application/json"
        assert got.headers["content-type"].partition(";")[0] == media_type
        assert (run.ledger.hits, run.ledger.misses, run.ledger.live) == (1, [], 0)


@wires
@ways
def test_the_short_way_gives_the_same_bytes(made: StoreBuilder, protocol: str, stream: bool) -> None:
    root = store_of(made, HELLO, STREAMED)
    asked = body_of(protocol, HELLO, stream=stream)
    with run_over(root) as run:
        quick, other = (ask(run, "POST", PATHS[protocol], asked, is_quick=way) for way in (True, False))

        assert quick == other
        assert run.ledger.hits == 2


@wires
@ways
def test_a_recorded_wire_comes_again_byte_for_byte(made: StoreBuilder, protocol: str, stream: bool) -> None:
    """Also the spaces, the ids and the headers that no codec would write."""
    wire: dict[str, Any] = {
        "protocol": protocol,
        "stream": stream,
        "status": 200,
        "headers": {"content-type": "x/y", "request-id": "req_1", "location": "http://evil.example"},
    }
    response = ANSWER.response("real")
    if stream:
        encoder = WIRES[protocol].stream_encoder("real", "odd-id")
        last = StreamChunk("", "stop", response=response)
        pieces = [encoder.start(), encoder.chunk(StreamChunk("Hello.")), encoder.chunk(last)]
        tape = StreamTape(WIRES[protocol].stream_media_type)
        for piece in pieces:
            tape.add(piece)
        wire |= tape.content()
        expected = b"".join(pieces)
    else:
        expected = orjson.dumps(WIRES[protocol].encode_answer(response, "odd-id"), option=orjson.OPT_INDENT_2)
        wire["body"] = expected.decode()
    model = None if protocol in NAMELESS else "real"
    root = store_of(made, HELLO, dataclasses.replace(ANSWER, model=model, wire=wire))
    asked = body_of(protocol, HELLO, stream=stream)
    with run_over(root) as run:
        got = ask(run, "POST", PATHS[protocol], asked)

    assert got == (200, {"content-type": "x/y", "request-id": "req_1"}, expected)


def test_usage_in_a_stream_is_for_clients_that_ask_for_it(made: StoreBuilder) -> None:
    root = store_of(made, HELLO, ANSWER)
    asked = body_of("openai-chat", HELLO, stream=True)
    with run_over(root) as run:
        told = ask(run, "POST", PATHS["openai-chat"], asked)
        untold = ask(run, "POST", PATHS["openai-chat"], asked | {"stream_options": {}})

    assert b'"prompt_tokens":3' in told.body
    assert b'"prompt_tokens"' not in untold.body
    assert b"Hello." in untold.body


@wires
def test_a_tool_call_comes_over_every_wire_that_has_them(made: StoreBuilder, protocol: str) -> None:
    if protocol == "ollama-generate":
        pytest.skip("there are no tools")
    tools = [{"name": "look", "description": "d", "input_schema": {"type": "object"}}]
    request = request_for("Where?", tools=tools)
    root = store_of(made, request, Answer("", finish_reason="tool_calls", tool_calls=(CALL,)))
    with run_over(root) as run:
        for stream in (False, True):
            got = ask(run, "POST", PATHS[protocol], body_of(protocol, request, stream=stream))
            (call,) = read(protocol, got, stream=stream).tool_calls
            assert (call.name, call.arguments) == ("look", {"city": "Paris"})


@wires
def test_several_answers_come_in_turn_and_then_no_more(made: StoreBuilder, protocol: str) -> None:
    """Whichever wire asks, and whichever way: they are counted together."""
    root = store_of(made, DIE, Answer("one"), Answer("two"), Answer("three"))
    asked = body_of(protocol, DIE)
    with run_over(root) as run:
        assert text_of(protocol, ask(run, "POST", PATHS[protocol], asked)) == "one"
        streamed = ask(run, "POST", PATHS[protocol], body_of(protocol, DIE, stream=True))
        assert read(protocol, streamed, stream=True).text == "two"
        other = "openai-chat"
        assert text_of(other, ask(run, "POST", PATHS[other], body_of(other, DIE))) == "three"
        for _ in range(2):
            exhausted = ask(run, "POST", PATHS[protocol], asked)
            assert exhausted.status == 424
            assert exhausted.headers["x-should-retry"] == "false"
            assert DIE.prompt_hash()[:16].encode() in exhausted.body
        assert (run.ledger.hits, len(run.ledger.misses)) == (3, 2)


def test_scopes_count_apart(made: StoreBuilder) -> None:
    root = store_of(made, DIE, Answer("one"), Answer("two"))
    path, asked = PATHS["anthropic-messages"], body_of("anthropic-messages", DIE)
    with run_over(root) as run:
        got = [ask(run, "POST", path, asked, scope=scope) for scope in ("a", "b", "a", "b", "", "a")]

    assert [text_of("anthropic-messages", one) for one in got[:5]] == ["one", "one", "two", "two", "one"]
    assert got[5].status == 424


def test_calls_at_the_same_time_get_different_answers(made: StoreBuilder) -> None:
    root = store_of(made, DIE, *(Answer(str(n)) for n in range(8)))
    path, asked = PATHS["openai-chat"], body_of("openai-chat", DIE)

    async def all_at_once() -> list[Got]:
        return await asyncio.gather(*(answer(run, "POST", path, asked) for _ in range(8)))

    with run_over(root) as run:
        texts = [text_of("openai-chat", got) for got in asyncio.run(all_at_once())]

    assert sorted(texts) == [str(n) for n in range(8)]


def test_a_call_that_is_not_read_to_the_end_has_not_had_its_turn(made: StoreBuilder) -> None:
    """A client that left gets the same answer again."""
    root = store_of(made, DIE, Answer("one"), Answer("two"))
    path, asked = PATHS["openai-chat"], body_of("openai-chat", DIE)

    async def leave() -> None:
        async with open_call(run, "POST", path, asked):
            raise ConnectionResetError

    with run_over(root) as run:
        with pytest.raises(ConnectionResetError):
            asyncio.run(leave())
        assert text_of("openai-chat", ask(run, "POST", path, asked)) == "one"


@wires
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_a_failure_is_given_in_its_turn(made: StoreBuilder, protocol: str, is_first: bool) -> None:
    """As it was recorded to a client of the same wire, in its own shape to another."""
    key = FixtureKey(DIE.model, DIE.prompt_hash())
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'
    wire: dict[str, Any] = {
        "protocol": "anthropic-messages",
        "status": 529,
        "headers": {"content-type": "application/json", "retry-after": "3"},
        "body": error.decode(),
    }
    n = 1 if is_first else 2
    failure = render_exchange(Exchange.failure(key, n, wire))
    made.add_exchange(failure, "failure.json", model=key.model, prompt_hash=key.prompt_hash, n=str(n))
    answers = [Answer("fine")] if is_first else [Answer("fine"), Answer("third")]
    root = store_of(made, DIE, *answers)
    with run_over(root) as run:
        got = [ask(run, "POST", PATHS[protocol], body_of(protocol, DIE)) for _ in range(3)]
    failed = got.pop(n - 1)

    assert [text_of(protocol, one) for one in got] == ["fine", "fine" if is_first else "third"]
    assert failed.status == 529
    assert b"busy" in failed.body
    if protocol == "anthropic-messages":
        assert (failed.body, failed.headers["retry-after"]) == (error, "3")
    else:
        assert failed.body == orjson.dumps(WIRES[protocol].encode_error(529, "busy", "overloaded_error"))


def test_an_opaque_exchange_comes_again_byte_for_byte(made: StoreBuilder) -> None:
    """By the value of its request: spaces and the order of keys make no difference, a value does."""
    request = {
        "upstream": "openai",
        "method": "POST",
        "path": "/v1/embeddings",
        "query": [],
        "body": {"model": "m", "input": "x"},
    }
    wire = {"status": 200, "headers": {"content-type": "application/json"}, "body": '{ "data": [0.5] }'}
    exchange = opaque_exchange(request, wire)  # type: ignore[arg-type]
    assert exchange.key is not None
    made.add_exchange(render_exchange(exchange), "embedding.json", key=exchange.key)
    with run_over(made.write()) as run:
        for _ in range(2):  # as often as it is asked
            got = ask(run, "POST", "/openai/v1/embeddings", b'{"input":"x",  "model":"m"}')
            assert (got.status, got.body) == (200, b'{ "data": [0.5] }')
        other = ask(run, "POST", "/openai/v1/embeddings", {"model": "m", "input": "y"})
        assert (other.status, other.headers["x-should-retry"]) == (424, "false")
        assert b"POST /v1/embeddings of openai" in other.body
        assert (run.ledger.hits, len(run.ledger.misses)) == (2, 1)


def test_what_bedrock_counts_in_headers_comes_again(made: StoreBuilder) -> None:
    """InvokeModel has its counts nowhere else; a header that nobody named stays out."""
    counts = {
        "x-amzn-bedrock-input-token-count": "18",
        "x-amzn-bedrock-output-token-count": "3",
        "x-amzn-bedrock-cache-read-input-token-count": "2",
        "x-amzn-bedrock-cache-write-input-token-count": "1",
    }
    request: dict[str, JsonValue] = {
        "upstream": "bedrock",
        "method": "POST",
        "path": "/model/ai21.j2-mid/invoke",
        "query": [],
        "body": {"prompt": "x"},
    }
    headers: dict[str, JsonValue] = {"content-type": "application/json", "x-other": "1", **counts}
    exchange = opaque_exchange(request, {"status": 200, "headers": headers, "body": "{}"})
    assert exchange.key is not None
    made.add_exchange(render_exchange(exchange), "invoke.json", key=exchange.key)
    with run_over(made.write()) as run:
        got = ask(run, "POST", "/bedrock/model/ai21.j2-mid/invoke", {"prompt": "x"})

    assert dict(got.headers) == {"content-type": "application/json", **counts}


@wires
@ways
def test_a_miss_is_explained_and_not_tried_again(made: StoreBuilder, protocol: str, stream: bool) -> None:
    """In the shape of the wire's own errors, with the nearest recording and what would record it."""
    root = store_of(made, HELLO, ANSWER)
    with run_over(root, how_to_record="make record") as run:
        near = request_for("Say hallo.")
        got = ask(run, "POST", PATHS[protocol], body_of(protocol, near, stream=stream))

        assert (got.status, got.headers["x-should-retry"]) == (424, "false")
        assert got.headers["content-type"] == "application/json"
        message = message_of(got)
        assert near.prompt_hash()[:16] in message
        assert "make record" in message
        assert "hello" in message
        assert "hallo" in message
        (miss,) = run.ledger.misses
        assert miss.explanation == message
        assert (run.ledger.hits, run.ledger.live) == (0, 0)


@wires
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"model": 5}', b"\xff"])
def test_what_is_no_request_is_refused_in_replay(made: StoreBuilder, protocol: str, body: bytes) -> None:
    with run_over(made.write()) as run:
        got = ask(run, "POST", PATHS[protocol], body)

    assert (got.status, got.headers["x-should-retry"]) == (400, "false")
    assert message_of(got)


def test_a_changed_byte_is_never_served(made: StoreBuilder) -> None:
    root = store_of(made, HELLO, ANSWER)
    (file,) = root.rglob("fixtures/**/*.json")
    file.write_bytes(file.read_bytes().replace(b"Hello.", b"Hallo."))
    asked = body_of("openai-chat", HELLO)
    for is_quick in (True, False):
        with run_over(root) as run, pytest.raises(FixtureIntegrityFailed):
            ask(run, "POST", PATHS["openai-chat"], asked, is_quick=is_quick)
