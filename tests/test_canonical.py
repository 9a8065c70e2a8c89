"""The hashed bytes, against vectors from the reference and by our own rules."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any

import orjson
import pytest

from cortex_replay import LlmRequest, PromptCachePlan, blake3_hex
from cortex_replay.canonical import exchange_bytes, f32_text, is_encodable, require_contract_writer
from tests.builder import ask
from tests.cases import each
from tests.golden import read_vectors

# The reference itself is wrong, or Python cannot say it (docs/key.md).
EXCEPTIONS = {"reference_misparses_float", "some_null", "non_finite_temperature"}
VECTORS = [line for line in read_vectors("prompt_hash.jsonl") if not EXCEPTIONS & set(line["flags"])]


@each(VECTORS, itemgetter("name"))
def test_canonical_bytes_and_hash_are_those_of_the_reference(line: dict[str, Any]) -> None:
    """Byte for byte what crtx-llm 0.1.1 hashes."""
    request = LlmRequest(**line["request"])

    assert line["canonical"] == request.canonical_bytes().decode()
    assert line["prompt_hash"] == request.prompt_hash()


def test_the_vectors_are_all_there() -> None:
    """The file was not cut: what is skipped is counted."""
    assert len(read_vectors("prompt_hash.jsonl")) == 286
    assert len(VECTORS) >= 280


def test_reading_a_request_from_json_keeps_minus_zero() -> None:
    """The text -0 is the float, as in the reference; Python's own reader would lose the sign."""
    request = LlmRequest.from_json('{"model": "m", "messages": [], "json_schema": {"minimum": -0}}')

    assert b'"json_schema":{"minimum":-0.0}' in request.canonical_bytes()


FULL = {
    "model": "m",
    "system": "s",
    "messages": [
        {"role": "user", "content": "u", "parts": [{"type": "image", "blake3": "00"}]},
        {
            "role": "assistant",
            "content": "a",
            "tool_calls": [
                {"id": "toolu_x", "name": "f", "arguments": {"b": 1, "a": 0.5}},
                {"name": "g", "arguments": "not JSON"},
            ],
        },
        {"role": "tool", "content": "r", "tool_call_id": "toolu_x", "is_error": True},
        {"role": "system", "content": "stay terse"},
    ],
    "temperature": 0.7,
    "max_tokens": None,
    "json_schema": {"type": "object"},
    "tools": [{"name": "f", "input_schema": {"z": 1, "a": 2}}],
    "tool_choice": {"type": "any"},
    "stop": ["\n"],
    "top_p": 1,
    "top_k": 0,
    "seed": 0,
    "extra": {"thinking": {"budget_tokens": 1024}},
}


def test_the_additional_fields_have_their_documented_place() -> None:
    """Order, sorted free values and numbered call ids, as docs/key.md says."""
    expected = (
        '{"system":"s","messages":['
        '{"role":"user","content":"u","parts":[{"blake3":"00","type":"image"}]},'
        '{"role":"assistant","content":"a","tool_calls":['
        '{"arguments":{"a":0.5,"b":1},"id":"call_1","name":"f"},'
        '{"arguments":"not JSON","name":"g"}]},'
        '{"role":"tool","content":"r","tool_call_id":"call_1","is_error":true},'
        '{"role":"system","content":"stay terse"}],'
        '"temperature":0.7,"max_tokens":null,"json_schema":{"type":"object"},'
        '"tools":[{"input_schema":{"a":2,"z":1},"name":"f"}],"tool_choice":{"type":"any"},"stop":["\\n"],'
        '"top_p":1.0,"top_k":0,"seed":0,"extra":{"thinking":{"budget_tokens":1024}}}'
    )

    assert expected == LlmRequest.from_dict(FULL).canonical_bytes().decode()


@pytest.mark.parametrize("name", [name for name in FULL if name != "model"])
def test_every_field_that_the_model_sees_changes_the_hash(name: str) -> None:
    """Leaving out any one of them is another key."""
    without = {key: value for key, value in FULL.items() if key != name}
    if name == "max_tokens":
        without["max_tokens"] = 0

    assert LlmRequest.from_dict(FULL).prompt_hash() != LlmRequest.from_dict(without).prompt_hash()


@pytest.mark.parametrize(
    "absent",
    [
        {"tools": []},
        {"tool_choice": {}},
        {"tool_choice": None},
        {"stop": []},
        {"extra": {}},
        {"json_schema": None},
        {"messages": [{"role": "user", "content": "q", "parts": [], "tool_calls": [], "is_error": False}]},
    ],
    ids=str,
)
def test_what_is_empty_counts_as_absent(absent: dict[str, Any]) -> None:
    """An empty list, an empty object and false leave the plain hash as it is."""
    assert ask("q").prompt_hash() == ask("q", **{"messages": "q"} | absent).prompt_hash()


@pytest.mark.parametrize(
    "present",
    [{"temperature": 0.0}, {"seed": 0}, {"top_k": 0}, {"top_p": 0.0}, {"json_schema": {}}],
    ids=str,
)
def test_zero_counts_as_present(present: dict[str, Any]) -> None:
    """Zero is a value, and an empty schema is a schema."""
    assert ask("q").prompt_hash() != ask("q", **present).prompt_hash()


def test_what_the_model_does_not_see_is_not_in_the_hash() -> None:
    """Model, timeout, the cache plan and local message names take no part."""
    plain = LlmRequest("m", "s", [{"role": "user", "content": "q"}], 0.0, 16)
    other = LlmRequest(
        "other",
        "s",
        [{"role": "user", "content": "q", "id": "turn-1"}],
        0.0,
        16,
        timeout_ms=1,
        cache=PromptCachePlan(cache_system=True, breakpoint_message_ids=("turn-1",), ttl="1h"),
    )

    assert plain.canonical_bytes() == other.canonical_bytes()


def test_call_ids_are_numbered_by_first_appearance() -> None:
    """Two runs of one agent, with ids made up anew, have one key; swapped ids do not."""

    def conversation(first: str, second: str, answered: str) -> str:
        calls = [{"id": first, "name": "f", "arguments": {}}, {"id": second, "name": "f", "arguments": {}}]
        return ask(
            "",
            messages=[
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": "", "tool_calls": calls},
                {"role": "tool", "content": "r", "tool_call_id": answered},
            ],
        ).prompt_hash()

    assert conversation("a", "b", "a") == conversation("uuid-1", "uuid-2", "uuid-1")
    assert conversation("a", "b", "a") != conversation("a", "b", "b")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.7, "0.7"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.70000005, "0.70000005"),
        (1 / 3, "0.33333334"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1e12, "1000000000000.0"),
        (1e13, "1e+13"),
        (16777216.0, "16777216.0"),
        (1485376.75, "1485376.8"),  # two equally close: the even digit
        (2.0**-20, "9.536743e-7"),
        (1e-45, "1e-45"),
        (3.4028234663852886e38, "3.4028235e+38"),
        (1e-300, "0.0"),
    ],
)
def test_f32_text(value: float, text: str) -> None:
    """The shortest digits that name the f32, laid out as the reference does."""
    assert text == f32_text(value)


@pytest.mark.parametrize(("text", "can"), [("plain", True), ("\U0001f600", True), ("\ud83d", False)])
def test_half_of_a_surrogate_pair_cannot_be_hashed(text: str, can: bool) -> None:
    assert is_encodable(text) is can


def test_a_json_writer_with_other_numbers_is_refused() -> None:
    """serde_json before 1.0.147 and orjson before 3.11.7 wrote 1e16; hashing with such a one is refused."""

    def old_writer(value: object) -> bytes:
        return orjson.dumps(value).replace(b"e+", b"e")

    require_contract_writer(orjson.dumps)
    with pytest.raises(ImportError, match="orjson"):
        require_contract_writer(old_writer)
    with pytest.raises(ImportError, match="orjson"):
        require_contract_writer(lambda value: json.dumps(value, separators=(",", ":")).encode())


def test_the_key_of_an_opaque_call() -> None:
    """A domain line, then compact JSON with sorted query and sorted body keys."""
    query = [("b", "2"), ("a", "1")]
    data = exchange_bytes("openai", "POST", "/v1/embeddings", query, {"z": 1, "input": ["x"]})

    body = b'["openai","POST","/v1/embeddings",[["a","1"],["b","2"]],{"input":["x"],"z":1}]'
    assert b"cortex-replay/exchange/1\n" + body == data
    assert len(blake3_hex(data)) == 64
