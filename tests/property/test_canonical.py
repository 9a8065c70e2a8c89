from __future__ import annotations

import json
import random
import struct
from typing import Any

import orjson
from hypothesis import given, strategies as st

from cortex_replay import LlmRequest
from cortex_replay.canonical import f32_text
from cortex_replay.strict_json import loads
from tests.property.strategies import effort, json_values, requests


def shuffled(value: Any, seed: int) -> Any:
    """The same JSON value with its keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        random.Random(seed).shuffle(keys)
        return {key: shuffled(value[key], seed) for key in keys}
    return [shuffled(item, seed) for item in value] if isinstance(value, list) else value


@given(requests, st.integers())
@effort(300)
def test_the_hash_does_not_depend_on_the_order_of_keys(request: dict[str, Any], seed: int) -> None:
    """In whatever order a client's JSON library writes them."""
    assert (
        LlmRequest.from_dict(request).canonical_bytes()
        == LlmRequest.from_dict(shuffled(request, seed)).canonical_bytes()
    )


@given(requests)
@effort(300)
def test_a_stored_request_hashes_to_the_same_key(request: dict[str, Any]) -> None:
    """Through its readable form, as JSON text, and back, whatever it holds."""
    made = LlmRequest.from_dict(request)
    text = orjson.dumps({"model": made.model, **made.to_dict()}, option=orjson.OPT_INDENT_2)

    assert made.canonical_bytes() == LlmRequest.from_json(text).canonical_bytes()


@given(requests)
@effort(300)
def test_canonical_bytes_are_json_that_says_the_same(request: dict[str, Any]) -> None:
    """Nothing is lost on the way: another reader gets the fields back."""
    made = LlmRequest.from_dict(request)
    read = json.loads(made.canonical_bytes())

    assert made.system == read["system"]
    assert [message.content for message in made.messages] == [
        message["content"] for message in read["messages"]
    ]
    assert made.json_schema == read.get("json_schema")
    assert list(made.tools) == read.get("tools", [])
    assert made.extra == read.get("extra", {})


@given(st.integers(0, 2**31 - 1))
@effort(2000)
def test_f32_text_names_its_f32_in_the_fewest_digits(bits: int) -> None:
    """Reading it gives the value back; one digit fewer cannot."""
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    if value != value or value == float("inf"):
        return
    text = f32_text(value)
    digits = text.replace(".", "").partition("e")[0].strip("0")

    def as_f32(read: str) -> float:
        result: float = struct.unpack("<f", struct.pack("<f", float(read)))[0]
        return result

    assert value == as_f32(text)
    if len(digits) > 1:
        shorter = f"{value:.{len(digits) - 2}e}"
        assert value != as_f32(shorter)


@given(json_values)
@effort(500)
def test_strict_reading_agrees_with_the_standard_reader(value: Any) -> None:
    """On every document in the common ground of both, pretty or compact."""
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        assert repr(_as_reference(json.loads(text))) == repr(loads(text.encode()))


def _as_reference(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_reference(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_reference(item) for key, item in value.items()}
    if type(value) is int and not -(2**63) <= value < 2**64:
        return float(value)
    return value
