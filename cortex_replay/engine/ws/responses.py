"""OpenAI's Responses over a WebSocket, in terms of the same calls over HTTP.

A client sends ``response.create`` with the fields of a body, and gets the events of a stream, one a message.
So both ways share one key and one recording, and each replays what the other has recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.call import HttpReply
from cortex_replay.errors import InvalidRequest
from cortex_replay.wire.sse import SseParser, sse_event

__all__ = [
    "Creation",
    "FrameReader",
    "create_event",
    "error_frame",
    "event_of_frame",
    "is_last",
    "read_message",
    "with_stream_id",
]

_CREATE: Final = "response.create"
_NOTICES: Final = ("response.processed",)
"""What clients send that asks for nothing."""
_ENVELOPE: Final = ("type", "event_id", "stream_id")
"""What a message has beside the fields of a body."""
_LAST: Final = ("response.completed", "response.failed", "response.incomplete", "error")
_END: Final = b"[DONE]"
_LINE_END: Final = re.compile(r"\r\n?|\n")
_SHOWN: Final = 500
_NOT_TOLD: Final = ("content-type", "x-should-retry")


class Creation(NamedTuple):
    """A response that a client wants."""

    body: bytes
    """As it would be posted."""
    stream_id: str | None = None
    """What its events are to be marked with."""


def read_message(message: str | bytes) -> Creation | None:
    """What a client wants; ``None`` for a message that asks for nothing.

    Raises:
        InvalidRequest: It is no message that is served.
    """
    try:
        event = orjson.loads(message)
    except orjson.JSONDecodeError:
        raise InvalidRequest("message", "is not JSON") from None
    kind = event.get("type") if isinstance(event, dict) else None
    if kind in _NOTICES:
        return None
    if kind != _CREATE:
        reason = f"expected {_CREATE}; nothing else is recorded here, so nothing else could be replayed"
        raise InvalidRequest("type", reason)
    body = {name: value for name, value in event.items() if name not in _ENVELOPE}
    if body.get("generate") is not False:  # it is the default, and HTTP knows no other
        body.pop("generate", None)
    stream_id = event.get("stream_id")
    # Every message is answered by a stream, whatever it says of that.
    return Creation(orjson.dumps(body | {"stream": True}), stream_id if isinstance(stream_id, str) else None)


def create_event(body: bytes) -> str:
    """The message that asks for what a body asks for."""
    fields = orjson.loads(body)
    fields.pop("stream", None)
    return orjson.dumps({"type": _CREATE} | fields).decode()


class FrameReader:
    """The messages in the bytes of a stream of events."""

    def __init__(self) -> None:
        self._parser = SseParser()

    def feed(self, data: bytes) -> Iterator[str]:
        """The messages that these bytes complete."""
        for event in self._parser.feed(data):
            if event != _END:
                yield event.decode(errors="replace")

    def finish(self) -> Iterator[str]:
        """What stands behind the last blank line."""
        for event in self._parser.flush():
            if event != _END:
                yield event.decode(errors="replace")


def event_of_frame(frame: str) -> bytes:
    """A message as an event of a stream."""
    kind = _type_of(frame)
    lines = _LINE_END.split(frame)
    data = b"\ndata: ".join(line.encode() for line in lines)
    return sse_event(data, kind if kind and not _LINE_END.search(kind) else None)


def is_last(frame: str) -> bool:
    """Whether nothing follows a message."""
    return _type_of(frame) in _LAST


def _type_of(frame: str) -> str | None:
    try:
        event = orjson.loads(frame)
    except orjson.JSONDecodeError:
        return None
    kind = event.get("type") if isinstance(event, dict) else None
    return kind if isinstance(kind, str) else None


def error_frame(reply: HttpReply) -> str:
    """An answer with an error status as the message that a client gets instead of events."""
    error: JsonValue = None
    try:
        document = orjson.loads(reply.body)
        error = document.get("error") if isinstance(document, dict) else None
    except orjson.JSONDecodeError:
        pass
    if not isinstance(error, dict):
        error = {"type": "api_error", "message": reply.body[:_SHOWN].decode(errors="replace")}
    told = {name: value for name, value in reply.headers if name not in _NOT_TOLD}
    frame = {"type": "error", "status": reply.status, "error": error}
    return orjson.dumps(frame | ({"headers": told} if told else {})).decode()


def with_stream_id(frame: str, stream_id: str | None) -> str:
    """A message for one stream of several on a connection; the rest of its bytes stays as it is."""
    if stream_id is None or not frame.endswith("}"):
        return frame
    comma = "" if frame[:-1].rstrip().endswith("{") else ","
    return f'{frame[:-1]}{comma}"stream_id":{orjson.dumps(stream_id).decode()}}}'
