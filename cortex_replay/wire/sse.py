"""Server-sent events: bytes in, events out. No I/O, and no event depends on how the bytes are cut."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from cortex_replay.errors import ResponseParse

__all__ = ["MAX_EVENT_BYTES", "EventParser", "SseParser", "sse_event"]

MAX_EVENT_BYTES: Final = 16 * 2**20

_T = TypeVar("_T")
_LINE_END: Final = re.compile(rb"\r\n?|\n")
_BOM: Final = b"\xef\xbb\xbf"


class EventParser(ABC, Generic[_T]):
    """Cuts a stream into lines; what an event is made of them, a subclass says.

    ``consumed`` counts the bytes up to the end of the last event that was given; of a CRLF only the CR,
    because whether the LF has come yet is a matter of how the bytes were cut.

    Args:
        most_bytes: The largest event that is read.
    """

    def __init__(self, most_bytes: int) -> None:
        self.consumed = 0
        self._most = most_bytes
        self._buffer = bytearray()
        self._searched = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._skips_lf = False
        self._is_at_start = True

    @abstractmethod
    def _line(self, line: bytes) -> bool:
        """Take one line; whether an event is complete with it."""

    @abstractmethod
    def _take(self) -> _T:
        """Give the event that is complete, and begin the next."""

    def feed(self, data: bytes) -> Iterator[_T]:
        """The events that ``data`` completes.

        Raises:
            ResponseParse: One event is too large.
        """
        if not data:
            return
        if self._skips_lf:
            self._skips_lf = False
            if data[0] == 0x0A:
                data = data[1:]
                self.consumed += 1
        buffer = self._buffer
        buffer += data
        if self._is_at_start and not self._skip_bom():
            return
        start = 0
        while end := _LINE_END.search(buffer, self._searched):
            line_start, start = start, end.end()
            self._searched = start
            if self._line(bytes(buffer[line_start : end.start()])):
                before, self.consumed = self.consumed, self.consumed + end.start() + 1
                yield self._take()
                self.consumed = before
        if start:
            self._skips_lf = buffer[start - 1] == 0x0D and start == len(buffer)
            self.consumed += start
            del buffer[:start]
        self._searched = len(buffer)
        self._refuse_size(self._data_bytes + len(buffer))

    def _skip_bom(self) -> bool:
        if len(self._buffer) < len(_BOM) and _BOM.startswith(self._buffer):
            return False
        if self._buffer.startswith(_BOM):
            del self._buffer[: len(_BOM)]
            self.consumed += len(_BOM)
        self._is_at_start = False
        return True

    def _add_data(self, value: bytes) -> None:
        self._data.append(value)
        self._data_bytes += len(value)
        self._refuse_size(self._data_bytes)

    def _take_data(self) -> bytes:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data = []
        self._data_bytes = 0
        return data

    def _refuse_size(self, size: int) -> None:
        if size > self._most:
            raise ResponseParse(f"an event of the stream is larger than {self._most} bytes")


class SseParser(EventParser[bytes]):
    """Gives the data of each event. Its name is left out: every model's protocol repeats it in the data."""

    def __init__(self) -> None:
        super().__init__(MAX_EVENT_BYTES)

    def flush(self) -> Iterator[bytes]:
        """What stands after the last blank line: some servers end without one."""
        self._line(bytes(self._buffer))
        self.consumed += len(self._buffer)
        self._buffer.clear()
        if self._data:
            yield self._take()

    def _line(self, line: bytes) -> bool:
        if not line:
            if self._data == [b""]:  # says nothing, by the standard
                self._data = []
            return bool(self._data)
        if line.startswith(b"data:"):
            self._add_data(line[6:] if line[5:6] == b" " else line[5:])
        return False

    def _take(self) -> bytes:
        return self._take_data()


def sse_event(data: bytes, name: str | None = None) -> bytes:
    """One event as bytes; ``data`` is one line."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + data + b"\n\n"
