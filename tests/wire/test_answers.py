"""Answers as real servers gave them, and what they say."""

from __future__ import annotations

import base64
import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

import cortex_replay
from cortex_replay import LlmError, LlmResponse, Upstream
from cortex_replay.wire import WIRES
from cortex_replay.wire.failures import upstream_error
from tests.cases import each

VECTORS = Path(__file__).parents[1] / "vectors/answers.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in VECTORS.read_text().split("\n") if line]


def raw_of(row: dict[str, Any]) -> bytes:
    return base64.b64decode(row["body_base64"]) if "body_base64" in row else row["body"].encode()


def decoded(row: dict[str, Any], pieces: list[bytes] | None = None) -> LlmResponse:
    raw = raw_of(row)
    wire = WIRES[row["wire"]]
    if row["status"] >= 400:
        raise upstream_error(row["status"], row["content_type"], raw)
    if not row["stream"]:
        return wire.decode_answer(raw, "asked")
    decoder = wire.stream_decoder("asked")
    chunks = [chunk for piece in pieces or [raw] for chunk in decoder.feed(piece)]
    chunks += decoder.finish()
    assert all(chunk.response is None and chunk.finish_reason is None for chunk in chunks[:-1])
    assert chunks[-1].response is not None
    assert "".join(chunk.delta for chunk in chunks) == chunks[-1].response.text
    return chunks[-1].response


def said(response: LlmResponse) -> dict[str, Any]:
    return {
        "text": response.text,
        "reasoning": response.reasoning,
        "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in response.tool_calls],
        "finish_reason": response.finish_reason,
        "usage": None if response.usage is None else response.usage.to_dict(),
        "model": response.model,
    }


@each(ROWS, itemgetter("name"))
def test_an_answer_says_what_it_says(row: dict[str, Any]) -> None:
    """Text, reasoning, tool calls and finish reason; or status, type and message of an error."""
    if "expect_error" in row:
        with pytest.raises(Upstream) as caught:
            decoded(row)
        error = caught.value
        assert {"status": error.status, "type": error.error_type, "message": error.message} == row[
            "expect_error"
        ]
    elif "expect_raises" in row:
        with pytest.raises(getattr(cortex_replay, row["expect_raises"])):
            decoded(row)
    else:
        actual = said(decoded(row))
        assert {name: actual[name] for name in row["expect"]} == row["expect"]


STREAMS = [row for row in ROWS if row["stream"]]


@each(STREAMS, itemgetter("name"))
def test_it_says_the_same_a_byte_at_a_time(row: dict[str, Any]) -> None:
    raw = raw_of(row)

    def outcome(pieces: list[bytes]) -> object:
        try:
            return decoded(row, pieces)
        except LlmError as error:
            return repr(error)

    assert outcome([raw[i : i + 1] for i in range(len(raw))]) == outcome([raw])


def test_there_are_streams_and_whole_answers_of_every_wire() -> None:
    kinds = {(row["wire"], row["stream"]) for row in ROWS if "expect" in row}

    assert kinds >= {(wire, stream) for wire in WIRES for stream in (True, False)}
