"""What is taken down of an answer gives the same bytes again, however it came and wherever it ends."""

from __future__ import annotations

import pytest

from cortex_replay import LlmResponse, StreamChunk, TokenUsage
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.opaque import encode_body, is_worth_keeping, opaque_key, opaque_request
from cortex_replay.engine.http.render import reply_of_wire
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.http.tapes import AnswerTape, StreamTape
from cortex_replay.wire import WIRES
from cortex_replay.wire.event_stream import EVENT_STREAM, event_message
from cortex_replay.wire.recording import decode_recording
from tests.builder import ask

SSE = "text/event-stream"
MESSAGES = event_message("a", b'{"x":1}') + event_message("b", b'{"y":2}')
STREAMS: dict[str, tuple[str, bytes]] = {
    "events": (SSE, b"data: 1\n\ndata: 2\n\n"),
    "events with CRLF": (SSE, b"data: 1\r\n\r\ndata: 2\r\n\r\n"),
    "an event without its end": (SSE, b"data: 1\n\ndata: 2"),
    "an event without its blank line": (SSE, b"data: 1\n\ndata: 2\n"),
    "nothing but half an event": (SSE, b"data: 1"),
    "lines": ("application/x-ndjson", b'{"a":1}\n{"b":2}\n'),
    "a line without its end": ("application/x-ndjson", b'{"a":1}\n{"b":2}'),
    "messages": (EVENT_STREAM, MESSAGES),
    "half a message": (EVENT_STREAM, MESSAGES[:-5]),
    "another kind": ("text/plain", b"one\ntwo"),
    "bytes that are no text": (SSE, b"data: \xff\xfe\n\ndata: 2\n\n"),
    "half a character at the end": (SSE, "data: é".encode()[:-1]),
    "a character that stands for others": (SSE, "data: \N{REPLACEMENT CHARACTER}\n\n".encode()),
    "nothing": (SSE, b""),
}
BODIES = [b"", b"{}", b"\xff", b"caf\xe9", "café".encode(), b"\0\0", "\N{REPLACEMENT CHARACTER}".encode()]


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_a_stream_is_stored_to_its_last_byte(name: str, size: int) -> None:
    media_type, data = STREAMS[name]
    tape = StreamTape(media_type)
    for start in range(0, len(data), size):
        tape.add(data[start : start + size])

    assert reply_of_wire({"status": 200, **tape.content()}).body == data


@pytest.mark.parametrize("body", BODIES)
def test_a_body_is_stored_byte_for_byte(body: bytes) -> None:
    assert reply_of_wire({"status": 200, **encode_body(body)}).body == body


def test_requests_that_differ_in_a_byte_have_two_keys() -> None:
    """Also where the byte is no character."""

    def key(body: bytes) -> str:
        return opaque_key(opaque_request(Call("POST", Route("u", "/x", None), body=body)))

    bodies = [*BODIES, b"\xfe", b"caf\xe8", b"\xff\xff"]
    assert len({key(body) for body in bodies}) == len(bodies)


def test_the_random_boundary_of_a_form_makes_no_difference() -> None:
    def stored(boundary: str, said: str) -> JsonValue:
        body = f"--{boundary}\r\n\r\n{said}\r\n--{boundary}--\r\n".encode()
        headers = [("content-type", f'multipart/form-data; boundary="{boundary}"')]
        return opaque_request(Call("POST", Route("u", "/x", None), headers=headers, body=body))

    assert stored("aaa-1", "Hi") == stored("bbb-22", "Hi") != stored("aaa-1", "Ho")


def test_a_key_in_a_query_is_not_stored_however_it_is_written() -> None:
    for name in ("key", "Key", "KEY", "api_key", "API_KEY"):
        call = Call("GET", Route("u", "/x", None), f"a=1&{name}=secret-of-mine")
        assert opaque_request(call)["query"] == [["a", "1"]], name


@pytest.mark.parametrize("protocol", WIRES)
@pytest.mark.parametrize("size", [1, 10_000])
def test_an_answer_counts_without_the_end_of_its_last_event(protocol: str, size: int) -> None:
    """Some servers close the connection there: what is decoded, stored and decoded again is the same."""
    wire, request = WIRES[protocol], ask("Hi")
    response = LlmResponse("Hello.", None, "m", TokenUsage(3, 4), "", "stop")
    encoder = wire.stream_encoder("m", "id")
    chunks = [StreamChunk("Hel"), StreamChunk("lo."), StreamChunk("", "stop", response=response)]
    whole = encoder.start() + b"".join(map(encoder.chunk, chunks))
    is_framed = wire.stream_media_type == EVENT_STREAM  # the end of a message is its checksum
    for data in (whole,) if is_framed else (whole, whole[:-1], whole.rstrip()):
        tape = AnswerTape(request, protocol, wire.stream_media_type)
        for start in range(0, len(data), size):
            tape.add(data[start : start + size])
        tape.end()

        assert (tape.problem, tape.response and tape.response.text) == (None, "Hello.")
        stored = tape.answer({}).wire
        assert stored is not None
        assert reply_of_wire(stored).body == data
        assert decode_recording(stored, request.model).text == "Hello."


def test_only_an_answer_that_would_be_the_same_tomorrow_is_worth_keeping() -> None:
    kept = {status for status in range(100, 600) if is_worth_keeping(status)}

    assert {200, 201, 204, 400, 404, 413, 422} <= kept
    assert kept.isdisjoint([301, 302, 401, 403, 408, 409, 425, 429, *range(500, 600)])
