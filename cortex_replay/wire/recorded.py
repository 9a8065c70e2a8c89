"""Recorded answers of a wire: what the ``wire`` of a fixture says.

It is ``{protocol, stream, status, headers, body | body_base64 | events}``; `docs/store-format.md`
describes it. What it decodes to is what a client would have got.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import ResponseParse
from cortex_replay.types import LlmResponse, StreamChunk
from cortex_replay.wire import WIRES

__all__ = ["decode_recorded", "recorded_chunks"]


def decode_recorded(wire: Mapping[str, JsonValue], asked_model: str) -> LlmResponse:
    """The answer that a recorded body or stream holds.

    Raises:
        LlmError: It holds none, or is of a protocol that is not known.
    """
    if wire.get("stream") is True:
        last = recorded_chunks(wire, asked_model)[-1].response
        if last is not None:
            return last
    return WIRES[_protocol(wire)].decode_answer(_body(wire), asked_model)


def recorded_chunks(wire: Mapping[str, JsonValue], asked_model: str) -> list[StreamChunk]:
    """The chunks of a recorded stream; see :func:`decode_recorded`."""
    decoder = WIRES[_protocol(wire)].stream_decoder(asked_model)
    return [*decoder.feed(_body(wire)), *decoder.finish()]


def _protocol(wire: Mapping[str, JsonValue]) -> str:
    protocol = wire.get("protocol")
    if not isinstance(protocol, str) or protocol not in WIRES:
        raise ResponseParse("its protocol is not known")
    status = wire.get("status")
    if not isinstance(status, int) or not 200 <= status < 300:
        raise ResponseParse("its status is not a good one")
    return protocol


def _body(wire: Mapping[str, JsonValue]) -> bytes:
    match wire:
        case {"body": str(text)}:
            return text.encode()
        case {"body_base64": str(encoded)}:
            try:
                return binascii.a2b_base64(encoded, strict_mode=True)
            except ValueError:
                raise ResponseParse("its body is not base64") from None
        case {"events": list(events)}:
            texts = [event.get("text") if isinstance(event, dict) else None for event in events]
            if all(isinstance(text, str) for text in texts):
                return "".join(map(str, texts)).encode()
    raise ResponseParse("it has no body and no events")
