"""What is taken down of a relayed answer: its bytes, event by event, and what they say."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from cortex_replay.adapters.schema import with_parsed_json
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.opaque import encode_body
from cortex_replay.engine.tape import answer_from
from cortex_replay.errors import LlmError
from cortex_replay.store import Answer, TimedChunk
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk
from cortex_replay.wire import WIRES
from cortex_replay.wire.event_stream import EVENT_STREAM, message_end
from cortex_replay.wire.recording import event_in

__all__ = ["AnswerTape", "StreamTape", "answer_of_body"]

_Cut = Callable[[bytearray, int, int], int | None]
"""Where an event ends, from its start on; what stands before the second number was searched already."""


def _cut_at(pattern: bytes) -> _Cut:
    search = re.compile(pattern).search

    def end_of(rest: bytearray, start: int, seen: int) -> int | None:
        end = search(rest, max(start, seen))
        return None if end is None else end.end()

    return end_of


_EVENT_END: Final[dict[str, _Cut]] = {
    "text/event-stream": _cut_at(rb"\r\n\r\n|\n\n|\r\r"),
    EVENT_STREAM: lambda rest, start, _: message_end(rest, start),
    "": _cut_at(rb"\n"),
}
_LONGEST_END: Final = 3


class StreamTape:
    """A stream as it comes: cut at the ends of its events, each with its time."""

    def __init__(self, media_type: str) -> None:
        self._end = _EVENT_END.get(media_type, _EVENT_END[""])
        self._started = time.monotonic()
        self._events: list[tuple[int, bytes]] = []
        self._rest = bytearray()
        self._consume = 0

    @property
    def at_ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)

    def add(self, data: bytes) -> None:
        """Take down the next bytes."""
        rest = self._rest
        rest += data
        start, at_ms = 0, self.at_ms
        while end := self._end(rest, start, self._consume):
            self._events.append((at_ms, bytes(rest[start:end])))
            start = self._consume = end
        del rest[:start]
        self._consume = max(0, len(rest) - _LONGEST_END)  # the rest of it may be still to come

    def content(self) -> dict[str, JsonValue]:
        """The stream as a recording holds it."""
        events = [*self._events, (self.at_ms, bytes(self._rest))] if self._rest else self._events
        try:
            return {"events": [event_in(at, data) for at, data in events]}
        except ValueError:
            return encode_body(b"".join(data for _, data in events))


class AnswerTape(StreamTape):
    """A stream that is also read, so that what it says can be stored beside it."""

    def __init__(self, request: LlmRequest, protocol: str, media_type: str) -> None:
        super().__init__(media_type)
        self._request = request
        self._protocol = protocol
        self._decoder = WIRES[protocol].stream_decoder(request.model)
        self._chunks: list[TimedChunk] = []
        self.response: LlmResponse | None = None
        self.problem: LlmError | None = None
        """Why it is no answer, if it is none."""

    def add(self, data: bytes) -> None:
        super().add(data)
        self._read(lambda: self._decoder.feed(data))

    def end(self) -> None:
        """There is no more."""
        self._read(self._decoder.finish)

    def _read(self, decode: Callable[[], Iterable[StreamChunk]]) -> None:
        if self.problem is None and self.response is None:
            try:
                for chunk in decode():
                    self.response = chunk.response or self.response
                    self._chunks.append(TimedChunk(self.at_ms, chunk))
            except LlmError as error:
                self.problem = error

    def answer(self, headers: dict[str, JsonValue]) -> Answer:
        """The whole answer, with the bytes that it came in."""
        assert self.response is not None  # noqa: S101 - asked for only then
        response = _parse_json(self._request, self.response)
        wire = {
            "protocol": self._protocol,
            "stream": True,
            "status": 200,
            "headers": headers,
            **self.content(),
        }
        return replace(answer_from(response, self._request.model, tuple(self._chunks)), wire=wire)


def answer_of_body(
    request: LlmRequest, protocol: str, body: bytes, headers: dict[str, JsonValue]
) -> tuple[Answer, LlmResponse]:
    """An answer that came in one piece.

    Raises:
        LlmError: It is none.
    """
    response = _parse_json(request, WIRES[protocol].decode_answer(body, request.model))
    wire = {"protocol": protocol, "stream": False, "status": 200, "headers": headers, **encode_body(body)}
    return replace(answer_from(response, request.model), wire=wire), response


def _parse_json(request: LlmRequest, response: LlmResponse) -> LlmResponse:
    """With its JSON, where a schema was asked for and kept to; the rest is the client's own affair."""
    try:
        return with_parsed_json(request, response)
    except (LlmError, ValueError):
        return response
