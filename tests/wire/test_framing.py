"""Server-sent events and lines, as the standard has them and as servers write them."""

from __future__ import annotations

import itertools

import pytest

from cortex_replay import ResponseParse
from cortex_replay.wire.ndjson import LineParser
from cortex_replay.wire.sse import MAX_EVENT_BYTES, SseParser, sse_event

EVENTS: dict[str, tuple[bytes, list[bytes]]] = {
    "one": (b"data: a\n\n", [b"a"]),
    "no space": (b"data:a\n\n", [b"a"]),
    "only the first space goes": (b"data:  a\n\n", [b" a"]),
    "named": (b"event: x\ndata: a\n\n", [b"a"]),
    "several lines": (b"data: a\ndata: b\n\n", [b"a\nb"]),
    "crlf": (b"event: x\r\ndata: a\r\n\r\n", [b"a"]),
    "cr": (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    "mixed": (b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [b"a", b"b", b"c"]),
    "comment": (b": hello\n\ndata: a\n: again\n\n", [b"a"]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    "other fields": (b"id: 1\nretry: 5\nnonsense\ndata: a\n\n", [b"a"]),
    "blank lines": (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
    "no data": (b"event: ping\n\ndata: a\n\n", [b"a"]),
    "empty data": (b"data:\n\ndata: a\n\n", [b"a"]),
    "no last blank line": (b"data: a\n\ndata: b\n", [b"a", b"b"]),
    "no last line end": (b"data: a\n\ndata: b", [b"a", b"b"]),
    "utf-8": ("data: ü🙂\n\n".encode(), ["ü🙂".encode()]),
}


@pytest.mark.parametrize("name", EVENTS)
def test_events_are_found_however_the_bytes_are_cut(name: str) -> None:
    """In every way to cut them in three."""
    raw, expected = EVENTS[name]
    for first, second in itertools.combinations_with_replacement(range(len(raw) + 1), 2):
        parser = SseParser()
        pieces = [raw[:first], raw[first:second], raw[second:]]
        found = [event for piece in pieces for event in parser.feed(piece)] + list(parser.flush())
        assert found == expected, (first, second)


def test_consumed_counts_to_the_end_of_each_event() -> None:
    """Whatever follows in the same bytes."""
    raw = b"data: a\n\ndata: b\r\n\r\n: more"
    for cut in range(len(raw) + 1):
        parser = SseParser()
        ends = [parser.consumed for piece in (raw[:cut], raw[cut:]) for _ in parser.feed(piece)]
        assert ends == [9, raw.index(b"b") + 4], cut


def _fed_without_end(parser: SseParser | LineParser, piece: bytes) -> None:
    for _ in range(MAX_EVENT_BYTES // len(piece) + 2):
        list(parser.feed(piece))


def test_an_event_without_an_end_is_refused() -> None:
    """As one line, and as many."""
    for piece in (b"x" * 2**20, b"data: " + b"x" * 2**20 + b"\n"):
        with pytest.raises(ResponseParse, match="larger"):
            _fed_without_end(SseParser(), piece)


def test_a_long_line_in_small_pieces_costs_its_length() -> None:
    """Not its square: ten megabytes, a kilobyte at a time."""
    parser = SseParser()
    list(parser.feed(b"data: "))
    for _ in range(10_000):
        list(parser.feed(b"x" * 1000))
    (event,) = parser.feed(b"\n\n")

    assert len(event) == 10_000_000


def test_an_event_is_written_as_it_is_read() -> None:
    assert list(SseParser().feed(sse_event(b"{}", "ping") + sse_event(b"[DONE]"))) == [b"{}", b"[DONE]"]


LINES: dict[str, tuple[bytes, list[bytes]]] = {
    "two": (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
    "crlf and blanks": (b"\r\n{}\r\n\n  \n[]\n", [b"{}", b"[]"]),
    "no last line end": (b"{}\n{", [b"{}", b"{"]),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_are_found_however_the_bytes_are_cut(name: str) -> None:
    raw, expected = LINES[name]
    for cut in range(len(raw) + 1):
        parser = LineParser()
        found = [line for piece in (raw[:cut], raw[cut:]) for line in parser.feed(piece)]
        assert found + list(parser.flush()) == expected
        assert parser.consumed == len(raw)


def test_a_line_without_an_end_is_refused() -> None:
    with pytest.raises(ResponseParse, match="larger"):
        _fed_without_end(LineParser(), b"x" * 2**20)
