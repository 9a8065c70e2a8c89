"""Amazon's event stream: binary messages, each with headers and two checksums. No I/O.

A message is its length, the length of its headers, the CRC-32 of both, the headers, the payload, and the
CRC-32 of all that stands before it. Numbers are big-endian.
"""

from __future__ import annotations

import binascii
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import orjson

from cortex_replay.errors import ResponseParse
from cortex_replay.wire.sse import MAX_EVENT_BYTES

__all__ = [
    "EVENT_STREAM",
    "ChunkFraming",
    "EventFraming",
    "Message",
    "MessageParser",
    "chunk_in",
    "chunk_message",
    "event_message",
    "message_end",
    "write_message",
]

EVENT_STREAM: Final = "application/vnd.amazon.eventstream"
_PRELUDE: Final = struct.Struct(">III")
_CRC: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">H")
_TEXT: Final = 7
_BYTES: Final = 6
_SIZES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""How long the value of a header is, by its type; texts and bytes say it themselves."""


class Message(NamedTuple):
    """One message: its headers that are text, and its payload."""

    headers: Mapping[str, str]
    payload: bytes


class MessageParser:
    """Gives each message; ``consumed`` counts the bytes up to its end."""

    def __init__(self) -> None:
        self.consumed = 0
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that ``data`` completes.

        Raises:
            ResponseParse: A checksum is wrong, or a length makes no sense.
        """
        buffer = self._buffer
        buffer += data
        start, before = 0, self.consumed
        while (size := _size_at(buffer, start)) is not None and start + size <= len(buffer):
            message = _read_message(bytes(buffer[start : start + size]))
            start += size
            self.consumed = before + start
            yield message
        del buffer[:start]


def _size_at(buffer: bytearray, start: int) -> int | None:
    """How long the message is that starts here, once its prelude is there."""
    if len(buffer) - start < _PRELUDE.size:
        return None
    size, header_size, checksum = _PRELUDE.unpack_from(buffer, start)
    if zlib.crc32(buffer[start : start + 8]) != checksum:
        raise ResponseParse("the checksum of a message's prelude is wrong")
    if size > MAX_EVENT_BYTES:
        raise ResponseParse(f"a message of the stream is larger than {MAX_EVENT_BYTES} bytes")
    if header_size + _PRELUDE.size + _CRC.size > size:
        raise ResponseParse("a message of the stream is shorter than its headers")
    return int(size)


def message_end(buffer: bytes | bytearray, start: int) -> int | None:
    """Where the message ends that starts here, if all of it is there; its checksums are not looked at."""
    if len(buffer) - start < _PRELUDE.size:
        return None
    size: int = _PRELUDE.unpack_from(buffer, start)[0]
    is_whole = _PRELUDE.size + _CRC.size <= size <= len(buffer) - start
    return start + size if is_whole else None


def _read_message(data: bytes) -> Message:
    if zlib.crc32(data[: -_CRC.size]) != _CRC.unpack(data[-_CRC.size :])[0]:
        raise ResponseParse("the checksum of a message is wrong")
    end = _PRELUDE.size + _PRELUDE.unpack_from(data)[1]
    try:
        headers = dict(_read_headers(data[_PRELUDE.size : end]))
    except (IndexError, KeyError, UnicodeDecodeError, struct.error):
        raise ResponseParse("the headers of a message make no sense") from None
    return Message(headers, data[end : -_CRC.size])


def _read_headers(data: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        name, kind = data[at + 1 : name_end].decode(), data[name_end]
        at = name_end + 1
        if kind in (_TEXT, _BYTES):
            size = _LENGTH.unpack_from(data, at)[0]
            at += _LENGTH.size
        else:
            size = _SIZES[kind]
        value = data[at : at + size]
        if len(value) < size:
            raise IndexError
        at += size
        if kind == _TEXT:
            yield name, value.decode()


def write_message(message: Message) -> bytes:
    """The bytes of a message, with its checksums.

    Raises:
        ValueError: A header is longer than a message can hold.
    """
    headers = b"".join(_write_header(name, value) for name, value in message.headers.items())
    size = _PRELUDE.size + len(headers) + len(message.payload) + _CRC.size
    lengths = struct.pack(">II", size, len(headers))
    body = lengths + _CRC.pack(zlib.crc32(lengths)) + headers + message.payload
    return body + _CRC.pack(zlib.crc32(body))


def _write_header(name: str, value: str) -> bytes:
    encoded, text = name.encode(), value.encode()
    if len(encoded) > 0xFF or len(text) > 0xFFFF:
        raise ValueError("the header of a message is too long")
    return bytes([len(encoded)]) + encoded + bytes([_TEXT]) + _LENGTH.pack(len(text)) + text


def event_message(name: str, payload: bytes) -> bytes:
    """An event as Bedrock writes it."""
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return write_message(Message(headers, payload))


def chunk_message(data: bytes) -> bytes:
    """A model's own event, in the wrapper that it has when a model is invoked."""
    encoded = binascii.b2a_base64(data, newline=False).decode()
    return event_message("chunk", orjson.dumps({"bytes": encoded}))


class _Framing(ABC):
    """Messages as the JSON documents that a decoder reads."""

    def __init__(self) -> None:
        self._parser = MessageParser()

    @property
    def consumed(self) -> int:
        return self._parser.consumed

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The documents that ``data`` completes; an exception in the stream is an ``error`` in one."""
        for message in self._parser.feed(data):
            match message.headers.get(":message-type"):
                case "event":
                    yield self._document(message)
                case "exception":
                    yield _error(message.headers.get(":exception-type"), message.payload)
                case "error":
                    said = orjson.dumps({"message": message.headers.get(":error-message")})
                    yield _error(message.headers.get(":error-code"), said)
                case _:
                    raise ResponseParse("a message of the stream is no event")

    def flush(self) -> Iterator[bytes]:
        """Nothing: half a message says nothing."""
        return iter(())

    @abstractmethod
    def _document(self, message: Message) -> bytes: ...


def _error(kind: str | None, payload: bytes) -> bytes:
    try:
        document = orjson.loads(payload)
    except orjson.JSONDecodeError:
        document = None
    message = document.get("message") if isinstance(document, dict) else None
    return orjson.dumps({"error": {"message": message, "type": kind}})


class EventFraming(_Framing):
    """Gives each event as ``{name: payload}``."""

    def _document(self, message: Message) -> bytes:
        try:
            payload = orjson.loads(message.payload)
        except orjson.JSONDecodeError:
            raise ResponseParse("an event of the stream is not JSON") from None
        return orjson.dumps({message.headers.get(":event-type", ""): payload})


class ChunkFraming(_Framing):
    """Gives what each ``chunk`` holds, which is an event of the model's own API."""

    def _document(self, message: Message) -> bytes:
        try:
            return chunk_in(message.payload)
        except ValueError:
            raise ResponseParse("a chunk of the stream holds no bytes") from None


def chunk_in(payload: bytes) -> bytes:
    """What a chunk holds.

    Raises:
        ValueError: It is none.
    """
    match orjson.loads(payload):
        case {"bytes": str(encoded)}:
            return binascii.a2b_base64(encoded, strict_mode=True)
    raise ValueError("it has no bytes")
