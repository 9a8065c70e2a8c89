"""What a wire is: one provider's HTTP shape, both ways, as pure functions of values and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest, ResponseParse
from cortex_replay.hashing import blake3_hex
from cortex_replay.types import LlmRequest, LlmResponse
from cortex_replay.wire.body import Body
from cortex_replay.wire.failures import error_in
from cortex_replay.wire.shape import WrongShape
from cortex_replay.wire.streams import StreamDecoder, StreamEncoder

__all__ = ["Wire"]


_HINTS: Final = {
    "tools": "a tool is given as name, description and input_schema, without a wrapper",
    "tool_choice": 'the default is left out; else "required", "none" or {"name": ...}',
}


class _ErrorEncoder(Protocol):
    def __call__(self, status: int, message: str, error_type: str | None = None) -> Body: ...


@dataclass(frozen=True, kw_only=True)
class Wire:
    """One provider's shape of requests, answers, streams and errors."""

    protocol: str
    """The name that recordings carry."""
    lift: Callable[[object], LlmRequest]
    """The request that a body makes; :class:`InvalidRequest` for what cannot be one."""
    encode_request: Callable[[LlmRequest], Body]
    """The body, as far as this wire can say it; what it leaves out, :meth:`lower` refuses."""
    read_answer: Callable[[dict[str, Any], str, str], LlmResponse]
    """A whole answer, from its document, the model that was asked, and the hash of its bytes."""
    encode_answer: Callable[[LlmResponse, str], Body]
    """An answer in this wire's shape; ids that it lacks are made from the second argument."""
    stream_decoder: Callable[[str], StreamDecoder]
    """A reader of streams, given the model that was asked."""
    stream_encoder: Callable[[str, str], StreamEncoder]
    """A writer of streams, given the model that answers and what to make ids from."""
    encode_error: _ErrorEncoder
    """An error in this wire's shape."""
    stream_media_type: str = "text/event-stream"
    stream_parameters: Mapping[str, JsonValue] = field(default_factory=lambda: {"stream": True})
    """What a body needs to ask for a stream."""
    streams_by_default: bool = False

    def lower(self, request: LlmRequest, *, stream: bool = False) -> Body:
        """The body that makes a request.

        It is lifted again before it is given: what would not have the request's key is not sent.

        Raises:
            InvalidRequest: This wire cannot carry a part of the request.
        """
        body = self.encode_request(request)
        lifted = self.lift(body)
        if lifted.canonical_bytes() != request.canonical_bytes():
            place, reason = _first_difference(request.to_dict(), lifted.to_dict())
            hint = next((hint for start, hint in _HINTS.items() if place.startswith(start)), reason)
            raise InvalidRequest(place, f"{self.protocol} cannot carry it so: {hint}")
        if stream:
            body |= self.stream_parameters
        elif self.streams_by_default:
            body["stream"] = False
        return body

    def wants_stream(self, body: Body) -> bool:
        """Whether a body asks for its answer as a stream."""
        return body.get("stream", self.streams_by_default) is True

    def decode_answer(self, data: bytes, asked_model: str) -> LlmResponse:
        """A whole answer; ``parsed_json`` is left to whoever knows the request's schema.

        Raises:
            Upstream: It is an error in spite of its status.
            ResponseParse: It is no answer of this wire.
        """
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise ResponseParse("the answer is not JSON") from None
        if not isinstance(document, dict):
            raise ResponseParse("the answer is not a JSON object")
        if (reported := error_in(document, 200)) is not None:
            raise reported
        try:
            return self.read_answer(document, asked_model, blake3_hex(data))
        except WrongShape as error:
            raise ResponseParse(f"the answer: {error}") from None
        except InvalidRequest as error:  # a value that no response can hold
            raise ResponseParse(f"the answer: {error.field}: {error.reason}") from None


def _first_difference(asked: JsonValue, carried: JsonValue, where: str = "") -> tuple[str, str]:
    if isinstance(asked, dict) and isinstance(carried, dict):
        for name in [*asked, *carried]:
            if asked.get(name) != carried.get(name) or (name in asked) != (name in carried):
                way = f"{where}.{name}".removeprefix(".")
                if name not in carried:
                    inner = asked[name]
                    return f"{way}.{next(iter(inner))}" if isinstance(
                        inner, dict
                    ) and inner else way, "it has no place there"
                if name not in asked:
                    return way, "it would be read as something that was not asked for"
                return _first_difference(asked[name], carried[name], way)
    if isinstance(asked, list) and isinstance(carried, list):
        for i, (one, other) in enumerate(zip(asked, carried, strict=False)):
            if one != other:
                return _first_difference(one, other, f"{where}[{i}]")
        if where.endswith(".parts"):
            return where, "where a message has parts, its text is one of them"
        return f"{where}[{min(len(asked), len(carried))}]", "it would not be told from what stands before it"
    return where or "request", "it would be read in another form; docs/wires.md shows the one to use"
