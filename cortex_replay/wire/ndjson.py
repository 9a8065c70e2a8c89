"""JSON documents one a line: bytes in, lines out. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from cortex_replay.errors import ResponseParse
from cortex_replay.wire.sse import MAX_EVENT_BYTES

__all__ = ["LineParser"]


class LineParser:
    """Gives each line that is not blank; ``consumed`` counts the bytes up to its end."""

    def __init__(self) -> None:
        self.consumed = 0
        self._buffer = bytearray()
        self._consume = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that ``data`` completes.

        Raises:
            ResponseParse: A line is larger than any model's answer.
        """
        buffer = self._buffer
        buffer += data
        start = 0
        before = self.consumed
        while (end := buffer.find(b"\n", self._consume)) >= 0:
            line = bytes(buffer[start:end]).strip()
            self._consume = start = end + 1
            self.consumed = before + start
            if line:
                yield line
        del buffer[:start]
        self._consume = len(buffer)
        if len(buffer) > MAX_EVENT_BYTES:
            raise ResponseParse(f"a line of the stream is larger than {MAX_EVENT_BYTES} bytes")

    def flush(self) -> Iterator[bytes]:
        """The last line, where no line end follows it."""
        line = bytes(self._buffer).strip()
        self.consumed += len(self._buffer)
        self._buffer.clear()
        if line:
            yield line
