"""Gemini's API has two spellings for nearly everything, and calls without ids."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cortex_replay import InvalidRequest, LlmMessage, LlmRequest, TokenUsage, ToolCall
from cortex_replay.wire import WIRES

WIRE = WIRES["gemini-generate"]


def key_of(*contents: Any, **body: Any) -> str:
    return WIRE.lift({"model": "m", "contents": list(contents), **body}).prompt_hash()


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def called(*cities: str, **fields: Any) -> dict[str, Any]:
    parts = [{"functionCall": {"name": "f", "args": {"city": city}, **fields}} for city in cities]
    return {"role": "model", "parts": parts}


def result(value: Any, **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "f", "response": value, **fields}}


def test_results_without_ids_that_change_places_change_the_key() -> None:
    one, other = result({"output": "1"}), result({"output": "2"})

    assert key_of(called("Paris", "Rome"), user(one, other)) != key_of(
        called("Paris", "Rome"), user(other, one)
    )


def test_a_result_answers_one_call_only() -> None:
    """The second of two results is that of the second call, in one content or in two."""
    one, other = result({"output": "1"}), result({"output": "2"})
    request = WIRE.lift({"model": "m", "contents": [called("Paris", "Rome"), user(one), user(other)]})

    assert [message.tool_call_id for message in request.messages[1:]] == ["call_1", "call_2"]


def test_ids_that_a_client_makes_up_are_no_part_of_the_key() -> None:
    def key(call_id: str) -> str:
        return key_of(called("Paris", id=call_id), user(result({"output": "1"}, id=call_id)))

    assert key("pyd_ai_1") == key("pyd_ai_2")
    assert key("pyd_ai_1") == key_of(called("Paris"), user(result({"output": "1"})))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"output": "x"}, {"error": "x"}),
        ({"output": "x"}, {"result": "x"}),
        ({"output": "x"}, {"output": "x", "more": 1}),
        ({"output": {"a": 1}}, {"a": 1}),
        ({}, {"output": ""}),
    ],
)
def test_results_that_a_model_tells_apart_have_two_keys(one: Any, other: Any) -> None:
    assert key_of(called("Paris"), user(result(one))) != key_of(called("Paris"), user(result(other)))


def test_what_was_said_before_a_result_is_told_from_what_was_said_after_it() -> None:
    text, answer = {"text": "Look."}, result({"output": "1"})

    assert key_of(called("Paris"), user(text, answer)) != key_of(called("Paris"), user(answer, text))


@pytest.mark.parametrize("data", ["+/8=", "-_8=", "-_8", "+/8"])
def test_data_is_what_it_is_in_either_alphabet(data: str) -> None:
    def key(written: str) -> str:
        return key_of(user({"inlineData": {"mimeType": "image/png", "data": written}}))

    assert key(data) == key("+/8=")
    assert key(data) != key("+/A=")


def test_a_name_that_is_said_twice_counts_twice() -> None:
    config = {"topK": 1, "top_k": 2}

    assert key_of(generationConfig=config) != key_of(generationConfig={"topK": 1})
    assert key_of(generationConfig=config) != key_of(generationConfig={"top_k": 2})


def test_a_schema_in_capitals_says_what_one_in_small_letters_says() -> None:
    def key(kind: str, name: str) -> str:
        schema = {"type": kind, "properties": {"type": {"enum": ["A"]}}}
        return key_of(generationConfig={"responseMimeType": "application/json", name: schema})

    assert key("OBJECT", "responseSchema") == key("object", "responseJsonSchema")
    assert key("ARRAY", "responseSchema") != key("object", "responseJsonSchema")


@pytest.mark.parametrize("name", ["xNew", "contents", "systemInstruction", "generationConfig"])
def test_what_is_nested_too_deeply_is_refused(name: str) -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"a": [deep]}

    with pytest.raises(InvalidRequest):
        WIRE.lift({"model": "m", "contents": [], name: [deep] if name == "contents" else deep})


@pytest.mark.parametrize(
    ("message", "place"),
    [
        (LlmMessage("system", "x"), "role"),
        (LlmMessage("tool", "x", tool_call_id="nobody's"), "tool_call_id"),
        (LlmMessage("assistant", "", tool_calls=[ToolCall(name="f", arguments={})]), "tool_calls"),
        (LlmMessage("assistant", "", tool_calls=[ToolCall(id="a", name="f", arguments=[1])]), "tool_calls"),
        (LlmMessage("user", "", parts=[{"type": "image", "data": "AAAA"}]), "parts"),
        (LlmMessage("user", "", parts=[{"type": "image", "file_id": "f"}]), "parts"),
        (LlmMessage("assistant", "", parts=[{"type": "redacted_thinking", "data": "x"}]), "parts"),
    ],
)
def test_what_it_cannot_carry_is_named(message: LlmMessage, place: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        WIRE.lower(LlmRequest("m", messages=[LlmMessage("user", "Hi"), message]))

    assert caught.value.field.startswith(f"messages[1].{place}")


def test_a_choice_of_another_wire_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="tool_choice"):
        WIRE.lower(LlmRequest("m", messages="Hi", tool_choice={"type": "allowed_tools"}))


@pytest.mark.parametrize(
    ("status", "word"), [(400, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED"), (424, "no_fixture")]
)
def test_an_error_has_the_status_that_its_clients_look_for(status: int, word: str) -> None:
    error = WIRE.encode_error(status, "It is so.", "no_fixture")

    assert json.loads(json.dumps(error)) == {
        "error": {"code": status, "message": "It is so.", "status": word}
    }


COUNTS = {
    "promptTokenCount": 3000,
    "cachedContentTokenCount": 2048,
    "toolUsePromptTokenCount": 40,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 5,
    "totalTokenCount": 3052,
}
USAGE = TokenUsage(3040, 12, cached_tokens=2048)


def answer(text: str, **fields: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0, **fields}
    return {"candidates": [candidate], "modelVersion": "m"}


def test_what_was_read_from_the_cache_is_counted() -> None:
    """What its own tools read belongs to the prompt, and what it thought to the answer."""
    document = answer("Hi", finishReason="STOP") | {"usageMetadata": COUNTS}
    read = WIRE.read_answer(document, "m", "")

    assert read.usage == USAGE
    again = WIRE.read_answer(WIRE.encode_answer(read, "1"), "m", "")
    assert again.usage == USAGE


@pytest.mark.parametrize("count_at", ["end", "start", "each"])
def test_in_a_stream_it_is_counted_wherever_it_is_said(count_at: str) -> None:
    """Events count anew, the first of them without an answer; the last one need not repeat what they said."""
    of_prompt = {name: COUNTS[name] for name in ("promptTokenCount", "cachedContentTokenCount")}
    counts = {
        "end": [{}, COUNTS],
        "start": [of_prompt, {name: COUNTS[name] for name in COUNTS if name not in of_prompt}],
        "each": [of_prompt | {"candidatesTokenCount": 1}, COUNTS],
    }[count_at]
    events = [answer("H"), answer("i", finishReason="STOP")]
    decoder = WIRE.stream_decoder("m")
    data = [
        f"data: {json.dumps(event | ({'usageMetadata': count} if count else {}))}\n\n".encode()
        for event, count in zip(events, counts, strict=True)
    ]

    chunks = [chunk for piece in data for chunk in decoder.feed(piece)] + list(decoder.finish())

    assert chunks[-1].response is not None
    assert chunks[-1].response.usage == USAGE
    encoder = WIRE.stream_encoder("m", "1")
    again = WIRE.stream_decoder("m")
    rendered = encoder.start() + b"".join(map(encoder.chunk, chunks))
    last = [*again.feed(rendered), *again.finish()][-1]
    assert last.response is not None
    assert last.response.usage == USAGE
