"""Lower then lift is the identity; how the bytes of a stream are cut makes no difference."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from cortex_replay import InvalidRequest, LlmError, LlmResponse, StreamChunk, Transport
from cortex_replay.wire import WIRES, Wire
from cortex_replay.wire.event_stream import EVENT_STREAM
from tests.property.strategies import effort
from tests.property.wire_strategies import PROTOCOLS, chunked, responses, wire_requests
from tests.sampling import sample

wires = pytest.mark.parametrize("protocol", PROTOCOLS)


def without_hash(response: LlmResponse | None) -> LlmResponse:
    assert response is not None
    return dataclasses.replace(response, raw_hash="")


def decoded(wire: Wire, pieces: list[bytes]) -> list[StreamChunk]:
    decoder = wire.stream_decoder("asked")
    chunks = [chunk for piece in pieces for chunk in decoder.feed(piece)]
    return chunks + list(decoder.finish())


def cut(raw: bytes, cuts: list[int]) -> list[bytes]:
    ends = [0, *sorted(min(c, len(raw)) for c in cuts), len(raw)]
    return [raw[a:b] for a, b in itertools.pairwise(ends)]


def is_text(wire: Wire) -> bool:
    """Whether a stream is lines, in which a line end more makes no difference."""
    return wire.stream_media_type != EVENT_STREAM


def written(wire: Wire, chunks: list[StreamChunk]) -> bytes:
    assert chunks[-1].response is not None
    encoder = wire.stream_encoder(chunks[-1].response.model, "1")
    return encoder.start() + b"".join(map(encoder.chunk, chunks))


@wires
@given(st.data())
@effort(72)
def test_lowering_then_lifting_gives_the_request(protocol: str, data: st.DataObject) -> None:
    """Through JSON text, streamed or not: every field, signatures and data among them."""
    wire = WIRES[protocol]
    request = data.draw(wire_requests(protocol))

    body = orjson.loads(orjson.dumps(wire.lower(request, stream=data.draw(st.booleans()))))

    assert wire.lift(body) == request


@wires
@given(st.data())
@effort(100)
def test_an_answer_survives_its_wire(protocol: str, data: st.DataObject) -> None:
    """Encoding then decoding gives it back."""
    wire = WIRES[protocol]
    response = data.draw(responses(protocol))

    raw = orjson.dumps(wire.encode_answer(response, "1"))

    assert without_hash(wire.decode_answer(raw, "asked")) == response


@wires
@given(st.data())
@effort(100)
def test_a_stream_survives_its_wire_however_it_is_cut(protocol: str, data: st.DataObject) -> None:
    """The same chunks and the same hash from the whole, from bytes one by one, and from any cuts."""
    wire = WIRES[protocol]
    response = data.draw(responses(protocol))
    chunks = data.draw(chunked(response))
    raw = written(wire, chunks)
    if is_text(wire) and data.draw(st.booleans()):
        raw = raw.replace(b"\n", b"\r\n")
    raw += data.draw(st.sampled_from([b"", b": comment\n\n", b"\n\n", b"data: {}\n\n"]))

    whole = decoded(wire, [raw])
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=20))

    assert decoded(wire, [raw[i : i + 1] for i in range(len(raw))]) == whole
    assert decoded(wire, cut(raw, cuts)) == whole
    assert without_hash(whole[-1].response) == response
    assert "".join(chunk.delta for chunk in whole) == response.text
    assert "".join(chunk.reasoning or "" for chunk in whole) == (response.reasoning or "")


@wires
@given(st.data())
@effort(12)
def test_a_stream_cut_off_anywhere_is_an_error(protocol: str, data: st.DataObject) -> None:
    """At any byte: never a shorter answer that looks whole."""
    wire = WIRES[protocol]
    response = data.draw(responses(protocol))
    raw = written(wire, data.draw(chunked(response)))
    complete = len(raw.rstrip(b"\n") if is_text(wire) else raw)

    for end in sample(range(complete), 40, kind=lambda end: end > complete - 80):  # of the end, and before
        with pytest.raises(Transport):
            decoded(wire, [raw[:end]])
    for end in range(complete, len(raw) + 1):
        assert without_hash(decoded(wire, [raw[:end]])[-1].response) == response


@wires
@given(st.binary(max_size=200), st.data())
@effort(100)
def test_noise_is_an_error_of_ours(protocol: str, noise: bytes, data: st.DataObject) -> None:
    """Whatever comes, nothing but the documented errors leaves the decoder."""
    wire = WIRES[protocol]
    response = data.draw(responses(protocol))
    raw = written(wire, data.draw(chunked(response)))
    at = data.draw(st.integers(0, len(raw)))

    for broken in (noise, raw[:at] + noise + raw[at:]):
        try:
            decoded(wire, [broken])
            wire.decode_answer(broken, "asked")
        except LlmError:
            pass


PARAMETERS = [
    "model",
    "messages",
    "input",
    "prompt",
    "system",
    "tools",
    "options",
    "format",
    "stop",
    "temperature",
    "text",
    "response_format",
    "output_config",
    "tool_choice",
    "instructions",
    "contents",
    "systemInstruction",
    "generationConfig",
    "toolConfig",
]
SHAPES = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "image_url",
        "url",
        "file",
        "source",
        "tool_calls",
        "function",
        "name",
        "arguments",
        "tool_use_id",
        "tool_result",
        "data",
        "images",
        "id",
        "call_id",
        "schema",
        "parts",
        "functionCall",
        "functionResponse",
        "inline_data",
        "args",
        "response",
    ]
)
shapes: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | SHAPES
    | st.sampled_from(["user", "assistant", "tool", "model"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SHAPES, inner, max_size=5),
    max_leaves=15,
)


@wires
@given(st.dictionaries(st.sampled_from(PARAMETERS), shapes) | shapes)
@effort(80)
def test_a_body_lifts_or_is_an_invalid_request(protocol: str, body: Any) -> None:
    """No other error, whatever a client sends; and what lifts is lowered to the same key or refused."""
    wire = WIRES[protocol]
    try:
        request = wire.lift(body)
        again = wire.lift(wire.lower(request))
    except InvalidRequest:
        return
    assert again.prompt_hash() == request.prompt_hash()
