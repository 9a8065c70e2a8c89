"""No secret is recorded."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from cortex_replay import (
    Fixture,
    LlmAdapter,
    LlmRequest,
    LlmResponse,
    RecordingAdapter,
    RecordingRefused,
    ReplayAdapter,
    Store,
    StreamChunk,
    TimedChunk,
    ToolCallDelta,
    Upstream,
)
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.redaction import redact_answer
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer
from cortex_replay.testing import Rule, ScriptedAdapter
from tests.builder import ask
from tests.engine.counting import DIE, Counting, read, run, texts

SECRET = "hunter2-hunter2-hunter2"


def secretive(tmp_path: Path, inner: LlmAdapter, request: LlmRequest, *, stream: bool) -> Fixture:
    async def main() -> None:
        async with RecordingAdapter(inner, tmp_path, redactor=Redactor([SECRET])) as recorder:
            if stream:
                await read(recorder, request)
            else:
                await recorder.complete(request)

    run(main())
    store = Store.open(tmp_path)
    for path in tmp_path.rglob("*.json"):
        assert SECRET not in path.read_text()
    return store.get(*store.key(request))


@pytest.mark.parametrize("stream", [False, True])
def test_a_secret_in_an_answer_is_cut_out(stream: bool, tmp_path: Path) -> None:
    """Wherever a chunk ends; text, reasoning, arguments and parsed JSON say the same."""
    chunks = [f'{{"key": "{SECRET[:5]}', SECRET[5:9], f'{SECRET[9:]}", "n": 1}}']
    call = {"name": "f", "arguments": {"token": SECRET, "city": "Paris"}}
    rules = [
        Rule(when={"contains": "json"}, chunks=chunks, think=f"the key is {SECRET} I think"),
        Rule(call=[call]),
    ]
    schema = {"type": "object"}

    fixture = secretive(tmp_path, ScriptedAdapter(rules), ask("json", json_schema=schema), stream=stream)
    answer = fixture.answers[0]
    assert answer.text == '{"key": "[REDACTED:known-value]", "n": 1}'
    assert answer.parsed_json == {"key": "[REDACTED:known-value]", "n": 1}
    assert answer.reasoning == "the key is [REDACTED:known-value] I think"
    assert fixture.meta is not None
    assert fixture.meta["redactions"] == [
        {"kind": "value", "where": "response", "rule": "known-value", "count": 2}
    ]

    fixture = secretive(tmp_path, ScriptedAdapter(rules), ask("call"), stream=stream)
    assert fixture.answers[0].tool_calls[0].arguments == {"token": "[REDACTED:known-value]", "city": "Paris"}


def test_a_secret_in_a_request_is_cut_out_and_the_key_stays(tmp_path: Path) -> None:
    """The fixture is found by the real request, and says that its stored one cannot be checked."""
    request = ask(f"My key is {SECRET}.")

    fixture = secretive(tmp_path, Counting(), request, stream=False)

    assert fixture.is_request_redacted
    assert fixture.request is not None
    assert fixture.request.messages[0].content == "My key is [REDACTED:known-value]."
    assert ReplayAdapter(tmp_path).sync.complete(request).text == "Answer 1."


def test_a_secret_that_cannot_be_cut_out_refuses_the_recording(tmp_path: Path) -> None:
    """Over two messages, each of which is a text of its own: the message says where, and not what."""
    inner = ScriptedAdapter([Rule(say="Hi.")])
    halves = [{"role": "user", "content": half} for half in (SECRET[:7], SECRET[7:])]

    async def main() -> None:
        async with RecordingAdapter(inner, tmp_path, redactor=Redactor([SECRET])) as recorder:
            with pytest.raises(RecordingRefused) as caught:
                await recorder.complete(LlmRequest("m", messages=halves))
            assert "request.messages[].content" in str(caught.value)
            assert SECRET not in str(caught.value)

    run(main())
    assert len(Store.open_or_create(tmp_path)) == 0


def test_a_failure_that_repeats_a_secret_is_redacted(tmp_path: Path) -> None:
    class Echoing(Counting):
        async def complete(self, request: LlmRequest) -> LlmResponse:
            raise Upstream(401, f"bad key {SECRET}")

    async def main() -> None:
        redactor = Redactor([SECRET])
        async with RecordingAdapter(Echoing(), tmp_path, redactor=redactor, record_failures=True) as recorder:
            with pytest.raises(Upstream):
                await recorder.complete(DIE)

    run(main())
    (path,) = (tmp_path / "fixtures/exchanges").glob("*.json")
    assert SECRET not in path.read_text()


def test_a_key_of_the_environment_is_cut_out_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)

    async def main() -> None:
        async with RecordingAdapter(ScriptedAdapter([Rule(say=f"It is {SECRET}.")]), tmp_path) as recorder:
            await recorder.complete(DIE)

    run(main())
    assert texts(tmp_path) == ["It is [REDACTED:known-value]."]


def test_more_answers_keep_what_the_first_recording_said_of_itself(tmp_path: Path) -> None:
    """Also that a secret was cut out of its request, without which it could not be trusted."""
    request = ask(f"My key is {SECRET}.")

    async def main(calls: int) -> None:
        redactor = Redactor([SECRET])
        async with RecordingAdapter(Counting(), tmp_path, redactor=redactor) as recorder:
            for _ in range(calls):
                await recorder.complete(request)

    run(main(2))
    run(main(3))
    fixture = Store.open(tmp_path).get(request.model, request.prompt_hash())
    assert len(fixture.answers) == 3
    assert fixture.is_request_redacted


def test_a_secret_on_the_wire_alone_costs_the_wire() -> None:
    """What the answer says stays."""
    wire: dict[str, JsonValue] = {"status": 200, "headers": {"request-id": SECRET}, "body": "{}"}
    clean, hits = redact_answer(Answer("fine", None, wire=wire), Redactor([SECRET]))

    assert [hit.rule for hit in hits] == ["known-value"]
    assert (clean.text, clean.wire) == ("fine", None)


def test_a_secret_in_one_of_two_calls_that_come_in_turns_is_found() -> None:
    """The pieces of each are put together by themselves."""
    half = len(SECRET) // 2
    pieces = [(0, f'{{"key":"{SECRET[:half]}'), (1, '{"a":1'), (0, f'{SECRET[half:]}"}}'), (1, "}")]
    chunks = [StreamChunk("", tool_calls=(ToolCallDelta(n, f"c{n}", "f", text),)) for n, text in pieces]
    calls = ToolCallDelta.join(piece for chunk in chunks for piece in chunk.tool_calls)
    stream = tuple(TimedChunk(0, chunk) for chunk in chunks)
    clean, hits = redact_answer(Answer("", tool_calls=calls, stream=stream), Redactor([SECRET]))

    assert hits
    assert [call.arguments for call in clean.tool_calls] == [{"key": "[REDACTED:known-value]"}, {"a": 1}]


@pytest.mark.parametrize("code", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_secret_in_bytes_that_are_no_text_is_found(code: str) -> None:
    """They stand in the wire alone, and nothing can be cut out of them: it is not kept."""
    encoded = base64.b64encode(b"\xff\xfe" + SECRET.encode(code)).decode()
    wire: dict[str, JsonValue] = {
        "protocol": "x",
        "stream": False,
        "status": 200,
        "headers": {},
        "body_base64": encoded,
    }
    clean, hits = redact_answer(Answer("Hello.", wire=wire), Redactor([SECRET]))

    assert hits
    assert clean.wire is None


def wire_with(body: str) -> Answer:
    wire: dict[str, JsonValue] = {"protocol": "openai-chat", "status": 200, "stream": False, "body": body}
    return Answer("Hello.", wire=wire)


def test_a_wire_that_is_needed_is_cut_and_stays_a_wire() -> None:
    """Of several choices, the others stand nowhere else."""
    message = {"role": "assistant", "content": f"I know {SECRET}"}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    answer = wire_with(json.dumps({"id": "a", "object": "chat.completion", "model": "m", "choices": choices}))

    clean, hits = redact_answer(answer, Redactor([SECRET]), needs_wire=True)

    assert hits
    assert clean.wire is not None
    assert SECRET not in str(clean.wire)
    assert "I know" in str(clean.wire)
    assert redact_answer(answer, Redactor([SECRET]))[0].wire is None, "else it goes"


def test_a_wire_that_is_none_without_its_secrets_is_not_recorded() -> None:
    with pytest.raises(RecordingRefused, match="wire"):
        redact_answer(wire_with(f"no JSON, but {SECRET}"), Redactor([SECRET]), needs_wire=True)


def test_an_answer_that_is_no_json_without_its_secrets_keeps_what_was_parsed() -> None:
    answer = Answer(f'"a\\u0062 {SECRET}', parsed_json={"key": SECRET, "n": 1})

    clean, _ = redact_answer(answer, Redactor([SECRET]))

    assert isinstance(clean.parsed_json, dict)
    assert clean.parsed_json["n"] == 1
    assert SECRET not in str(clean)
