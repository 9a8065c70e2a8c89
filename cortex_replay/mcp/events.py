"""Server-sent events with names, ids and pauses, as both HTTP transports of MCP have them. No I/O."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cortex_replay.wire.sse import EventParser

__all__ = ["Event", "EventReader", "event_bytes"]

_LINE_END: Final = re.compile(rb"\r\n?|\n")
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


class EventReader(EventParser[Event]):
    """Reads the events of a stream, however its bytes are cut."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self._begin()

    def _begin(self) -> None:
        self._name = "message"
        self._id = ""
        self._retry: int | None = None

    def _line(self, line: bytes) -> bool:
        if not line:
            if self._data or self._id or self._retry is not None:
                return True
            self._begin()
            return False
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add_data(value)
        elif name == b"event":
            self._name = value[:_LONGEST_ID].decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value and len(value) <= _LONGEST_ID:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self._retry = int(value)
        return False

    def _take(self) -> Event:
        event = Event(self._take_data(), self._name, self._id, self._retry)
        self._begin()
        return event


def event_bytes(event: Event) -> bytes:
    """An event as it is sent."""
    lines = [b"event: " + event.name.encode()]
    if event.id:
        lines.append(b"id: " + event.id.encode())
    if event.retry_ms is not None:
        lines.append(b"retry: %d" % event.retry_ms)
    lines += [b"data: " + line for line in _LINE_END.split(event.data)]
    return b"\n".join(lines) + b"\n\n"
