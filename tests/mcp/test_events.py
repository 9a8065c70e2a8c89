"""Events of streams, however they are cut."""

from __future__ import annotations

import pytest

from cortex_replay.errors import ResponseParse
from cortex_replay.mcp.events import Event, EventReader, event_bytes

STREAM = (
    b'\xef\xbb\xbf: a comment\n\nid: 1\nevent: message\ndata: {"a":\ndata: 1}\n\n'
    b"id: 2\r\nretry: 50\r\ndata:\r\n\r\nevent: endpoint\rdata: /messages?x=1\r\r"
)
EVENTS = [
    Event(b'{"a":\n1}', id="1"),
    Event(b"", id="2", retry_ms=50),
    Event(b"/messages?x=1", "endpoint"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_do_not_depend_on_how_the_bytes_are_cut(size: int) -> None:
    reader = EventReader(1000)
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]

    assert [event for piece in pieces for event in reader.feed(piece)] == EVENTS


def test_what_is_written_is_what_is_read() -> None:
    events = [Event(b'{"x": 1}', id="3-4"), Event(b"two\nlines"), Event(b"", id="0-0", retry_ms=7)]

    assert list(EventReader(100).feed(b"".join(map(event_bytes, events)))) == events


@pytest.mark.parametrize("data", [b"data: " + b"x" * 200, b"data: x\n" * 200], ids=["a line", "many lines"])
def test_an_event_that_is_too_large_is_refused(data: bytes) -> None:
    """Before it is whole: it may have no end."""
    with pytest.raises(ResponseParse, match="larger than 100 bytes"):
        list(EventReader(100).feed(data))


def test_an_id_that_no_header_can_carry_is_not_taken() -> None:
    reader = EventReader(10_000)

    assert list(reader.feed(b"id: " + b"x" * 2000 + b"\ndata: a\n\nid: a\0b\ndata: b\n\n")) == [
        Event(b"a"),
        Event(b"b"),
    ]
