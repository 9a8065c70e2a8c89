"""Faults in binary streams: each is what a client would see, never a broken frame."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay import LlmError, LlmResponse, StreamChunk, TokenUsage, ToolCall, ToolCallDelta, Upstream
from cortex_replay.engine.http.call import HttpReply
from cortex_replay.faults.fault import Fault
from cortex_replay.faults.replies import faulty_reply, refusal
from cortex_replay.wire import WIRES
from cortex_replay.wire.event_stream import EVENT_STREAM

BINARY = [protocol for protocol, wire in WIRES.items() if wire.stream_media_type == EVENT_STREAM]
CALL = ToolCall(id="a", name="look", arguments={"city": "Paris"})
ANSWER = LlmResponse("Hello.", None, "asked", TokenUsage(1, 2), "", "tool_calls", (CALL,))
wires = pytest.mark.parametrize("protocol", BINARY)


def reply_of(protocol: str) -> HttpReply:
    """A recorded stream, with several messages in one event, as a network may give them."""
    encoder = WIRES[protocol].stream_encoder("asked", "1")
    chunks = [
        StreamChunk("Hello."),
        StreamChunk("", tool_calls=(ToolCallDelta.whole(0, CALL),)),
        StreamChunk("", "tool_calls", response=ANSWER),
    ]
    events = [encoder.start() + encoder.chunk(chunks[0]), *map(encoder.chunk, chunks[1:])]
    headers = (("content-type", EVENT_STREAM),)
    return HttpReply(200, headers, b"".join(events), tuple((1.0, data) for data in events))


def read(protocol: str, reply: HttpReply | None) -> Any:
    assert reply is not None
    decoder = WIRES[protocol].stream_decoder("asked")
    data = b"".join(data for _, data in reply.events)
    return [*decoder.feed(data), *decoder.finish()][-1].response


def fault(text: str) -> Fault:
    return Fault.parse(text)


@wires
def test_a_stream_in_pieces_says_the_same(protocol: str) -> None:
    whole = reply_of(protocol)
    for text in ("chunks:byte", "chunks:event", "chunks:whole"):
        assert read(protocol, faulty_reply(fault(text), whole, protocol)).text == "Hello."


@wires
def test_an_error_comes_as_an_exception(protocol: str) -> None:
    with pytest.raises(Upstream, match="on demand"):
        read(protocol, faulty_reply(fault("error-event"), reply_of(protocol), protocol))


@wires
def test_a_stream_is_cut_between_messages(protocol: str) -> None:
    cut = faulty_reply(fault("cut:2"), reply_of(protocol), protocol)

    assert cut is not None
    assert len(cut.events) == 2
    with pytest.raises(LlmError, match="before its last event"):
        read(protocol, cut)


@wires
def test_json_is_broken_inside_a_message(protocol: str) -> None:
    with pytest.raises(LlmError, match=r"not JSON|no bytes"):
        read(protocol, faulty_reply(fault("malformed-json"), reply_of(protocol), protocol))


@wires
def test_arguments_are_broken_and_the_rest_is_right(protocol: str) -> None:
    response = read(protocol, faulty_reply(fault("malformed-tool"), reply_of(protocol), protocol))

    assert response.text == "Hello."
    assert isinstance(response.tool_calls[0].arguments, str)


def test_a_refusal_has_the_name_that_amazon_gives_it() -> None:
    assert b'"__type":"ThrottlingException"' in refusal(fault("429"), "bedrock-converse").body
