"""Filling an answer with the values of its recording gives its bytes back, whatever wire it came over and
wherever a stream cut it; with other values it says the same about them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given, strategies as st

from cortex_replay import LlmRequest, LlmResponse, StreamChunk, TokenUsage, ToolCall, ToolCallDelta
from cortex_replay.bindings import Binder, BindingRules, Bound, Filling, Surroundings
from cortex_replay.engine.bound_answers import bind_answer, fill_answer
from cortex_replay.engine.http.tapes import StreamTape
from cortex_replay.engine.tape import answer_from
from cortex_replay.store import Answer, TimedChunk
from cortex_replay.store.answers import answer_problem
from cortex_replay.types import LlmMessage
from cortex_replay.wire import WIRES
from cortex_replay.wire.event_stream import EVENT_STREAM
from cortex_replay.wire.recording import decode_recording
from tests.property.strategies import effort
from tests.property.wire_strategies import PROTOCOLS

wires = pytest.mark.parametrize("protocol", PROTOCOLS)

DIRECTORIES = [
    "/home/mia/work",
    'C:\\Users\\Zoë "Q"\\work',
    "/mnt/😀 ü/<&>'=/work",
    "/tmp/\t\x01/work/é",
]
IDS = ["0196f000-0000-4000-8000-000000000001", "0196f000-0000-7000-8000-000000000002"]
LITERALS = [
    "⟦cwd⟧",
    "⟦=cwd~a⟧",
    "⟦cwd|0-3⟧⟦cwd|3-⟧",
    "⟦uuid#1⟧",
    "⟦",
    "⟧ ⟦cwd",
    '{"',
    "[",
    '\\"',
    "\\u00e9",
    "é😀\n",
]
SEPARATORS = [" ", "\n", '"', "(", ",", "\t", " = "]

Template = list[tuple[str, str]]
"""Literal text, and the name of a value behind it, or ""."""
templates: st.SearchStrategy[Template] = st.lists(
    st.tuples(
        st.builds(
            lambda literal, separator: literal + separator,
            st.sampled_from(LITERALS) | st.text("ab {}:é\\", max_size=4),
            st.sampled_from(SEPARATORS),
        ),
        st.sampled_from(["", "cwd", "cwd", "uuid#1"]),
    ),
    max_size=4,
)


class Said(NamedTuple):
    """An answer that speaks of values."""

    text: Template
    reasoning: Template
    calls: list[tuple[Template, Template]]
    """Of each, a name in its arguments and the text there."""
    is_json: bool

    def response(self, values: Mapping[str, str], protocol: str) -> LlmResponse:
        text = write(self.text, values)
        calls = () if protocol == "openai-completions" else tuple(self.tool_calls(values))
        return LlmResponse(
            json.dumps({"p": [text]}, ensure_ascii=False) if self.is_json else text,
            None,
            "asked",
            TokenUsage(3, 7, None, None),
            "",
            "tool_calls" if calls else "stop",
            calls,
            None if protocol == "openai-completions" else write(self.reasoning, values) or None,
        )

    def tool_calls(self, values: Mapping[str, str]) -> list[ToolCall]:
        return [
            ToolCall(
                id=f"call{i}",
                name="f",
                arguments={f"k{write(name, values)}": {"path": write(text, values)}, "n": 1},
            )
            for i, (name, text) in enumerate(self.calls)
        ]


said = st.builds(
    Said, templates, templates, st.lists(st.tuples(templates, templates), max_size=2), st.booleans()
)


def write(template: Template, values: Mapping[str, str]) -> str:
    return "".join(f"{literal}{values[name]} " if name else literal for literal, name in template)


def bound_request(values: Mapping[str, str]) -> Bound:
    binder = Binder(BindingRules(), Surroundings({"cwd": {"": values["cwd"]}}))
    return binder.bind(LlmRequest(model="asked", messages=[LlmMessage("user", f"with {values['uuid#1']} .")]))


@st.composite
def values_of_a_run(draw: st.DrawFn) -> dict[str, str]:
    return {"cwd": draw(st.sampled_from(DIRECTORIES)), "uuid#1": draw(st.sampled_from(IDS))}


INNER: list[Callable[[Any], str]] = [
    lambda value: orjson.dumps(value).decode(),
    json.dumps,
    lambda value: json.dumps(value, ensure_ascii=False).replace("/", "\\/"),
]


@st.composite
def chunks_of(draw: st.DrawFn, response: LlmResponse) -> list[StreamChunk]:
    """An answer cut anywhere, its arguments spelled as some model might."""

    def pieces(text: str) -> list[str]:
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
        return [text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)]) if a != b]

    chunks = [StreamChunk("", reasoning=piece) for piece in pieces(response.reasoning or "")]
    chunks += [StreamChunk(piece) for piece in pieces(response.text)]
    for i, call in enumerate(response.tool_calls):
        arguments = draw(st.sampled_from(INNER))(call.arguments)
        chunks.append(StreamChunk("", tool_calls=(ToolCallDelta(i, call.id, call.name),)))
        chunks += [StreamChunk("", tool_calls=(ToolCallDelta(i, arguments=p),)) for p in pieces(arguments)]
    return [*chunks, StreamChunk("", response.finish_reason, response=response)]


ways = st.lists(st.sampled_from(["raw", "ascii", "slash", "all", "ALL"]), min_size=1, max_size=3)


def spell_otherwise(text: str, spellings: list[str]) -> str:
    """JSON with its strings spelled in another way: one for all, or another for each character."""
    cycle = itertools.cycle(spellings)

    def spell(match: re.Match[str]) -> str:
        said: str = orjson.loads(match[0])
        return f'"{"".join(spell_one(character, next(cycle)) for character in said)}"'

    return re.sub(r'"(?:[^"\\]|\\.)*"', spell, text)


def spell_one(character: str, way: str) -> str:
    raw = orjson.dumps(character).decode()[1:-1]
    if way == "slash":
        return raw.replace("/", "\\/")
    if way == "ascii" and character.isascii():
        return raw
    if way == "raw":
        return raw
    units = character.encode("utf-16-be")
    hexes = [units[i : i + 2].hex() for i in range(0, len(units), 2)]
    return "".join(f"\\u{unit.upper() if way == 'ALL' else unit}" for unit in hexes)


def recorded(protocol: str, content: dict[str, Any], *, stream: bool) -> Answer:
    wire = {"protocol": protocol, "stream": stream, "status": 200, "headers": {}, **content}
    return replace(answer_from(decode_recording(wire, "asked"), "asked"), wire=wire)


def check(
    answer: Answer, said: Said, recording: Mapping[str, str], today: Mapping[str, str], protocol: str
) -> None:
    """What holds for every answer."""
    binding = bound_request(recording).binding

    stored = bind_answer(answer, binding, "asked")
    names = binding.names

    assert answer_problem(stored, "asked") is None
    assert fill_answer(stored, binding.filling, names, "asked") == answer
    written = orjson.dumps(
        [stored.text, stored.reasoning, [call.arguments for call in stored.tool_calls]]
    ).decode()
    for value in recording.values():
        assert orjson.dumps(value).decode()[1:-1] not in written
    elsewhere = fill_answer(stored, Filling(today), names, "asked")
    response = said.response(today, protocol)
    assert elsewhere.text == response.text
    assert (elsewhere.reasoning or None) == response.reasoning
    assert [call.arguments for call in elsewhere.tool_calls] == [c.arguments for c in response.tool_calls]
    if stored.wire is not None and elsewhere.wire is not None and "events" in stored.wire:
        assert len(elsewhere.wire["events"]) == len(answer.wire["events"])  # type: ignore[arg-type, index]


@wires
@given(st.data())
@effort(8)
def test_a_whole_answer(protocol: str, data: st.DataObject) -> None:
    said_of, recording, today = data.draw(said), data.draw(values_of_a_run()), data.draw(values_of_a_run())
    body = orjson.dumps(WIRES[protocol].encode_answer(said_of.response(recording, protocol), "1")).decode()
    if data.draw(st.booleans()):
        body = spell_otherwise(body, data.draw(ways))

    check(recorded(protocol, {"body": body}, stream=False), said_of, recording, today, protocol)


@wires
@given(st.data())
@effort(8)
def test_a_stream(protocol: str, data: st.DataObject) -> None:
    said_of, recording, today = data.draw(said), data.draw(values_of_a_run()), data.draw(values_of_a_run())
    encoder = WIRES[protocol].stream_encoder("asked", "1")
    chunks = data.draw(chunks_of(said_of.response(recording, protocol)))
    raw = encoder.start() + b"".join(map(encoder.chunk, chunks))
    if WIRES[protocol].stream_media_type != EVENT_STREAM and data.draw(st.booleans()):
        raw = spell_otherwise(raw.decode(), data.draw(ways)).encode()
    tape = StreamTape(WIRES[protocol].stream_media_type)
    tape.add(raw)

    check(recorded(protocol, tape.content(), stream=True), said_of, recording, today, protocol)


@pytest.mark.parametrize("is_streamed", [False, True])
@given(st.data())
@effort(8)
def test_an_answer_without_a_wire(is_streamed: bool, data: st.DataObject) -> None:
    said_of, recording, today = data.draw(said), data.draw(values_of_a_run()), data.draw(values_of_a_run())
    response = said_of.response(recording, "anthropic-messages")
    stream: tuple[TimedChunk, ...] = ()
    if is_streamed:
        chunks = data.draw(chunks_of(response))
        stream = tuple(TimedChunk(1, replace(chunk, response=None)) for chunk in chunks)

    check(answer_from(response, "asked", stream), said_of, recording, today, "anthropic-messages")
