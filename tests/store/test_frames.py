"""Recorded WebSockets that a store must not take for good."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from cortex_replay.store.exchange import parse_exchange, render_exchange
from cortex_replay.store.fixture_json import FixtureError
from cortex_replay.store.frames import Close, Frame, close_in, frames_in, wire_of_frames

GOOD: dict[str, Any] = {
    "request": {
        "upstream": "openai",
        "method": "WEBSOCKET",
        "path": "/v1/realtime",
        "query": [["model", "m"]],
        "body": [{"type": "response.create"}],
    },
    "wire": {
        "status": 101,
        "headers": {},
        "frames": [
            {"after": 0, "at_ms": 1, "text": '{"type": "session.created"}'},
            {"after": 1, "at_ms": 2, "base64": "AP8="},
        ],
        "subprotocol": "realtime",
        "close": {"after": 1, "code": 1000, "reason": "bye"},
    },
}


def changed(*path: str | int, to: Any) -> bytes:
    document = copy.deepcopy(GOOD)
    place: Any = document
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return json.dumps(document).encode()


def test_a_session_is_read_as_it_was_written() -> None:
    exchange = parse_exchange(json.dumps(GOOD).encode())
    frames = [Frame(0, 1, '{"type": "session.created"}'), Frame(1, 2, b"\x00\xff")]
    assert frames_in(exchange.wire) == frames
    assert close_in(exchange.wire) == Close(1, 1000, "bye")
    assert wire_of_frames(frames, "realtime", Close(1, 1000, "bye")) == exchange.wire
    assert parse_exchange(render_exchange(exchange)) == exchange


@pytest.mark.parametrize(
    "data",
    [
        changed("wire", "status", to=200),
        changed("wire", "body", to=""),
        changed("wire", "frames", to={}),
        changed("wire", "frames", to=["text"]),
        changed("wire", "frames", 0, "text", to=1),
        changed("wire", "frames", 0, "base64", to="AP8="),
        changed("wire", "frames", 1, "base64", to="A"),
        changed("wire", "frames", 0, "after", to=-1),
        changed("wire", "frames", 0, "after", to=True),
        changed("wire", "frames", 0, "after", to=2),
        changed("wire", "frames", 1, "after", to=2),
        changed("wire", "frames", 0, "at_ms", to="1"),
        changed("wire", "close", to={"after": 1, "code": 1000}),
        changed("wire", "close", "code", to=5000),
        changed("wire", "close", "after", to=2),
        changed("wire", "subprotocol", to=1),
        changed("request", "method", to="GET"),
        changed("request", "body", to={}),
        changed("request", to=None),
    ],
)
def test_what_cannot_be_replayed_is_refused(data: bytes) -> None:
    with pytest.raises(FixtureError):
        parse_exchange(data)


def test_a_failure_has_no_frames() -> None:
    document = {"request_match": {"model": "m", "prompt_hash": "0" * 64}, "n": 1, "wire": GOOD["wire"]}
    with pytest.raises(FixtureError):
        parse_exchange(json.dumps(document).encode())
