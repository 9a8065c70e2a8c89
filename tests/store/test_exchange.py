"""Files that are no recorded call: each is refused with what is wrong in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cortex_replay.store.exchange import Exchange, parse_exchange, render_exchange
from cortex_replay.store.fixture_json import FixtureError
from cortex_replay.store.notes import parse_note

WIRE = {"status": 200, "headers": {}, "body": "{}"}
REQUEST: dict[str, Any] = {
    "upstream": "openai",
    "method": "GET",
    "path": "/v1/models",
    "query": [],
    "body": None,
}
MATCH = {"model": "m", "prompt_hash": "1" * 64}


def test_a_call_is_read_as_it_was_written() -> None:
    exchange = parse_exchange(
        json.dumps({"request": REQUEST, "wire": WIRE, "then": [{"wire": WIRE}]}).encode()
    )

    assert exchange.wires == (WIRE, WIRE)
    assert parse_exchange(render_exchange(exchange)) == exchange


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"meta": []}, "meta: expected an object"),
        ({"wire": None}, "wire: expected an object with a status"),
        ({"wire": {**WIRE, "status": "200"}}, "wire: expected an object with a status"),
        ({"wire": {**WIRE, "status": 99}}, "wire: expected a status from 200"),
        ({"wire": {**WIRE, "status": True}}, "wire: expected a status from 200"),
        ({"wire": {**WIRE, "events": []}}, "wire: expected one of body, body_base64 and events"),
        ({"wire": {"status": 200, "headers": {}, "events": [{"at_ms": 0}]}}, "wire: "),
        ({"then": {}}, "then: expected a list"),
        ({"then": ["text"]}, r"then\[0\]: expected an object"),
        ({"then": [{"wire": {}}]}, r"then\[0\]\.wire: expected an object with a status"),
        ({"request_match": "m", "n": 1}, "request_match: expected an object"),
        ({"request_match": {**MATCH, "model": 7}, "n": 1}, "request_match: expected a model and a hash"),
        (
            {"request_match": {**MATCH, "prompt_hash": "1"}, "n": 1},
            "request_match: expected a model and a hash",
        ),
        ({"request_match": MATCH}, "n: expected a whole number from 1"),
        ({"request_match": MATCH, "n": True}, "n: expected a whole number from 1"),
    ],
)
def test_what_is_no_call_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(FixtureError, match=reason):
        parse_exchange(json.dumps({"request": REQUEST, "wire": WIRE, **change}).encode())


def test_a_failure_is_read_as_it_was_written() -> None:
    data = json.dumps({"request_match": MATCH, "n": 2, "wire": {**WIRE, "status": 503}}).encode()

    exchange = parse_exchange(data)

    assert (exchange.match, exchange.n) == (("m", "1" * 64), 2)
    assert isinstance(exchange, Exchange)
    assert parse_exchange(render_exchange(exchange)) == exchange


@pytest.mark.parametrize(
    "note",
    [
        b"{",
        b"[]",
        b'{"scope": "a test"}',
        b'{"scope": "a test", "pin": []}',
        b'{"scope": "a test", "pin": [["path"]]}',
        b'{"scope": "a test", "pin": [["path", "digest", "m", 7, null, null]]}',
        b'{"scope": "a test", "remove": ["m"]}',
        b'{"scope": 7, "remove": ["m", "h", null, null]}',
    ],
)
def test_a_note_that_says_something_else_is_none(note: bytes) -> None:
    assert parse_note(note) is None


def test_a_note_names_rows_of_both_kinds() -> None:
    rows = [["a", "1" * 64, "m", "2" * 64, None, None], ["b", "3" * 64, "m", "2" * 64, "1", None]]

    pin = parse_note(json.dumps({"scope": "a test", "pin": rows}).encode())

    assert pin is not None
    assert [type(row).__name__ for row in pin.rows] == ["FixtureRow", "ExchangeRow"]  # type: ignore[union-attr]
