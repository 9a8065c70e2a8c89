"""Answers are bound where their values stand, and filled with those of today."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from cortex_replay import LlmRequest, LlmResponse, StreamChunk, TokenUsage, ToolCall, ToolCallDelta
from cortex_replay.bindings import Binder, BindingRules, Filling, Surroundings
from cortex_replay.bindings.binder import Binding
from cortex_replay.bindings.finder import Found
from cortex_replay.engine.bound_answers import bind_answer, bind_wire, fill_answer, fill_wire
from cortex_replay.engine.http.opaque import encode_body
from cortex_replay.engine.http.tapes import StreamTape
from cortex_replay.engine.tape import answer_from
from cortex_replay.errors import LlmError
from cortex_replay.store import Answer, TimedChunk
from cortex_replay.store.answers import answer_problem
from cortex_replay.store.frames import Frame, wire_of_frames
from cortex_replay.types import LlmMessage
from cortex_replay.wire import WIRES
from cortex_replay.wire.recording import decode_recording

CWD = "/home/mia/work"
QUOTED = '/home/mia "é"'
"""Written otherwise in JSON, and once more otherwise in JSON in JSON."""
ID = "0196f000-0000-7000-8000-000000000001"
OTHER_ID = "0196f000-0000-7000-8000-000000000002"
VECTORS = Path(__file__).parents[1] / "vectors/answers.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in VECTORS.read_text().split("\n") if line]
TOOLLESS = ("openai-completions",)
wires = pytest.mark.parametrize("protocol", list(WIRES))


def binding_of(asked: str = f"in {CWD} for {ID}", known: Mapping[str, str] | None = None) -> Binding:
    values = {name: {"": text} for name, text in (known or {"cwd": CWD}).items()}
    binder = Binder(BindingRules(), Surroundings(values))
    return binder.bind(LlmRequest(model="m", messages=[LlmMessage("user", asked)])).binding


def events(*documents: str) -> list[Any]:
    return [{"at_ms": 1, "text": f"data: {document}\n\n"} for document in documents]


def anthropic(*deltas: str) -> dict[str, Any]:
    """A stream whose deltas are JSON as it is written."""
    documents = [
        '{"type":"message_start","message":{"model":"m","usage":{}}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
        *(
            f'{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{delta}"}}}}'
            for delta in deltas
        ),
        '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}',
        '{"type":"message_stop"}',
    ]
    wire = {"protocol": "anthropic-messages", "stream": True, "status": 200, "headers": {}}
    return {**wire, "events": events(*documents)}


def recorded(wire: dict[str, Any]) -> Answer:
    return replace(answer_from(decode_recording(wire, "m"), "m"), wire=wire)


def deltas_of(wire: dict[str, Any]) -> list[str]:
    """The texts of the deltas, as they are written."""
    texts = [event["text"] for event in wire["events"] if "text_delta" in event["text"]]
    return [text.split('"text":"')[1].split('"}}')[0] for text in texts]


def said_by(protocol: str, path: str) -> LlmResponse:
    """Values stand beside other texts, too: at the end of one, and in two calls."""
    calls = tuple(
        ToolCall(id=f"c{number}", name="f", arguments={"path": f"{path}/a.txt", "list": [path]})
        for number in range(2)
    )
    has_tools = protocol not in TOOLLESS
    return LlmResponse(
        f"It is in {path}, there.",
        None,
        "m",
        TokenUsage(3, 4),
        "",
        "tool_calls" if has_tools else "stop",
        calls if has_tools else (),
        f"Hm, {path}" if has_tools else None,
    )


def stream_of(protocol: str, response: LlmResponse, value: str, cut: int) -> dict[str, Any]:
    """A stream in which each text is cut within a value, with an empty delta in between."""
    encoder = WIRES[protocol].stream_encoder("m", "1")
    chunks: list[StreamChunk] = []

    def pieces(text: str, value: str = value) -> list[str]:
        at = text.index(value) + cut
        return [text[:at], "", text[at:]]

    if response.reasoning:
        chunks += [StreamChunk("", reasoning=piece) for piece in pieces(response.reasoning)]
    chunks += [StreamChunk(piece) for piece in pieces(response.text)]
    for number, call in enumerate(response.tool_calls):
        chunks.append(StreamChunk("", tool_calls=(ToolCallDelta(number, call.id, call.name),)))
        arguments = pieces(orjson.dumps(call.arguments).decode(), json.dumps(value, ensure_ascii=False)[1:-1])
        chunks += [
            StreamChunk("", tool_calls=(ToolCallDelta(number, arguments=piece),)) for piece in arguments
        ]
    chunks.append(StreamChunk("", response.finish_reason, response=response))
    tape = StreamTape(WIRES[protocol].stream_media_type)
    tape.add(encoder.start() + b"".join(map(encoder.chunk, chunks)))
    return {"protocol": protocol, "stream": True, "status": 200, "headers": {}, **tape.content()}


@wires
def test_a_value_that_a_stream_cuts_anywhere_is_whole_elsewhere(protocol: str) -> None:
    """Text, reasoning and tool arguments, cut at every place of the value."""
    for cut in range(len(QUOTED) + 3):
        answer = recorded(stream_of(protocol, said_by(protocol, QUOTED), QUOTED, cut))
        binding = binding_of("", {"cwd": QUOTED})

        stored = bind_answer(answer, binding, "m")

        assert "mia" not in str(stored), cut
        assert answer_problem(stored, "m") is None
        assert replace(said_by(protocol, "⟦cwd⟧"), usage=None) == replace(
            stored.response("m"), usage=None, raw_hash=""
        )
        assert fill_answer(stored, binding.filling, binding.names, "m") == answer
        today = "/x" if cut % 2 else '/a/much "longer"/path'
        filled = fill_answer(stored, Filling({"cwd": today}), ["cwd"], "m")
        assert replace(filled.response("m"), usage=None, raw_hash="") == replace(
            said_by(protocol, today), usage=None
        )
        assert len(filled.wire["events"]) == len(answer.wire["events"])  # type: ignore[index, arg-type]


def test_events_that_a_value_does_not_cross_keep_their_boundaries() -> None:
    answer = recorded(anthropic("It is ", "in /home", "", "/mia/work", "/a.txt, in ", f"{CWD} all", " of it"))

    stored = bind_answer(answer, binding_of(), "m")
    filled = fill_answer(stored, Filling({"cwd": "/srv/x"}), ["cwd"], "m")

    assert stored.wire is not None
    assert filled.wire is not None
    assert stored.text == "It is in ⟦cwd⟧/a.txt, in ⟦cwd⟧ all of it"
    assert deltas_of(stored.wire) == [
        "It is ",
        "in ⟦cwd|0-5⟧",
        "",
        "⟦cwd|5-⟧",
        "/a.txt, in ",
        "⟦cwd⟧ all",
        " of it",
    ]
    assert deltas_of(filled.wire) == ["It is ", "in /srv/", "", "x", "/a.txt, in ", "/srv/x all", " of it"]


def test_a_value_at_the_end_of_one_delta_may_go_on_in_the_next() -> None:
    answer = recorded(anthropic(CWD, "place and ", CWD, " done"))

    stored = bind_answer(answer, binding_of(), "m")

    assert stored.text == f"{CWD}place and ⟦cwd⟧ done"


def body_of(protocol: str, body: dict[str, Any]) -> dict[str, Any]:
    text = orjson.dumps(body).decode()
    return {"protocol": protocol, "stream": False, "status": 200, "headers": {}, "body": text}


def test_texts_beside_each_other_are_not_one() -> None:
    content: list[Any] = [{"type": "text", "text": f"See {CWD}"}, {"type": "text", "text": "Then go."}]
    body: dict[str, Any] = {"type": "message", "model": "m", "content": content, "stop_reason": "end_turn"}

    stored = bind_answer(recorded(body_of("anthropic-messages", body)), binding_of(), "m")

    assert stored.text == "See ⟦cwd⟧Then go."
    parts = [{"text": block["text"]} for block in content]
    body = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    assert bind_answer(recorded(body_of("gemini-generate", body)), binding_of(), "m").text == stored.text
    blocks = [
        f'{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":"{text}"}}}}'
        for index, text in enumerate([f"See {CWD}", "Then go."])
    ]
    assert "mia" not in str(bind_wire({"events": events(*blocks)}, binding_of()))


def test_parts_of_gemini_go_on_with_one_another() -> None:
    parts = ['{"text":"Hm","thought":true},{"text":"in /home"}', '{"text":"/mia/work it is"}']
    documents = [f'{{"candidates":[{{"index":0,"content":{{"parts":[{part}]}}}}]}}' for part in parts]

    stored = bind_wire({"events": events(*documents)}, binding_of())

    assert "mia" not in str(stored)
    assert "⟦cwd|5-⟧ it is" in str(stored)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("/home/z\\u00fc/w", "⟦cwd~a⟧"),
        ("/home/z\\u00FC/w", "⟦cwd~au⟧"),
        ("\\/home\\/zü\\/w", "⟦cwd~s⟧"),
        ("\\/home\\/z\\u00fc\\/w", "⟦cwd~as⟧"),
        ("/home/zü/w", "⟦cwd⟧"),
        ("/home/z\\u00fc\\/w", "⟦cwd~a|0-8⟧⟦cwd~s|8-⟧"),
        ("/\\u0068ome/zü/w", "⟦cwd|0-1⟧⟦cwd~x|1-2⟧⟦cwd|2-⟧"),
        ("/home/z\\u00fC/w", "/home/z\\u00fC/w"),
    ],
)
def test_the_bytes_of_json_come_back_however_they_are_spelled(written: str, stored: str) -> None:
    """All but one thing: small and capital hex digits in one character."""
    answer = recorded(anthropic(f"in {written} it is"))
    binding = binding_of("", {"cwd": "/home/zü/w"})

    bound = bind_answer(answer, binding, "m")

    assert bound.wire is not None
    assert deltas_of(bound.wire) == [f"in {stored} it is"]
    assert fill_answer(bound, binding.filling, binding.names, "m") == answer
    if stored != written:
        assert bound.text == "in ⟦cwd⟧ it is"
        assert fill_answer(bound, Filling({"cwd": '/é"/'}), ["cwd"], "m").text == 'in /é"/ it is'


def test_a_value_of_today_is_escaped_as_often_as_its_place_is_nested() -> None:
    inner = json.dumps({"path": CWD, "more": json.dumps({"again": f"{CWD}/b"})})
    body = orjson.dumps(
        WIRES["openai-chat"].encode_answer(
            LlmResponse(
                f'"{CWD}"',
                None,
                "m",
                None,
                "",
                "tool_calls",
                (ToolCall(id="1", name="f", arguments=json.loads(inner)),),
            ),
            "1",
        )
    ).decode()
    wire = {"protocol": "openai-chat", "stream": False, "status": 200, "headers": {}, "body": body}
    stored = bind_answer(recorded(wire), binding_of(), "m")

    today = 'C:\\me "x"\n'
    filled = fill_answer(stored, Filling({"cwd": today}), ["cwd"], "m")

    assert filled.text == f'"{today}"'
    assert isinstance(filled.tool_calls[0].arguments, dict)
    assert filled.tool_calls[0].arguments["path"] == today
    assert json.loads(str(filled.tool_calls[0].arguments["more"])) == {"again": f"{today}/b"}


def test_json_that_a_model_forgot_to_escape_stays_as_wrong_as_it_was() -> None:
    known = {"cwd": "C:\\Users\\mia"}
    answer = recorded(anthropic('{\\"p\\": \\"C:\\\\Users\\\\mia\\"}'))
    binding = binding_of("", known)

    stored = bind_answer(answer, binding, "m")

    assert "mia" not in str(stored.wire)
    assert fill_answer(stored, binding.filling, binding.names, "m") == answer


def test_ids_are_bound_where_the_request_has_them() -> None:
    answer = recorded(anthropic(f"{ID} is not {OTHER_ID}"))
    binding = binding_of()

    stored = bind_answer(answer, binding, "m")

    assert stored.text == f"⟦uuid#1⟧ is not {OTHER_ID}"
    assert binding.names == ("cwd", "uuid")


def test_a_short_id_is_not_looked_for_and_a_longer_one_by_itself() -> None:
    binding = binding_of()
    binding.numbering.values |= {"uuid#2": "a1b", "uuid#3": "a1b2"}

    stored = bind_answer(recorded(anthropic("a1b xa1b2 a1b2c a1b2")), binding, "m")

    assert stored.text == "a1b xa1b2 a1b2c ⟦uuid#3⟧"


def test_what_is_known_is_bound_within_what_has_a_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path by a rule, which the request does not have."""
    binding = binding_of("")
    find = binding.finder.find

    def find_paths(text: str) -> list[Found]:
        at = text.find(f"see {CWD}")
        return find(text) if at < 0 else [Found(at + 4, at + 6 + len(CWD), "ulid")]

    monkeypatch.setattr(binding.finder, "find", find_paths)

    stored = bind_answer(recorded(anthropic(f"see {CWD}/a")), binding, "m")

    assert stored.text == "see ⟦cwd⟧/a"


def test_what_looks_like_a_placeholder_is_escaped_in_all_of_the_answer() -> None:
    answer = recorded(anthropic("⟦cwd⟧ and ⟦x⟧ and ⟦=cwd|0-1⟧, in ", "⟦cw", f"d⟧ {CWD}"))
    binding = binding_of()

    stored = bind_answer(answer, binding, "m")

    assert binding.names == ("cwd", "escape", "uuid")
    assert stored.text == "⟦=cwd⟧ and ⟦=x⟧ and ⟦==cwd|0-1⟧, in ⟦cwd⟧ ⟦cwd⟧"
    assert fill_answer(stored, binding.filling, binding.names, "m") == answer


def test_an_answer_in_which_nothing_is_bound_stays_the_very_same() -> None:
    answer = recorded(anthropic("It is there."))
    binding = binding_of("Where?")

    assert bind_answer(answer, binding, "m") is answer
    assert fill_answer(answer, binding.filling, ["cwd"], "m") is answer
    assert binding.names == ()


def test_a_word_of_the_protocol_is_no_host() -> None:
    """Such an answer is stored as it is, and still trusted."""
    answer = recorded(anthropic("end_turn text_delta message_stop"))
    binding = binding_of("", {"host": "message_stop", "user": "anthropic"})

    stored = bind_answer(answer, binding, "m")

    assert answer_problem(stored, "m") is None
    assert stored.text == "end_turn text_delta ⟦host⟧"


def test_an_answer_that_would_not_be_understood_stays_as_it_is() -> None:
    response = LlmResponse("On max_output_tokens.", None, "m", None, "", "length")
    body = WIRES["openai-responses"].encode_answer(response, "1")
    answer = recorded(body_of("openai-responses", body))

    stored = bind_answer(answer, binding_of("", {"host": "max_output_tokens"}), "m")

    assert answer.finish_reason == "length"
    assert stored is answer


def test_a_key_of_the_protocol_stays_and_one_of_a_tool_is_bound() -> None:
    call = ToolCall(id="1", name="f", arguments={CWD: {"type": CWD, "id": CWD}})
    response = LlmResponse("", None, "m", None, "", "tool_calls", (call,))
    wire = body_of("anthropic-messages", WIRES["anthropic-messages"].encode_answer(response, "1"))

    stored = bind_answer(recorded(wire), binding_of("", {"cwd": CWD, "user": "content"}), "m")

    assert stored.tool_calls[0].arguments == {"⟦cwd⟧": {"type": "⟦cwd⟧", "id": "⟦cwd⟧"}}


def test_an_answer_of_an_adapter_is_bound_with_its_stream() -> None:
    call = ToolCall(id="1", name="f", arguments={"path": CWD})
    texts = ["In /home/", "mia/work, ", "there."]
    chunks = [StreamChunk(text) for text in texts]
    chunks += [StreamChunk("", reasoning="/home/mia"), StreamChunk("", reasoning="/work")]
    chunks += [
        StreamChunk("", tool_calls=(ToolCallDelta(0, "1", "f", '{"path":"/home'),)),
        StreamChunk("", "tool_calls", tool_calls=(ToolCallDelta(0, arguments='/mia/work"}'),)),
    ]
    stream = tuple(TimedChunk(1, chunk) for chunk in chunks)
    answer = Answer(
        "".join(texts), None, finish_reason="tool_calls", tool_calls=(call,), reasoning=CWD, stream=stream
    )
    binding = binding_of()

    stored = bind_answer(answer, binding, "m")

    assert [timed.chunk.delta for timed in stored.stream][:2] == ["In ⟦cwd|0-6⟧", "⟦cwd|6-⟧, "]
    assert (stored.text, stored.reasoning) == ("In ⟦cwd⟧, there.", "⟦cwd⟧")
    assert stored.tool_calls[0].arguments == {"path": "⟦cwd⟧"}
    assert answer_problem(stored, "m") is None
    assert fill_answer(stored, binding.filling, binding.names, "m") == answer
    filled = fill_answer(stored, Filling({"cwd": '/a "b"'}), ["cwd"], "m")
    assert filled.tool_calls[0].arguments == {"path": '/a "b"'}
    assert answer_problem(filled, "m") is None


def test_parsed_json_is_that_of_the_text() -> None:
    answer = replace(recorded(anthropic('{\\"dir\\": \\"/home', '/mia/work\\"}')), parsed_json={"dir": CWD})

    stored = bind_answer(answer, binding_of(), "m")

    assert stored.parsed_json == {"dir": "⟦cwd⟧"}
    assert answer_problem(stored, "m") is None
    assert fill_answer(stored, Filling({"cwd": '"'}), ["cwd"], "m").parsed_json == {"dir": '"'}


@pytest.mark.parametrize(
    ("stored", "is_trusted"),
    [
        (("⟦cwd|0-5⟧", "⟦cwd|5-⟧"), True),
        (("⟦cwd~a|0-5⟧", "⟦cwd|5-⟧"), True),
        (("⟦cwd|0-1⟧", "⟦cwd|5-⟧"), False),
        (("⟦cwd|5-⟧", ""), False),
        (("⟦cwd|0-5⟧", ""), False),
        (("⟦cwd|0-5⟧", "⟦home|5-⟧"), False),
        (("⟦cwd~.s⟧", ""), False),
    ],
)
def test_a_part_of_a_value_is_not_taken_for_the_whole(stored: tuple[str, str], is_trusted: bool) -> None:
    """Whoever reads ⟦cwd⟧ in a fixture may rely on it: `rm -r ⟦cwd⟧/x` must not be sent as `rm -r /x`."""
    wire = anthropic(*stored)
    answer = replace(recorded(wire), text="⟦cwd⟧")

    assert (answer_problem(answer, "m") is None) == is_trusted
    chunks = tuple(TimedChunk(1, StreamChunk(text)) for text in stored)
    assert (answer_problem(Answer("⟦cwd⟧", stream=chunks), "m") is None) == is_trusted


def in_messages(held: dict[str, Any]) -> dict[str, Any]:
    return {"status": 200, "headers": {}, "events": [{"at_ms": 1, "message": {"headers": {}, **held}}]}


def in_events(*texts: str) -> dict[str, Any]:
    return {"status": 200, "headers": {}, "events": [{"at_ms": 1, "text": text} for text in texts]}


FRAMES = [
    Frame(0, 1, '{"delta":"/home/mia","item_id":"1"}'),
    Frame(0, 1, b"/home"),
    Frame(1, 2, '{"delta":"/work.","item_id":"1"}'),
]


@pytest.mark.parametrize(
    "wire",
    [
        {"status": 404, "headers": {}, "body": f"no such file: {CWD}\n"},
        {"status": 404, "headers": {}, "body": f'{{"error": {{"message": "no {CWD}"}}}}'},
        {"status": 404, "headers": {}, "body": f"none here\nid: {CWD}\n"},
        in_events(f"data: {{not json {CWD}\n\n"),
        {"status": 302, "headers": {"location": f"/files?in={CWD}"}, "body": ""},
        {"status": 302, "headers": {"location": f"file://{CWD}"}, "body_base64": "/w=="},
        in_events(f"data: {CWD}\n\n"),
        in_events('{"a":"/home', '/x"}\n', f'{{"b":"{CWD}"}}\n'),
        in_events(f': ping\nevent: x\ndata: {{"a":\ndata: "{CWD}"}}\r\n\r\n'),
        in_messages({"payload": f'{{"m":"{CWD}"}}'}),
        in_messages({"chunk": {"bytes": f'{{"m":"{CWD}"}}', "p": "ab"}}),
        in_events(f'data: {{"a":"{CWD}","a":"b"}}\n\n'),
        wire_of_frames(FRAMES),
        wire_of_frames([FRAMES[0], FRAMES[2]]),
    ],
)
def test_any_recorded_wire_is_bound_and_filled(wire: dict[str, Any]) -> None:
    binding = binding_of("")

    stored = bind_wire(wire, binding)

    assert stored != wire
    assert "mia" not in str(stored)
    assert fill_wire(stored, binding.filling, binding.names) == wire
    assert str(fill_wire(stored, Filling({"cwd": "/srv/x/y"}), ["cwd"])).count("/srv/x/") == 1


def test_headers_that_say_how_to_read_an_answer_stay() -> None:
    wire: dict[str, Any] = {
        "status": 200,
        "headers": {"content-type": "application/json"},
        "body": "json",
    }

    stored = bind_wire(wire, binding_of("", {"host": "json"}))

    assert stored == {**wire, "body": "⟦host⟧"}


def test_the_name_of_an_event_is_no_host() -> None:
    wire = in_events('event: ping\ndata: {"type":"ping","text":"ping"}\n\n')

    stored = bind_wire(wire, binding_of("", {"host": "ping"}))

    assert stored == in_events('event: ping\ndata: {"type":"ping","text":"⟦host⟧"}\n\n')


@pytest.mark.parametrize("wire", [encode_body(b"\xff/home/mia/work"), {"status": 204}])
def test_bytes_are_left_alone(wire: dict[str, Any]) -> None:
    assert bind_wire(wire, binding_of("")) is wire


def test_every_recorded_answer_comes_back() -> None:
    """Those of real servers, with any word of theirs bound."""
    count = 0
    for row in ROWS:
        body = base64.b64decode(row["body_base64"]) if "body_base64" in row else row["body"].encode()
        tape = StreamTape(row["content_type"].partition(";")[0])
        tape.add(body)
        content = tape.content() if row["stream"] else encode_body(body)
        wire = {
            "protocol": row["wire"],
            "stream": row["stream"],
            "status": row["status"],
            "headers": {},
            **content,
        }
        words = sorted(
            {word for word in row.get("expect", {}).get("text", "").split() if word.isalpha()}, key=len
        )
        binding = binding_of("", {"cwd": words[-1] if words else "error"})

        stored = bind_wire(wire, binding)

        assert fill_wire(stored, binding.filling, binding.names) == wire, row["name"]
        try:
            answer = recorded(wire)
        except LlmError:
            continue
        bound = bind_answer(answer, binding, "m")
        assert answer_problem(bound, "m") is None, row["name"]
        assert fill_answer(bound, binding.filling, binding.names, "m") == answer, row["name"]
        count += bound is not answer
    assert count > 100
