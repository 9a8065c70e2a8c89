"""Server-sent events with names, ids and pauses, as both HTTP transports of MCP have them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from cortex_replay.errors import ResponseParse

__all__ = ["Event", "EventReader", "event_bytes"]

_LINE_END: Final = re.compile(rb"\r\n?|\n")
_BOM: Final = b"\xef\xbb\xbf"
_LONGEST_ID: Final = 1024


class Event(NamedTuple):
    """One event of a stream."""

    data: bytes
    """Empty where it only tells an id or a pause."""
    name: str = "message"
    id: str = ""
    """What a client that comes back names; empty where it is not told."""
    retry_ms: int | None = None
    """How long a client is to wait before it comes back."""


class EventReader:
    """Reads the events of a stream, however its bytes are cut.

    Args:
        most_bytes: The largest event that is read.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._buffer = bytearray()
        self._searched = 0
        self._skips_lf = False
        self._is_at_start = True
        self._begin()

    def _begin(self) -> None:
        self._data: list[bytes] = []
        self._size = 0
        self._name = "message"
        self._id = ""
        self._retry: int | None = None

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events that ``data`` completes.

        Raises:
            ResponseParse: One event is too large.
        """
        if self._skips_lf and data:
            self._skips_lf = False
            data = data.removeprefix(b"\n")
        buffer = self._buffer
        buffer += data
        if self._is_at_start and len(buffer) >= len(_BOM):
            self._is_at_start = False
            if buffer.startswith(_BOM):
                del buffer[: len(_BOM)]
        start = 0
        while end := _LINE_END.search(buffer, self._searched):
            line, start = bytes(buffer[start : end.start()]), end.end()
            self._searched = start
            if line:
                self._take(line)
            elif self._data or self._id or self._retry is not None:
                yield Event(b"\n".join(self._data), self._name, self._id, self._retry)
                self._begin()
            else:
                self._begin()
        if start:
            # Of a CRLF the LF may come with the next bytes.
            self._skips_lf = buffer[start - 1] == 0x0D and start == len(buffer)
            del buffer[:start]
        self._searched = len(buffer)
        self._refuse_size(self._size + len(buffer))

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            self._refuse_size(self._size)
        elif name == b"event":
            self._name = value[:_LONGEST_ID].decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value and len(value) <= _LONGEST_ID:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self._retry = int(value)

    def _refuse_size(self, size: int) -> None:
        if size > self._most:
            raise ResponseParse(f"an event of the stream is larger than {self._most} bytes")


def event_bytes(event: Event) -> bytes:
    """An event as it is sent."""
    lines = [b"event: " + event.name.encode()]
    if event.id:
        lines.append(b"id: " + event.id.encode())
    if event.retry_ms is not None:
        lines.append(b"retry: %d" % event.retry_ms)
    lines += [b"data: " + line for line in _LINE_END.split(event.data)]
    return b"\n".join(lines) + b"\n\n"
