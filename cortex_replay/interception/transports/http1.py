"""HTTP/1.1, as the libraries that are given a connection of ours write and read it."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from cortex_replay.engine.http.call import HttpReply
from cortex_replay.errors import LlmError
from cortex_replay.interception.transports.answers import SyncReply, headers_of

__all__ = ["Encoder", "SentRequest", "failure_of", "sync_bytes"]

_WITHOUT_BODY: Final = (204, 304)


class SentRequest:
    """A request as it is written, until all of it is there."""

    def __init__(self) -> None:
        self.written = bytearray()
        """Every byte of it."""
        self.is_complete = False
        self.is_http = True
        """Whether it could be read so far."""
        self._pieces: list[bytes] = []
        import httptools  # noqa: PLC0415 - clients of httpx need none

        self._parser = httptools.HttpRequestParser(self)
        self._parser_error = httptools.HttpParserError

    @property
    def body(self) -> bytes:
        """What came of the body, without its chunks."""
        return b"".join(self._pieces)

    def feed(self, data: bytes) -> bool:
        """Take the next bytes; tells whether all of it is there."""
        self.written += data
        if self.is_http:
            try:
                self._parser.feed_data(data)
            except self._parser_error:
                self.is_http = False
        return self.is_complete

    def on_body(self, data: bytes) -> None:
        self._pieces.append(bytes(data))

    def on_message_complete(self) -> None:
        self.is_complete = True


class Encoder:
    """An answer in bytes. A stream is sent in chunks, one for each piece: clients read it piece by piece."""

    def __init__(self, reply: HttpReply, method: str) -> None:
        headers = [*headers_of(reply), ("connection", "close")]
        self._has_body = method != "HEAD" and reply.status not in _WITHOUT_BODY
        has_length = any(name == "content-length" for name, _ in headers)
        self._is_chunked = self._has_body and not has_length
        if self._is_chunked:
            headers.append(("transfer-encoding", "chunked"))
        lines = [f"HTTP/1.1 {reply.status} {_phrase(reply.status)}", *(f"{n}: {v}" for n, v in headers)]
        self.head: Final = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
        self.end: Final = b"0\r\n\r\n" if self._is_chunked else b""

    def piece(self, data: bytes) -> bytes:
        """The next bytes of the body."""
        if not self._has_body or not data:
            return b""
        return b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data


def sync_bytes(answer: SyncReply, method: str) -> Iterator[bytes]:
    """An answer as a socket gives it: its bytes, an end that comes too soon, or what a broken one raises."""
    reply, live = answer
    failure = failure_of(reply)
    if reply.status:
        encoder = Encoder(reply, method)
        yield encoder.head
        try:
            for data in _pieces_of(reply) if live is None else live.pieces():
                yield encoder.piece(data)
        except LlmError as error:
            failure = ConnectionResetError(f"cortex-replay: {error}")
        if reply.ending == "whole" and failure is None:
            yield encoder.end
    if failure is not None:
        raise failure


def _pieces_of(reply: HttpReply) -> list[bytes]:
    return [data for _, data in reply.events] or [reply.body]


def failure_of(reply: HttpReply) -> OSError | None:
    """What goes wrong with the connection of an answer. A timeout comes at once."""
    match reply.ending:
        case "hang":
            return TimeoutError("timed out (on demand)")
        case "reset":
            return ConnectionResetError("connection reset (on demand)")
    return None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "cortex-replay"
