"""Recorded answers of a wire: what the ``wire`` of a fixture says.

It is ``{protocol, stream, status, headers, body | body_base64 | events}``; `docs/store-format.md`
describes it. What it decodes to is what a client would have got.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import ResponseParse, Upstream
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.types import LlmResponse, StreamChunk
from cortex_replay.wire import WIRES
from cortex_replay.wire.event_stream import Message, MessageParser, chunk_in, write_message
from cortex_replay.wire.failures import upstream_error

__all__ = [
    "body_of",
    "decode_chunks",
    "decode_failure",
    "decode_recording",
    "event_bytes",
    "event_in",
    "timed_chunks",
]


def decode_recording(wire: Mapping[str, JsonValue], asked_model: str) -> LlmResponse:
    """The answer that a recorded body or stream holds.

    Raises:
        LlmError: It holds none, or is of a protocol that is not known.
    """
    codec = WIRES[_protocol(wire)]
    if wire.get("stream") is not True:
        body = body_of(wire)
        _refuse_ambiguity(body)
        return codec.decode_answer(body, asked_model)
    last = decode_chunks(wire, asked_model)[-1].response
    if last is None:
        raise ResponseParse("its stream has no end")
    return last


def decode_chunks(wire: Mapping[str, JsonValue], asked_model: str) -> list[StreamChunk]:
    """The chunks of a recorded stream; see :func:`decode_recording`.

    Nothing may follow the end: some clients read on, and would get what no reviewer sees.
    """
    decoder = WIRES[_protocol(wire)].stream_decoder(asked_model)
    body = body_of(wire)
    chunks = [*decoder.feed(body), *decoder.finish()]
    if decoder.rest.strip():
        raise ResponseParse("something follows the end of its stream")
    return chunks


def timed_chunks(wire: Mapping[str, JsonValue], asked_model: str) -> list[tuple[float, StreamChunk]]:
    """The chunks of a recorded stream, each with the time of the event that it came in.

    Raises:
        LlmError: It holds no stream, or one of a protocol that is not known.
    """
    decoder = WIRES[_protocol(wire)].stream_decoder(asked_model)
    found: list[tuple[float, StreamChunk]] = []
    now = 0.0
    for now, data in _timed_bytes(wire):
        found += [(now, chunk) for chunk in decoder.feed(data)]
    found += [(now, chunk) for chunk in decoder.finish()]
    return found


def _timed_bytes(wire: Mapping[str, JsonValue]) -> Iterator[tuple[float, bytes]]:
    """The events of a recorded stream; one that was kept as a body came at once."""
    events = wire.get("events")
    if not isinstance(events, list):
        yield 0.0, body_of(wire)
        return
    for event in events:
        at_ms = event.get("at_ms") if isinstance(event, dict) else None
        yield float(at_ms) if isinstance(at_ms, int | float) else 0.0, event_bytes(event)


def _refuse_ambiguity(body: bytes) -> None:
    """What two readers of JSON read differently, such as a key that stands twice, is not to be trusted."""
    try:
        loads(body)
    except JsonError as error:
        raise ResponseParse(str(error)) from None


def decode_failure(wire: Mapping[str, JsonValue]) -> Upstream:
    """The error that a recorded answer with an error status was."""
    status, headers = wire.get("status"), wire.get("headers")
    kind = headers.get("content-type", "") if isinstance(headers, dict) else ""
    return upstream_error(status if isinstance(status, int) else 0, str(kind), body_of(wire))


def _protocol(wire: Mapping[str, JsonValue]) -> str:
    protocol = wire.get("protocol")
    if not isinstance(protocol, str) or protocol not in WIRES:
        raise ResponseParse("its protocol is not known")
    if wire.get("status") != 200:
        raise ResponseParse("its status is not 200")
    if not isinstance(wire.get("stream"), bool):
        raise ResponseParse("it does not say whether it is a stream")
    return protocol


def body_of(wire: Mapping[str, JsonValue]) -> bytes:
    """The bytes of a recorded answer.

    Raises:
        ResponseParse: It has none, or more than one form of them.
    """
    if sum(name in wire for name in ("body", "body_base64", "events")) != 1:
        raise ResponseParse("it must have one of body, body_base64 and events")
    match wire:
        case {"body": str(text)}:
            return text.encode()
        case {"body_base64": str(encoded)}:
            try:
                return binascii.a2b_base64(encoded, strict_mode=True)
            except ValueError:
                raise ResponseParse("its body is not base64") from None
        case {"events": list(events)}:
            return b"".join(map(event_bytes, events))
    raise ResponseParse("it has no body and no events")


def event_in(at_ms: float, data: bytes) -> dict[str, JsonValue]:
    """An event as a recording holds it: so that a person can read it, and a search for secrets too.

    Raises:
        ValueError: It cannot be written so that the same bytes come back.
    """
    message = None
    if data.startswith(b"\0"):  # the length of a message; its checksums may be text by chance
        with contextlib.suppress(ResponseParse):
            message = next(MessageParser().feed(data), None)
    for written in () if message is None else _written(message):
        event: dict[str, JsonValue] = {"at_ms": at_ms, "message": written}
        if event_bytes(event) == data:
            return event
    try:
        return {"at_ms": at_ms, "text": data.decode()}
    except UnicodeDecodeError:
        raise ValueError("it is neither text nor a message that is written so") from None


def _written(message: Message) -> Iterator[dict[str, JsonValue]]:
    """The ways to write a message: what a model sent through a wrapper is best read without it."""
    headers: dict[str, JsonValue] = dict(message.headers)
    try:
        inner = chunk_in(message.payload).decode()
    except ValueError:
        pass
    else:
        yield {"headers": headers, "chunk": {**orjson.loads(message.payload), "bytes": inner}}
    with contextlib.suppress(UnicodeDecodeError):
        yield {"headers": headers, "payload": message.payload.decode()}


def event_bytes(event: JsonValue) -> bytes:
    """The bytes of a recorded event; the way back of :func:`event_in`.

    Raises:
        ResponseParse: It is none.
    """
    match event:
        case {"text": str(text)}:
            return text.encode()
        case {"message": {"headers": dict(headers), "payload": str(payload)}}:
            return _message_bytes(headers, payload.encode())
        case {"message": {"headers": dict(headers), "chunk": {"bytes": str(inner)} as chunk}}:
            encoded = base64.b64encode(inner.encode()).decode()
            fields: dict[str, JsonValue] = chunk  # type: ignore[assignment]
            return _message_bytes(headers, orjson.dumps({**fields, "bytes": encoded}))
    raise ResponseParse("one of its events is neither text nor a message")


def _message_bytes(headers: dict[str, Any], payload: bytes) -> bytes:
    if all(isinstance(value, str) for value in headers.values()):
        try:
            return write_message(Message(headers, payload))
        except ValueError:
            pass
    raise ResponseParse("the headers of one of its messages make no sense")
