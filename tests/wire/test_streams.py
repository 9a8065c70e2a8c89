"""What a stream says, piece by piece, where a careless reader would join or lose something."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cortex_replay import LlmResponse, ResponseParse
from cortex_replay.wire import WIRES
from cortex_replay.wire.recording import decode_recording
from cortex_replay.wire.sse import sse_event


def read(protocol: str, *events: Any) -> LlmResponse:
    is_lines = WIRES[protocol].stream_media_type == "application/x-ndjson"
    written = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    raw = b"".join(data + b"\n" if is_lines else sse_event(data) for data in written)
    decoder = WIRES[protocol].stream_decoder("m")
    response = [*decoder.feed(raw), *decoder.finish()][-1].response
    assert response is not None
    return response


def choice(index: int = 0, reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": reason}]}


def test_a_refusal_stays_one_whatever_reason_follows() -> None:
    said = read("openai-chat", choice(refusal="No."), choice(reason="stop"), b"[DONE]")
    assert (said.text, said.finish_reason) == ("No.", "refusal")


def test_of_several_choices_the_first_is_the_answer() -> None:
    events = [choice(0, content="a"), choice(1, content="x"), choice(0, content="b"), choice(1, "length")]
    said = read("openai-chat", *events, choice(0, "stop"), b"[DONE]")
    assert (said.text, said.finish_reason) == ("ab", "stop")


def test_what_gemini_thinks_is_no_text() -> None:
    parts = [{"text": "Hm. ", "thought": True}, {"text": "Yes."}]
    said = read("gemini-generate", {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]})
    assert (said.text, said.reasoning) == ("Yes.", "Hm. ")


def test_calls_in_several_lines_of_ollama_are_several() -> None:
    def line(*names: str, **more: Any) -> dict[str, Any]:
        calls = [{"function": {"name": name, "arguments": {"of": name}}} for name in names]
        return {"message": {"content": "", "tool_calls": calls}, "done": False, **more}

    said = read("ollama-chat", line("a", "b"), line("c"), line("d"), line(done=True, done_reason="stop"))
    assert [(call.name, call.arguments) for call in said.tool_calls] == [(n, {"of": n}) for n in "abcd"]


LAST = 'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'


@pytest.mark.parametrize(
    ("content", "stream"),
    [
        ({"body": '{"choices": [], "choices": [{"message": {"content": "a"}}]}'}, False),
        ({"body": '{"choices": [{"message": {"content": "a", "content": "b"}}]}'}, False),
        ({"body": f"{LAST}data: [DONE]\n\nmore"}, True),
    ],
    ids=["a key twice", "a key twice within", "more behind the end"],
)
def test_a_recording_that_can_be_read_in_two_ways_is_none(content: dict[str, Any], stream: bool) -> None:
    wire = {"protocol": "openai-chat", "stream": stream, "status": 200, "headers": {}, **content}
    with pytest.raises(ResponseParse):
        decode_recording(wire, "m")
