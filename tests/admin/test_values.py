"""What goes in and out, as the reference reads and writes it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cortex_replay import admin
from cortex_replay.admin import (
    METHOD,
    LlmChatMessage,
    LlmCompleteInput,
    LlmCompleteResponse,
    LlmUsage,
)
from cortex_replay.admin.values import quote
from cortex_replay.canonical import compact
from cortex_replay.errors import InvalidRequest
from tests.golden import read_vectors
from tests.property.strategies import effort, json_values, texts

VECTORS = read_vectors("admin_rpc.jsonl")
KINDS: dict[str, Any] = {"input": LlmCompleteInput, "response": LlmCompleteResponse}
USER = {"role": "user", "content": "hi"}


def vectors(*, ok: bool) -> list[Any]:
    rows = [row for row in VECTORS if row["kind"] in KINDS and row["ok"] is ok]
    return [pytest.param(row, id=row["name"]) for row in rows]


def test_every_vector_is_used() -> None:
    """All 25."""
    assert len(vectors(ok=True)) + len(vectors(ok=False)) + 1 == len(VECTORS) == 25


@pytest.mark.parametrize("row", vectors(ok=True))
def test_what_the_reference_reads(row: dict[str, Any]) -> None:
    """Is read and written to the byte, and read again as the same."""
    kind = KINDS[row["kind"]]
    value = kind.from_json(row["source"])

    assert row["serialized"] == value.to_json()
    assert value == kind.from_json(row["source"].encode())
    assert value == kind.from_json(row["serialized"])
    assert value == kind.from_json(row["via_value"])
    assert value == kind.from_dict(value.to_dict())
    assert row["roundtrip_equal"] is True


@pytest.mark.parametrize("row", vectors(ok=False))
def test_what_the_reference_refuses(row: dict[str, Any]) -> None:
    """Is refused in its words."""
    with pytest.raises(InvalidRequest) as caught:
        KINDS[row["kind"]].from_json(row["source"])

    assert row["error"].partition(" at line")[0] == caught.value.reason


def test_the_constant() -> None:
    """And what usage is when nobody says."""
    (row,) = [row for row in VECTORS if row["kind"] == "constant"]

    assert row["value"] == METHOD
    assert row["default_usage"] == LlmUsage().to_dict()


def test_the_names_of_the_reference_and_those_of_former_versions_mean_the_same() -> None:
    assert admin.LLM_COMPLETE_METHOD == METHOD
    assert admin.LlmCompleteMessage is LlmChatMessage
    assert admin.LlmCompleteOutput is LlmCompleteResponse
    assert admin.LlmCompleteUsage is LlmUsage


@pytest.mark.parametrize(
    ("kind", "text", "struct"),
    [
        (LlmCompleteInput, '{"provider":"p","model":"m","messages":[3]}', "LlmChatMessage"),
        (LlmCompleteResponse, '{"content":"x","model":"m","usage":3}', "LlmUsage"),
        (LlmCompleteResponse, "3", "LlmCompleteResponse"),
    ],
)
def test_an_error_names_the_struct_as_the_reference_does(kind: Any, text: str, struct: str) -> None:
    with pytest.raises(InvalidRequest, match=f"invalid type: integer `3`, expected struct {struct}$"):
        kind.from_json(text)


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ('"temperature":1e39', "temperature", "is out of the range of a 32-bit float"),
        ('"temperature":-1e39', "temperature", "is out of the range of a 32-bit float"),
        ('"temperature":1e400', "params", "a number is out of range"),
        ('"temperature":true', "temperature", "invalid type: boolean `true`, expected f32"),
        ('"max_tokens":4294967296', "max_tokens", "invalid value: integer `4294967296`, expected u32"),
        ('"max_tokens":-1', "max_tokens", "invalid value: integer `-1`, expected u32"),
        ('"max_tokens":1.5', "max_tokens", "invalid type: floating point `1.5`, expected u32"),
        ('"max_tokens":1e2', "max_tokens", "invalid type: floating point `100.0`, expected u32"),
        ('"system_prompt":[]', "system_prompt", "invalid type: sequence, expected a string"),
        ('"system_prompt":{}', "system_prompt", "invalid type: map, expected a string"),
        ('"provider":null', "params", "a key stands twice in one object"),
    ],
)
def test_what_else_is_refused(changes: str, field: str, reason: str) -> None:
    """By the name of its field."""
    with pytest.raises(InvalidRequest) as caught:
        LlmCompleteInput.from_json(f'{{"provider":"p","model":"m","messages":[],{changes}}}')

    assert (field, reason) == (caught.value.field, caught.value.reason)


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([USER, 3], "messages[1]"),
        ([USER, {"role": "user"}], "messages[1].content"),
        ([{"role": None, "content": ""}], "messages[0].role"),
        ([["user", "hi"]], "messages[0]"),
        ({}, "messages"),
        ("hi", "messages"),
    ],
)
def test_a_message_that_is_none(messages: Any, field: str) -> None:
    """Which one, and what about it."""
    with pytest.raises(InvalidRequest) as caught:
        LlmCompleteInput.from_dict({"provider": "p", "model": "m", "messages": messages})

    assert field == caught.value.field


@pytest.mark.parametrize(
    ("usage", "field", "reason"),
    [
        (None, "usage", "invalid type: null, expected struct LlmUsage"),
        ({"total_tokens": None}, "usage.total_tokens", "invalid type: null, expected u64"),
        ({"total_tokens": 2**64}, "usage.total_tokens", f"invalid value: integer `{2**64}`, expected u64"),
    ],
)
def test_usage_that_is_none(usage: Any, field: str, reason: str) -> None:
    """It may be missing, but not null."""
    with pytest.raises(InvalidRequest) as caught:
        LlmCompleteResponse.from_dict({"content": "", "model": "", "usage": usage})

    assert (field, reason) == (caught.value.field, caught.value.reason)


def test_null_is_absent_and_empty_is_not() -> None:
    """For the three that are optional."""
    nulls = {"max_tokens": None, "temperature": None, "system_prompt": None}
    value = LlmCompleteInput.from_dict({"provider": "p", "model": "m", "messages": [], **nulls})

    assert value == LlmCompleteInput("p", "m", [])
    assert value.to_dict() == {"provider": "p", "model": "m", "messages": []}
    empty = LlmCompleteInput("p", "m", [], system_prompt="")
    assert '"system_prompt":""' in empty.to_json()


def test_values_by_hand() -> None:
    """Are checked in the same way, and cannot be changed."""
    message = LlmChatMessage("user", "hi")
    value = LlmCompleteInput("p", "m", [message, USER], 5, 1)

    assert value.messages == (message, message)
    assert value == pickle.loads(pickle.dumps(value))
    assert hash(value) == hash(LlmCompleteInput("p", "m", (message, message), 5, 1.0))
    with pytest.raises(AttributeError):
        value.model = "other"  # type: ignore[misc]
    for text in ("\ud800", b"bytes", 10**5000):
        with pytest.raises(InvalidRequest):
            LlmCompleteInput(text, "m", [])  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="surrogate"):
        LlmCompleteInput.from_json('"\ud800"')


def test_a_long_text_in_the_wrong_place_is_not_repeated() -> None:
    """As a whole."""
    with pytest.raises(InvalidRequest) as caught:
        LlmCompleteInput("p", "m", [], "x" * 10_000)  # type: ignore[arg-type]

    assert len(str(caught.value)) < 200


@effort(200)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False) | st.floats(0, 2))
def test_a_temperature_keeps_its_f32(number: float) -> None:
    """Read, written and read again."""
    once = LlmCompleteInput("p", "m", [], temperature=number)
    text = once.to_json()

    assert text == LlmCompleteInput.from_dict(once.to_dict()).to_json()


inputs = st.builds(
    LlmCompleteInput,
    texts,
    texts,
    st.lists(st.builds(LlmChatMessage, texts, texts), max_size=3),
    st.none() | st.integers(0, 2**32 - 1),
    st.none() | st.floats(0, 2),
    st.none() | texts,
)


@effort(100)
@given(inputs)
def test_what_is_written_reads_the_same(value: LlmCompleteInput) -> None:
    assert value == LlmCompleteInput.from_json(value.to_json())
    assert value == LlmCompleteInput.from_json(compact(value.to_dict()))


@effort(200)
@given(json_values, st.sampled_from([LlmCompleteInput, LlmCompleteResponse, LlmUsage]))
def test_any_json_is_read_or_refused(value: Any, kind: Any) -> None:
    """And nothing else happens."""
    place = "nowhere"
    try:
        kind.from_dict(value)
    except InvalidRequest as error:
        place = error.field

    assert place


@pytest.mark.parametrize("start", range(20, 62))
def test_what_is_quoted_holds_no_half_of_a_secret(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    """It is cut out before the text is cut short, wherever it stands."""
    secret = "an-own-key-of-this-server-4711"
    monkeypatch.setenv("SOME_API_KEY", secret)

    quoted = quote(f"{'x ' * 40}"[:start] + secret + " and more")

    assert secret[:6] not in quoted
