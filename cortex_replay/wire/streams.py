"""What reading and writing a stream have in common, whatever the protocol."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

import orjson

from cortex_replay.errors import InvalidRequest, ResponseParse, Transport
from cortex_replay.hashing import blake3_hex
from cortex_replay.types import LlmResponse, StreamChunk, TokenUsage, ToolCallDelta
from cortex_replay.wire.failures import error_in
from cortex_replay.wire.shape import WrongShape

__all__ = ["CallQueue", "Framing", "StreamDecoder", "StreamEncoder"]

_MAX_EVENTS: Final = 1_000_000


class Framing(Protocol):
    """Bytes as the events that they hold."""

    @property
    def consumed(self) -> int:
        """How many bytes there are up to the end of the last event that was given."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...
    def flush(self) -> Iterator[bytes]: ...


class StreamDecoder(ABC):
    """Bytes of an answer in, chunks out. The last chunk carries the whole response."""

    def __init__(self, framing: Framing, asked_model: str) -> None:
        self.is_done = False
        """Whether the last chunk was given; what follows is not looked at."""
        self._framing = framing
        self._raw = bytearray()
        self._model = asked_model
        self._usage: TokenUsage | None = None
        self._finish_reason: str | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._pieces: list[ToolCallDelta] = []
        self._events = 0

    @property
    def rest(self) -> bytes:
        """What was fed after the last event."""
        return bytes(self._raw[self._framing.consumed :]) if self.is_done else b""

    def feed(self, data: bytes) -> Iterator[StreamChunk]:
        """The chunks that ``data`` completes.

        Raises:
            Upstream: The provider reports an error in the stream.
            ResponseParse: The stream is not in its protocol.
        """
        if not self.is_done:
            self._raw += data
            yield from self._chunks(self._framing.feed(data))

    def finish(self) -> Iterator[StreamChunk]:
        """The chunks that the end of the bytes completes.

        Raises:
            Transport: The stream ended before its last event.
        """
        if not self.is_done:
            with contextlib.suppress(ResponseParse):  # half an event is no surprise here
                yield from self._chunks(self._framing.flush())
                yield from self._end_of_bytes()
        if not self.is_done:
            raise Transport("the stream ended before its last event")

    def _chunks(self, events: Iterable[bytes]) -> Iterator[StreamChunk]:
        for event in events:
            self._events += 1
            if self._events > _MAX_EVENTS:
                raise ResponseParse(f"the stream has more than {_MAX_EVENTS} events")
            try:
                for chunk in self._event(event):
                    yield chunk
                    if self.is_done:
                        return
            except WrongShape as error:
                raise ResponseParse(f"an event of the stream: {error}") from None
            except InvalidRequest as error:  # a value that no chunk can hold
                reason = f"an event of the stream: {error.field}: {error.reason}"
                raise ResponseParse(reason) from None

    def _end_of_bytes(self) -> Iterator[StreamChunk]:
        """The last chunk, in a protocol whose streams end with nothing but their bytes."""
        return iter(())

    @abstractmethod
    def _event(self, event: bytes) -> Iterator[StreamChunk]:
        """The chunks that one event gives, most often one or none."""

    def _document(self, event: bytes) -> dict[str, Any]:
        try:
            document = orjson.loads(event)
        except orjson.JSONDecodeError:
            raise ResponseParse("an event of the stream is not JSON") from None
        if not isinstance(document, dict):
            raise ResponseParse("an event of the stream is not a JSON object")
        if (error := error_in(document, 200)) is not None:
            raise error
        return document

    def _add_text(self, delta: str) -> Iterator[StreamChunk]:
        if delta:
            self._text.append(delta)
            yield StreamChunk(delta)

    def _add_reasoning(self, reasoning: str) -> Iterator[StreamChunk]:
        if reasoning:
            self._reasoning.append(reasoning)
            yield StreamChunk("", reasoning=reasoning)

    def _add_call(self, piece: ToolCallDelta) -> Iterator[StreamChunk]:
        self._pieces.append(piece)
        yield StreamChunk("", tool_calls=(piece,))

    def _end(self) -> Iterator[StreamChunk]:
        """The last chunk.

        A server that lost its own upstream may end a stream in good form, but cannot say why it ended.
        """
        if self._finish_reason is None:
            raise Transport("the stream ended without a reason")
        self.is_done = True
        response = LlmResponse(
            text="".join(self._text),
            parsed_json=None,
            model=self._model,
            usage=self._usage,
            raw_hash=blake3_hex(bytes(self._raw[: self._framing.consumed])),
            finish_reason=self._finish_reason,
            tool_calls=ToolCallDelta.join(self._pieces),
            reasoning="".join(self._reasoning) or None,
        )
        yield StreamChunk("", response.finish_reason, response=response)


class CallQueue:
    """Pieces of tool calls in the order in which most protocols can write them: one call at a time.

    Pieces of another call wait until the end, joined; so do those of a call that has no name yet.
    """

    def __init__(self) -> None:
        self._open: int | None = None
        self._waiting: dict[int, list[ToolCallDelta]] = {}

    def put(self, piece: ToolCallDelta) -> Iterator[ToolCallDelta]:
        """The pieces that can be written now; the first one of a call has its name."""
        if piece.index == self._open:
            yield piece
            return
        self._waiting.setdefault(piece.index, []).append(piece)
        if self._open is None and any(waiting.name for waiting in self._waiting[piece.index]):
            self._open = piece.index
            yield self._join(piece.index)

    def rest(self) -> Iterator[ToolCallDelta]:
        """What waited, a whole call each."""
        for index in sorted(self._waiting):
            yield self._join(index)

    def _join(self, index: int) -> ToolCallDelta:
        pieces = self._waiting.pop(index)
        call_id = next((piece.id for piece in pieces if piece.id is not None), None)
        name = next((piece.name for piece in pieces if piece.name is not None), "")
        return ToolCallDelta(index, call_id, name, "".join(piece.arguments for piece in pieces))


class StreamEncoder(ABC):
    """Chunks in, bytes of one protocol's events out; the way back of :class:`StreamDecoder`."""

    @abstractmethod
    def start(self) -> bytes:
        """The events before the first chunk."""

    @abstractmethod
    def chunk(self, chunk: StreamChunk) -> bytes:
        """The events of one chunk; for the last one, which has the response, the closing ones too."""
