"""Amazon's binary messages: read, written, and stored so that a person can read them."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import ResponseParse
from cortex_replay.wire.event_stream import (
    Message,
    MessageParser,
    chunk_message,
    event_message,
    message_end,
    write_message,
)
from cortex_replay.wire.recording import event_bytes, event_in
from tests.cases import each

HELLO = event_message("contentBlockDelta", b'{"delta":{"text":"Hi \xc3\xa9"}}')
STOP = event_message("messageStop", b"{}")
VECTORS = Path(__file__).parents[1] / "vectors/answers.jsonl"


def with_checksums(headers: bytes, payload: bytes = b"") -> bytes:
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


def test_messages_are_found_however_the_bytes_are_cut() -> None:
    raw = HELLO + STOP
    expected = [
        Message({":event-type": name, ":content-type": "application/json", ":message-type": "event"}, payload)
        for name, payload in (
            ("contentBlockDelta", b'{"delta":{"text":"Hi \xc3\xa9"}}'),
            ("messageStop", b"{}"),
        )
    ]
    for size in (1, 7, len(raw)):
        parser = MessageParser()
        found = [
            (message, parser.consumed)
            for at in range(0, len(raw), size)
            for message in parser.feed(raw[at : at + size])
        ]

        assert [message for message, _ in found] == expected
        assert [consumed for _, consumed in found] == [len(HELLO), len(raw)]


def test_every_type_of_header_is_passed_over_and_texts_are_kept() -> None:
    values = {0: b"", 1: b"", 2: b"\1", 3: b"\0\1", 4: b"\0" * 4, 5: b"\0" * 8, 8: b"\0" * 8, 9: b"\0" * 16}
    headers = b"".join(b"\1" + bytes([97 + kind, kind]) + value for kind, value in values.items())
    headers += b"\1z\x06" + struct.pack(">H", 2) + b"\xff\xff" + b"\1t\x07" + struct.pack(">H", 2) + b"ok"

    (message,) = MessageParser().feed(with_checksums(headers, b"x"))

    assert message == Message({"t": "ok"}, b"x")


@each(range(len(HELLO)))
def test_a_single_wrong_bit_is_an_error(at: int) -> None:
    """Wherever it is; a length that grew may also just wait for more."""
    broken = bytearray(HELLO + STOP)
    broken[at] ^= 0x10

    with pytest.raises(ResponseParse):
        list(MessageParser().feed(bytes(broken)))


@pytest.mark.parametrize(
    "raw",
    [
        with_checksums(b"\1a\x63"),
        with_checksums(b"\1a\x07\0\5ab"),
        with_checksums(b"\x20a"),
        with_checksums(b"\1\xff\0"),
        struct.pack(">III", 16, 1, zlib.crc32(struct.pack(">II", 16, 1))) + b"\0" * 4,
        struct.pack(">III", 2**31, 0, zlib.crc32(struct.pack(">II", 2**31, 0))),
    ],
    ids=["unknown type", "short value", "short name", "no UTF-8", "headers too long", "too large"],
)
def test_a_message_that_makes_no_sense_is_an_error(raw: bytes) -> None:
    with pytest.raises(ResponseParse):
        list(MessageParser().feed(raw))


def test_where_a_message_ends_is_told_once_all_of_it_is_there() -> None:
    assert [message_end(HELLO[:size], 0) for size in (0, 11, len(HELLO) - 1)] == [None] * 3
    assert message_end(HELLO + STOP, 0) == len(HELLO)
    assert message_end(HELLO + STOP, len(HELLO)) == len(HELLO + STOP)
    assert message_end(b"\0" * 40, 0) is None


def test_a_recorded_message_is_text_and_comes_again_byte_for_byte() -> None:
    event = event_in(12, HELLO)

    assert json.loads(json.dumps(event)) == {
        "at_ms": 12,
        "message": {
            "headers": {
                ":event-type": "contentBlockDelta",
                ":content-type": "application/json",
                ":message-type": "event",
            },
            "payload": '{"delta":{"text":"Hi é"}}',
        },
    }
    assert event_bytes(event) == HELLO


def test_a_message_whose_checksums_are_text_by_chance_is_a_message() -> None:
    raw = event_message("x", b'{"a":"xxxxxxxxxx 7"}')

    event = event_in(0, raw)

    assert raw.decode()
    assert "message" in event
    assert event_bytes(event) == raw


@pytest.mark.parametrize("padding", [{}, {"p": "abc"}])
def test_a_recorded_chunk_is_what_the_model_said(padding: dict[str, Any]) -> None:
    """Without the base64 around it, in which nobody would find a secret."""
    said = '{"type":"message_stop"}'
    encoded = base64.b64encode(said.encode()).decode()
    raw = event_message("chunk", json.dumps({"bytes": encoded, **padding}, separators=(",", ":")).encode())

    event: Any = event_in(0, raw)

    assert event["message"]["chunk"] == {"bytes": said, **padding}
    assert event_bytes(event) == raw
    assert padding or chunk_message(said.encode()) == raw


@pytest.mark.parametrize(
    "payload", [b'{"bytes": "e30="}', b'{"bytes":"/w=="}', b'{"bytes":"@"}', b'{"bytes":1}', b"[]"]
)
def test_a_chunk_that_would_not_come_again_keeps_its_payload(payload: bytes) -> None:
    raw = event_message("chunk", payload)

    event: Any = event_in(0, raw)

    assert event["message"]["payload"] == payload.decode()
    assert event_bytes(event) == raw


@pytest.mark.parametrize(
    "raw",
    [
        with_checksums(b"\1a\0", b"\xff"),
        event_message("x", b"\xff"),
        HELLO[:-1] + b"\xff",
        HELLO + STOP,
        b"\xff" * 20,
    ],
    ids=["other headers", "no UTF-8", "checksum", "two of them", "no message"],
)
def test_what_is_neither_text_nor_a_message_is_refused(raw: bytes) -> None:
    """It would not come again, or not be read."""
    with pytest.raises(ValueError, match="it "):
        event_in(0, raw)


@pytest.mark.parametrize(
    "event",
    [
        None,
        {},
        {"text": 5},
        {"message": {}},
        {"message": {"headers": {"a": 5}, "payload": ""}},
        {"message": {"headers": {"a" * 256: ""}, "payload": ""}},
        {"message": {"headers": {}, "chunk": {"bytes": 5}}},
    ],
    ids=str,
)
def test_an_event_that_has_no_bytes_is_refused(event: Any) -> None:
    with pytest.raises(ResponseParse):
        event_bytes(event)


def test_a_message_is_written_as_bedrock_writes_it() -> None:
    """Byte for byte, all that Bedrock itself has sent."""
    rows = [json.loads(line) for line in VECTORS.read_text().split("\n") if "recorded by pydantic-ai" in line]
    streams = [base64.b64decode(row["body_base64"]) for row in rows if row["stream"]]

    for raw in streams:
        assert b"".join(map(write_message, MessageParser().feed(raw))) == raw
    assert len(streams) >= 3
