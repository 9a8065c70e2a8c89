"""Answers, errors and recordings without the shape they should have: an error says so, nothing is guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cortex_replay import ResponseParse
from cortex_replay.wire import WIRES, streams
from cortex_replay.wire.failures import upstream_error
from cortex_replay.wire.recording import decode_recording, timed_chunks
from cortex_replay.wire.sse import sse_event

CHAT = WIRES["openai-chat"]


def choice(**message: Any) -> dict[str, Any]:
    return {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "a", **message}}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([1], "is not a JSON object"),
        ({"choices": "text"}, "choices is not a list of objects"),
        ({"choices": ["text"]}, "choices is not a list of objects"),
        ({"choices": [{"message": "text"}]}, "message is"),
        ({"choices": [choice(content=7)]}, "content is"),
        ({"choices": [choice(tool_calls=[{"id": "a", "function": {"name": 7}}])]}, "name"),
        ({"choices": [choice()], "usage": [1]}, "usage is"),
    ],
)
def test_an_answer_of_another_shape_is_refused(document: Any, reason: str) -> None:
    with pytest.raises(ResponseParse, match=reason):
        CHAT.decode_answer(json.dumps(document).encode(), "m")


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (b"{", "an event of the stream is not JSON"),
        (b"[1]", "an event of the stream is not a JSON object"),
        (b'{"choices": [{"delta": {"content": 7}}]}', "an event of the stream: content is"),
        (b'{"choices": 7}', "an event of the stream: choices is"),
    ],
)
def test_an_event_of_another_shape_is_refused(event: bytes, reason: str) -> None:
    with pytest.raises(ResponseParse, match=reason):
        list(CHAT.stream_decoder("m").feed(sse_event(event)))


def test_a_stream_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MAX_EVENTS", 3)
    decoder = CHAT.stream_decoder("m")

    with pytest.raises(ResponseParse, match="more than 3 events"):
        list(decoder.feed(sse_event(b'{"choices": [{"delta": {"content": "a"}}]}') * 4))


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("application/json", b'{"error": {"message": "later"}}', "later"),
        ("application/json", b'{"message": "later", "__type": "Throttled"}', "later"),
        ("application/json", b'{"detail": "later"}', "later"),
        ("text/plain", b" later\n", "later"),
        ("text/html", b"<p>later", "(text/html, 8 bytes)"),
        ("", b"{}", "(no content type, 2 bytes)"),
    ],
)
def test_an_error_says_what_its_body_says_if_that_is_text(kind: str, body: bytes, message: str) -> None:
    error = upstream_error(503, kind, body)

    assert error.status == 503
    assert message in str(error)


DELTA = sse_event(b'{"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": null}]}')
END = sse_event(b'{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}') + sse_event(b"[DONE]")


def test_a_stream_that_was_kept_as_one_body_came_at_once() -> None:
    wire: dict[str, Any] = {"protocol": "openai-chat", "status": 200, "stream": True}
    wire["body"] = (DELTA + END).decode()

    assert {at for at, _ in timed_chunks(wire, "m")} == {0.0}
    assert decode_recording(wire, "m").text == "Hi"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"protocol": "morse"}, "protocol is not known"),
        ({"status": 500}, "status is not 200"),
        ({"stream": None}, "whether it is a stream"),
        ({"body": None}, "no body and no events"),
        ({"body_base64": "AA=="}, "must have one of"),
        ({"stream": False, "body": '{"choices": [], "choices": []}'}, "a key stands twice"),
    ],
)
def test_a_recording_that_is_none_is_refused(change: dict[str, Any], reason: str) -> None:
    wire: dict[str, Any] = {"protocol": "openai-chat", "status": 200, "stream": True}
    wire["body"] = (DELTA + END).decode()

    with pytest.raises(ResponseParse, match=reason):
        decode_recording({**wire, **change}, "m")
