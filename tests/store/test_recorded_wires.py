"""A fixture's wire is what a client got: it must say what the response beside it says."""

from __future__ import annotations

import base64
import dataclasses
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest

from cortex_replay import (
    Answer,
    FixtureIntegrityFailed,
    LlmResponse,
    ReplayAdapter,
    StreamChunk,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
)
from cortex_replay.engine.http.tapes import StreamTape
from cortex_replay.wire import WIRES
from tests.builder import StoreBuilder, ask, fixture_of
from tests.sampling import sample

CALL = ToolCall(id="c1", name="f", arguments={"a": True})
RESPONSE = LlmResponse("Hello.", None, "real", TokenUsage(3, 4), "", "tool_calls", (CALL,), "Hm.")
ANSWER = Answer("Hello.", None, "real", TokenUsage(3, 4), "tool_calls", (CALL,), "Hm.")
QUESTION = ask("What?")
NAMELESS = ("bedrock-converse", "bedrock-nova", "cohere-chat")
"""Their answers do not name the model."""
PROTOCOLS = [name for name in WIRES if name != "openai-completions"]
"""Those that have tools and thoughts."""
wires = pytest.mark.parametrize("protocol", PROTOCOLS)


def whole_wire(protocol: str) -> dict[str, Any]:
    body = orjson.dumps(WIRES[protocol].encode_answer(RESPONSE, "1")).decode()
    return {"protocol": protocol, "stream": False, "status": 200, "headers": {}, "body": body}


def stream_wire(protocol: str) -> dict[str, Any]:
    encoder = WIRES[protocol].stream_encoder("real", "1")
    pieces = [
        StreamChunk("", reasoning="Hm."),
        StreamChunk("Hel"),
        StreamChunk("lo."),
        StreamChunk("", tool_calls=(ToolCallDelta.whole(0, CALL),)),
        StreamChunk("", "tool_calls", response=RESPONSE),
    ]
    texts = [encoder.start(), *map(encoder.chunk, pieces)]
    tape = StreamTape(WIRES[protocol].stream_media_type)
    tape.add(b"".join(texts))
    return {"protocol": protocol, "stream": True, "status": 200, "headers": {}, **tape.content()}


def opened(folder: Path, wire: dict[str, Any], answer: Answer = ANSWER) -> ReplayAdapter:
    builder = StoreBuilder(folder)
    if wire.get("protocol") in NAMELESS and answer.model == ANSWER.model:
        answer = dataclasses.replace(answer, model=QUESTION.model)
    builder.add_fixture(fixture_of(QUESTION, dataclasses.replace(answer, wire=wire)))
    builder.write()
    return ReplayAdapter(builder.root)


def finding_of(folder: Path, wire: dict[str, Any], answer: Answer = ANSWER) -> str:
    with pytest.raises(FixtureIntegrityFailed) as caught:
        opened(folder, wire, answer)
    (issue,) = caught.value.issues
    assert "Hello" not in str(issue)
    return issue.code


@wires
def test_a_wire_that_says_what_its_response_says_is_trusted(protocol: str, tmp_path: Path) -> None:
    adapter = opened(tmp_path, whole_wire(protocol))

    assert adapter.sync.complete(QUESTION).tool_calls == (CALL,)
    (chunk,) = adapter.sync.stream(QUESTION)
    assert (chunk.delta, chunk.finish_reason) == ("Hello.", "tool_calls")


@wires
def test_a_recorded_stream_is_replayed_in_its_own_chunks(protocol: str, tmp_path: Path) -> None:
    chunks = list(opened(tmp_path, stream_wire(protocol)).sync.stream(QUESTION))

    assert [chunk.delta for chunk in chunks if chunk.delta] == ["Hel", "lo."]
    assert chunks[-1].finish_reason == "tool_calls"
    assert chunks[-1].response is not None
    assert chunks[-1].response.usage == TokenUsage(3, 4)


@wires
def test_a_body_that_is_not_utf8_may_be_base64(protocol: str, tmp_path: Path) -> None:
    wire = whole_wire(protocol)
    wire["body_base64"] = base64.b64encode(wire.pop("body").encode()).decode()

    assert opened(tmp_path, wire).sync.complete(QUESTION).text == "Hello."


LIES: dict[str, Answer] = {
    "text": dataclasses.replace(ANSWER, text="Bye."),
    "tool calls": dataclasses.replace(ANSWER, tool_calls=()),
    "arguments that only Python takes for equal": dataclasses.replace(
        ANSWER, tool_calls=(ToolCall(id="c1", name="f", arguments={"a": 1}),)
    ),
    "finish reason": dataclasses.replace(ANSWER, finish_reason="length"),
    "model": dataclasses.replace(ANSWER, model="another"),
    "usage": dataclasses.replace(ANSWER, usage=TokenUsage(3, 5)),
    "reasoning": dataclasses.replace(ANSWER, reasoning="Aha."),
}


LYING = sample(product(PROTOCOLS, LIES, [whole_wire, stream_wire]), 2, kind=lambda case: case[1:])


@pytest.mark.parametrize(("protocol", "name", "made"), LYING)
def test_a_response_that_its_wire_does_not_say_is_refused(
    protocol: str, name: str, made: Any, tmp_path: Path
) -> None:
    """A reviewer reads the response; a client gets the wire."""
    assert finding_of(tmp_path, made(protocol), LIES[name]) == "wire-mismatch"


@wires
def test_what_the_response_leaves_out_is_not_compared(protocol: str, tmp_path: Path) -> None:
    bare = Answer("Hello.", finish_reason="tool_calls", tool_calls=(CALL,))

    assert opened(tmp_path, whole_wire(protocol), bare).sync.complete(QUESTION).text == "Hello."


BROKEN: dict[str, dict[str, Any]] = {
    "another protocol": {"protocol": "telepathy"},
    "no protocol": {"protocol": None},
    "an error status": {"status": 500},
    "no content": {"status": 204},
    "no word about streaming": {"stream": "yes"},
    "two bodies": {"events": []},
    "a key that stands twice": {"body": '{"content": [], "content": [], "choices": [], "output": []}'},
    "no status": {"status": "200"},
    "half a body": {"body": "{"},
    "a body of another kind": {"body": 5},
    "a cut stream": {"stream": True, "body": "data: {}\n\n"},
    "an error": {"body": '{"error": {"message": "no"}}'},
    "bad base64": {"body": None, "body_base64": "@@"},
    "events of another kind": {"body": None, "events": [5]},
}


SILENT = sample(product(PROTOCOLS, BROKEN), 2, kind=lambda case: case[1])


@pytest.mark.parametrize(("protocol", "name"), SILENT)
def test_a_wire_that_holds_no_answer_is_refused(protocol: str, name: str, tmp_path: Path) -> None:
    changed = {
        key: value for key, value in (whole_wire(protocol) | BROKEN[name]).items() if value is not None
    }

    assert finding_of(tmp_path, changed) == "wire-undecodable"


@wires
def test_nothing_may_follow_the_end_of_a_stream(protocol: str, tmp_path: Path) -> None:
    """Some clients read on, and would get what no reviewer sees."""
    wire = stream_wire(protocol)
    more = {"candidates": [{"content": {"parts": [{"text": "And more."}]}}]}
    wire["events"].append({"at_ms": 9, "text": f"data: {orjson.dumps(more).decode()}\n\n"})

    # Gemini's streams end with their bytes, so that whatever follows is a part of the answer.
    expected = "wire-mismatch" if protocol == "gemini-generate" else "wire-undecodable"
    assert finding_of(tmp_path, wire) == expected


@wires
def test_the_parsed_answer_is_the_text(protocol: str, tmp_path: Path) -> None:
    lie = dataclasses.replace(ANSWER, parsed_json={"a": 1})

    assert finding_of(tmp_path, whole_wire(protocol), lie) == "wire-mismatch"
