"""Responses over a WebSocket, message by message, in terms of the same call over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cortex_replay.engine.http.call import HttpReply
from cortex_replay.engine.ws.responses import (
    FrameReader,
    create_event,
    error_frame,
    event_of_frame,
    is_last,
    read_message,
    with_stream_id,
)
from cortex_replay.errors import InvalidRequest
from cortex_replay.wire.sse import SseParser

DELTA = '{"type":"response.output_text.delta","delta":"Hi"}'


@pytest.mark.parametrize(
    ("message", "body", "stream_id"),
    [
        ({"model": "m", "input": "Hi"}, {"model": "m", "input": "Hi"}, None),
        ({"model": "m", "stream": False, "event_id": "e"}, {"model": "m"}, None),
        ({"model": "m", "generate": True}, {"model": "m"}, None),
        ({"model": "m", "generate": False}, {"model": "m", "generate": False}, None),
        ({"model": "m", "stream_id": "s1"}, {"model": "m"}, "s1"),
        ({"model": "m", "stream_id": 7}, {"model": "m"}, None),
    ],
)
def test_a_message_is_the_body_that_would_be_posted(
    message: dict[str, Any], body: dict[str, Any], stream_id: str | None
) -> None:
    creation = read_message(json.dumps({"type": "response.create", **message}))

    assert creation is not None
    assert json.loads(creation.body) == body | {"stream": True}
    assert creation.stream_id == stream_id


def test_a_body_is_asked_for_by_the_message_that_is_read_as_it() -> None:
    body = {"model": "m", "input": "Hi", "stream": True}
    message = create_event(json.dumps(body).encode())

    assert json.loads(message) == {"type": "response.create", "model": "m", "input": "Hi"}
    creation = read_message(message)
    assert creation is not None
    assert json.loads(creation.body) == body


def test_a_notice_asks_for_nothing() -> None:
    assert read_message('{"type": "response.processed"}') is None


@pytest.mark.parametrize(
    ("message", "field"),
    [("{", "message"), ("[]", "type"), ("{}", "type"), ('{"type": "session.update"}', "type")],
)
def test_any_other_message_is_refused(message: str, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_message(message)
    assert refused.value.field == field


@pytest.mark.parametrize("size", [1, 1000])
def test_a_stream_becomes_messages_without_its_end(size: int) -> None:
    raw = event_of_frame(DELTA) + b"data: [DONE]\n\n" + b'data: {"type":"response.completed"}'
    reader = FrameReader()

    frames = [frame for at in range(0, len(raw), size) for frame in reader.feed(raw[at : at + size])]

    assert frames == [DELTA]
    assert list(reader.finish()) == ['{"type":"response.completed"}'], "which has no blank line behind it"


def test_an_end_without_a_blank_line_is_no_message() -> None:
    reader = FrameReader()

    assert [*reader.feed(b"data: [DONE]"), *reader.finish()] == []


@pytest.mark.parametrize(
    "frame",
    [
        DELTA,
        "no JSON",
        "[1]",
        '{"type": 1}',
        '{\n "type": "a",\r\n "b": 1\r}',
        '{"type": "a\\nevent: evil"}',
    ],
)
def test_a_message_is_one_event_whatever_it_says(frame: str) -> None:
    """Line ends within it are none of the stream's, and its type cannot forge a field."""
    parser = SseParser()

    events = [*parser.feed(event_of_frame(frame)), *parser.flush()]

    assert events == [frame.replace("\r\n", "\n").replace("\r", "\n").encode()]
    assert b"event: evil" not in event_of_frame(frame).splitlines()


def test_an_event_is_named_as_over_http() -> None:
    assert event_of_frame(DELTA).startswith(b"event: response.output_text.delta\n")


@pytest.mark.parametrize(
    ("kind", "last"),
    [
        ("response.completed", True),
        ("response.failed", True),
        ("response.incomplete", True),
        ("error", True),
        ("response.created", False),
        (None, False),
    ],
)
def test_what_nothing_follows(kind: str | None, last: bool) -> None:
    assert is_last(json.dumps({"type": kind})) == last


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error": {"type": "t", "message": "m"}}', {"type": "t", "message": "m"}),
        (b'{"error": "text"}', {"type": "api_error", "message": '{"error": "text"}'}),
        (b"[1]", {"type": "api_error", "message": "[1]"}),
        (b"\xff" + b"x" * 900, {"type": "api_error", "message": "�" + "x" * 499}),
    ],
)
def test_an_error_status_is_a_message_with_what_the_body_says(body: bytes, error: dict[str, str]) -> None:
    headers = [("content-type", "application/json"), ("retry-after", "2"), ("x-should-retry", "true")]

    told = json.loads(error_frame(HttpReply(429, tuple(headers), body)))

    assert told == {"type": "error", "status": 429, "error": error, "headers": {"retry-after": "2"}}
    assert "headers" not in json.loads(error_frame(HttpReply(429, (), body)))


@pytest.mark.parametrize(
    ("frame", "stream_id", "sent"),
    [
        ('{"a": 1}', None, '{"a": 1}'),
        ('{"a": 1}', 'x"', '{"a": 1,"stream_id":"x\\""}'),
        ("{ }", "x", '{ "stream_id":"x"}'),
        ("[1]", "x", "[1]"),
    ],
)
def test_a_stream_s_name_is_put_into_its_messages(frame: str, stream_id: str | None, sent: str) -> None:
    assert with_stream_id(frame, stream_id) == sent
    json.loads(sent)
