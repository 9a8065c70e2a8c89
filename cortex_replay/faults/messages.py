"""Faults in streams of binary messages. Their checksums are right: what is wrong is what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import orjson

from cortex_replay.engine.http.call import HttpReply
from cortex_replay.wire import WIRES
from cortex_replay.wire.event_stream import (
    EVENT_STREAM,
    Message,
    MessageParser,
    chunk_in,
    chunk_message,
    message_end,
    write_message,
)

__all__ = ["broken_message", "exception_message", "has_messages", "messages_in", "speaks_messages"]


def speaks_messages(protocol: str | None) -> bool:
    """Whether streams of a protocol are such messages."""
    wire = WIRES.get(protocol or "")
    return wire is not None and wire.stream_media_type == EVENT_STREAM


def has_messages(reply: HttpReply) -> bool:
    """Whether a reply is a stream of them."""
    return dict(reply.headers).get("content-type", "").partition(";")[0] == EVENT_STREAM


def messages_in(data: bytes) -> Iterator[bytes]:
    """Each message by itself."""
    start = 0
    while (end := message_end(data, start)) is not None:
        yield data[start:end]
        start = end
    if start < len(data):
        yield data[start:]


def broken_message(data: bytes, break_document: Callable[[bytes], bytes | None]) -> bytes | None:
    """A message with the document in it broken; ``None`` if there is nothing to break."""
    message = next(MessageParser().feed(data), None)
    if message is None:
        return None
    try:
        chunk = break_document(chunk_in(message.payload))
    except ValueError:
        payload = break_document(message.payload)
        return None if payload is None else write_message(message._replace(payload=payload))
    return None if chunk is None else chunk_message(chunk)


def exception_message(said: str) -> bytes:
    """An error in the middle of a stream."""
    headers = {
        ":exception-type": "internalServerException",
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return write_message(Message(headers, orjson.dumps({"message": said})))
