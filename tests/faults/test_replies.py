"""What goes wrong with a reply of Gemini's, whose streams have no last event to lose."""

from __future__ import annotations

import json

import orjson
import pytest

from cortex_replay import (
    LlmResponse,
    ResponseParse,
    StreamChunk,
    ToolCall,
    ToolCallDelta,
    Transport,
    Upstream,
)
from cortex_replay.engine.http.call import HttpReply
from cortex_replay.faults.fault import Fault
from cortex_replay.faults.replies import faulty_reply, refusal
from cortex_replay.wire import WIRES

GEMINI = "gemini-generate"
CALL = ToolCall(id="a", name="f", arguments={"city": "Paris"})
RESPONSE = LlmResponse("Hi.", None, "m", None, "", "tool_calls", (CALL,))


def stream() -> HttpReply:
    encoder = WIRES[GEMINI].stream_encoder("m", "1")
    pieces = StreamChunk("", tool_calls=(ToolCallDelta.whole(0, CALL),))
    chunks = [StreamChunk("Hi."), pieces, StreamChunk("", "tool_calls", response=RESPONSE)]
    events = tuple((0.0, data) for chunk in chunks if (data := encoder.chunk(chunk)))
    return HttpReply(200, (), b"".join(data for _, data in events), events)


def faulty(fault: str, reply: HttpReply) -> bytes:
    changed = faulty_reply(Fault.parse(fault), reply, GEMINI)
    assert changed is not None
    return b"".join(data for _, data in changed.events) or changed.body


def read(data: bytes) -> None:
    decoder = WIRES[GEMINI].stream_decoder("m")
    list(decoder.feed(data))
    list(decoder.finish())


@pytest.mark.parametrize(
    ("fault", "error"), [("cut:1", Transport), ("error-event:1", Upstream), ("malformed-json", ResponseParse)]
)
def test_a_stream_goes_wrong(fault: str, error: type[Exception]) -> None:
    read(stream().body)

    with pytest.raises(error):
        read(faulty(fault, stream()))


def test_arguments_are_broken_in_both_ways() -> None:
    body = orjson.dumps(WIRES[GEMINI].encode_answer(RESPONSE, "1"))
    broken = [faulty("malformed-tool", stream()), faulty("malformed-tool", HttpReply(200, (), body))]

    assert all(b'"args":"{\\"city\\": \\"Par"' in data for data in broken)


def test_an_error_is_one_of_google_s() -> None:
    reply = refusal(Fault.parse("429"), GEMINI)

    assert (reply.status, json.loads(reply.body)["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
