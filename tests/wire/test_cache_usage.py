"""What a provider says it wrote to its cache, and for how long."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from cortex_replay import Answer, LlmResponse, ReplayAdapter, StreamChunk, TokenUsage
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.store.changes import exact_essence_of_answer
from cortex_replay.store.fixture_json import parse_fixture, render_fixture
from cortex_replay.wire import WIRES
from tests.builder import StoreBuilder, ask, fixture_of

USAGE = TokenUsage(1000, 4, 100, 800, 300)
CLAUDE = {
    "input_tokens": 100,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 800,
    "cache_creation": {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 300},
    "output_tokens": 4,
}
CONVERSE = {
    "inputTokens": 100,
    "cacheReadInputTokens": 100,
    "cacheWriteInputTokens": 800,
    "cacheDetails": [{"ttl": "1h", "inputTokens": 300}, {"ttl": "5m", "inputTokens": 500}],
    "outputTokens": 4,
    "totalTokens": 1004,
}


def message(usage: dict[str, Any]) -> bytes:
    body = {"model": "m", "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn"}
    return orjson.dumps(body | {"usage": usage})


def events(*documents: dict[str, Any]) -> bytes:
    return b"".join(f"event: {d['type']}\ndata: {json.dumps(d)}\n\n".encode() for d in documents)


def streamed(start: dict[str, Any], delta: dict[str, Any]) -> TokenUsage | None:
    decoder = WIRES["anthropic-messages"].stream_decoder("m")
    raw = events(
        {"type": "message_start", "message": {"model": "m", "usage": start}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": delta},
        {"type": "message_stop"},
    )
    chunks = [*decoder.feed(raw), *decoder.finish()]
    assert chunks[-1].response is not None
    return chunks[-1].response.usage


def test_what_anthropic_writes_for_an_hour_is_counted_apart() -> None:
    answer = WIRES["anthropic-messages"].decode_answer(message(CLAUDE), "m")

    assert answer.usage == USAGE


def test_a_stream_counts_it_at_its_start_or_at_its_end() -> None:
    start = CLAUDE | {"output_tokens": 1}
    without = {name: value for name, value in CLAUDE.items() if name != "cache_creation"}

    assert streamed(start, {"output_tokens": 4}) == USAGE
    assert streamed(start, without) == USAGE
    assert streamed(without, CLAUDE) == USAGE


@pytest.mark.parametrize("odd", [None, 7, [], {}, {"ephemeral_1h_input_tokens": -1}])
def test_counts_that_make_no_sense_are_none(odd: object) -> None:
    answer = WIRES["anthropic-messages"].decode_answer(message(CLAUDE | {"cache_creation": odd}), "m")

    assert answer.usage == TokenUsage(1000, 4, 100, 800)


def test_a_part_is_never_more_than_the_whole() -> None:
    usage = streamed(CLAUDE, {"cache_creation_input_tokens": 200, "output_tokens": 4})

    assert usage == TokenUsage(400, 4, 100, 200, 200)


def test_bedrock_counts_by_time() -> None:
    body = {"output": {"message": {"content": [{"text": "Hi."}]}}, "stopReason": "end_turn"}

    answer = WIRES["bedrock-converse"].decode_answer(orjson.dumps(body | {"usage": CONVERSE}), "m")

    assert answer.usage == USAGE


@pytest.mark.parametrize(
    "protocol", ["anthropic-messages", "bedrock-anthropic", "bedrock-converse", "bedrock-nova"]
)
def test_an_answer_made_from_parts_says_it_too(protocol: str) -> None:
    """To a client of another wire than the recorded one, and as a stream of a whole answer."""
    wire, response = WIRES[protocol], LlmResponse("Hi.", None, "m", USAGE, "", "stop")

    assert wire.decode_answer(orjson.dumps(wire.encode_answer(response, "1")), "m").usage == USAGE

    encoder, decoder = wire.stream_encoder("m", "1"), wire.stream_decoder("m")
    raw = encoder.start() + encoder.chunk(StreamChunk("Hi."))
    raw += encoder.chunk(StreamChunk("", "stop", response=response))
    last = [*decoder.feed(raw), *decoder.finish()][-1]
    assert last.response is not None
    assert last.response.usage == USAGE


def wire_of(body: bytes, protocol: str = "anthropic-messages") -> dict[str, Any]:
    return {"protocol": protocol, "stream": False, "status": 200, "headers": {}, "body": body.decode()}


def test_a_store_keeps_it() -> None:
    fixture = fixture_of(ask("What?"), Answer("Hi.", usage=USAGE))

    assert parse_fixture(render_fixture(fixture)).answers[0].usage == USAGE


@pytest.mark.parametrize("stored", [USAGE, TokenUsage(1000, 4, 100, 800)], ids=["new", "old"])
def test_a_recording_of_before_it_was_counted_is_trusted_too(stored: TokenUsage, tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    answer = Answer("Hi.", model="m", usage=stored, finish_reason="stop", wire=wire_of(message(CLAUDE)))
    builder.add_fixture(fixture_of(ask("What?"), answer))
    builder.write()

    assert ReplayAdapter(builder.root).sync.complete(ask("What?")).usage == stored


def test_a_recording_of_before_openai_s_writes_were_read_is_trusted_too(tmp_path: Path) -> None:
    """And a count that is stored is still held against the bytes."""
    details = {"cached_tokens": 100, "cache_write_tokens": 800}
    usage = {"prompt_tokens": 1000, "completion_tokens": 4, "prompt_tokens_details": details}
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
    wire = wire_of(orjson.dumps({"model": "m", "choices": [choice], "usage": usage}), "openai-chat")

    def store(stored: TokenUsage) -> Path:
        builder = StoreBuilder(tmp_path / str(stored.cache_write_tokens))
        builder.add_fixture(fixture_of(ask("What?"), Answer("Hi.", model="m", usage=stored, wire=wire)))
        builder.write()
        return builder.root

    assert ReplayAdapter(store(TokenUsage(1000, 4, 100))).sync.complete(ask("What?")).text == "Hi."
    assert ReplayAdapter(store(TokenUsage(1000, 4, 100, 800))).sync.complete(ask("What?")).text == "Hi."
    with pytest.raises(FixtureIntegrityFailed, match="usage"):
        ReplayAdapter(store(TokenUsage(1000, 4, 100, 900)))


def test_a_recording_of_before_it_was_counted_says_the_same() -> None:
    """Who imports a cassette once more changes nothing."""
    new = Answer("Hi.", usage=USAGE, wire=wire_of(message(CLAUDE)))
    old = replace(new, usage=TokenUsage(1000, 4, 100, 800))

    assert exact_essence_of_answer(old) == exact_essence_of_answer(new)
    assert exact_essence_of_answer(replace(old, wire=None)) != exact_essence_of_answer(
        replace(new, wire=None)
    )
