"""Where something is left or found: in strings, in names, across deltas, events and parts."""

from __future__ import annotations

import base64
import json
from random import Random

import pytest

from cortex_replay.canonical import JsonValue
from cortex_replay.redact.redactor import Redactor
from tests.redact.kinds import ALNUM, some

VALUE = "known-Value-0815"
GITHUB = "gh" + "p_" + some(Random(3), ALNUM, 36)


@pytest.mark.parametrize(
    ("document", "places"),
    [
        (VALUE, ["the document"]),
        ({"response": {"text": f"a {VALUE}"}}, ["response.text"]),
        (
            {"request": {"messages": [{"content": ""}, {}, {"role": "user", "content": VALUE}]}},
            ["request.messages[2].content"],
        ),
        (
            {"response": {"tool_calls": [{"arguments": {f"x {VALUE}": 1}}]}},
            ["a key of response.tool_calls[0].arguments"],
        ),
        ({f"{VALUE}": 1}, ["a key of the document"]),
        ({"a": {VALUE: {"text": VALUE}}}, ["a key of a", "a place whose name is secret"]),
        ({"a": [[VALUE]]}, ["a[0][0]"]),
        ({"a": VALUE, "b": {"c": base64.b64encode(f"u:{VALUE}".encode()).decode()}}, ["a", "b.c"]),
        ({"a": "".join(f"\\u{ord(c):04x}" for c in VALUE)}, ["a"]),
        ({"a\nb": VALUE}, ["a?b"]),
    ],
)
def test_a_value_that_is_left_is_located(document: JsonValue, places: list[str]) -> None:
    """The place is named and the value is not."""
    assert Redactor([VALUE]).left_in(document) == places


def _stream(*deltas: JsonValue) -> list[JsonValue]:
    return [{"at_ms": i, "delta": delta} for i, delta in enumerate(deltas)]


def _events(*texts: str) -> list[JsonValue]:
    return [{"at_ms": i, "text": text} for i, text in enumerate(texts)]


def _sse(*documents: JsonValue) -> str:
    return "".join(f"event: e\ndata: {json.dumps(document)}\n\n" for document in documents)


SPLIT: dict[str, tuple[JsonValue, str]] = {
    "deltas": ({"stream": _stream("so ", "known-", "Value", "-08", "15 it is")}, "stream[].delta, joined"),
    "later answers": (
        {"then": [{"response": {"text": ""}, "stream": _stream("known-Va", "lue-0815")}]},
        "then[].stream[].delta, joined",
    ),
    "reasoning": (
        {"stream": [{"delta": "", "reasoning": "known-Va"}, {"delta": "", "reasoning": "lue-0815"}]},
        "stream[].reasoning, joined",
    ),
    "arguments of one of two calls": (
        {
            "stream": [
                {"tool_calls": [{"index": 0, "arguments": '{"a": "known-'}, {"index": 1, "arguments": "{"}]},
                {"tool_calls": [{"index": 1, "arguments": '"b'}, {"index": 0, "arguments": 'Value-0815"}'}]},
            ]
        },
        "stream[].tool_calls[0].arguments, joined",
    ),
    "text parts": (
        {
            "messages": [
                {"role": "user", "parts": [{"type": "text", "text": "known-Value"}, {"text": "-0815"}]}
            ]
        },
        "messages[].parts[].text, joined",
    ),
    "plain strings": ({"list": ["known-", "Value-0815"]}, "list[], joined"),
    "events": ({"wire": {"events": _events("da", "ta: known-Val", "ue-0815")}}, "wire.events[].text, joined"),
    "deltas in events": (
        {
            "wire": {
                "events": _events(
                    _sse({"delta": {"text": "known-"}})[:30],
                    _sse({"delta": {"text": "known-"}})[30:],
                    _sse({"delta": {"text": "Value-0815"}}, {"delta": {"stop": 1}}),
                )
            }
        },
        "wire.events[].text, as JSON, [].delta.text, joined",
    ),
    "text in events": (
        {"wire": {"events": _events("data: known-\n\n", "data: Value-0815\r\n\r\n")}},
        "wire.events[].text, as JSON, [].data, joined",
    ),
    "strings in events": (
        {"wire": {"events": _events('data: "known-"\n\n', 'data: "Value-0815"\n\n')}},
        "wire.events[].text, as JSON, [], joined",
    ),
    "ids of events": (
        {"wire": {"body": "id: known-\ndata: {}\n\nid: Value-0815\ndata: {}\n\n"}},
        "wire.body, as JSON, [].id, joined",
    ),
    "deltas in a body": (
        {"wire": {"body": '{"message": {"content": "known-"}}\n{"message": {"content": "Value-0815"}}\n'}},
        "wire.body, as JSON, [].message.content, joined",
    ),
}


@pytest.mark.parametrize("name", SPLIT)
def test_a_value_in_pieces_is_found(name: str) -> None:
    """Put together, in the order in which a reader would."""
    document, place = SPLIT[name]

    assert place in Redactor([VALUE]).left_in(document)
    assert all(VALUE not in found for found in Redactor([VALUE]).left_in(document))
    assert Redactor(["another-value"]).left_in(document) == []


def test_what_is_in_a_piece_is_reported_there_and_not_again() -> None:
    """A sequence is for what no single string holds."""
    document: JsonValue = {"stream": _stream("a", f"b {VALUE} c", "d")}

    assert Redactor([VALUE]).left_in(document) == ["stream[1].delta"]


def test_found_in_tells_place_and_rule() -> None:
    """Known or not, whole or in pieces, each once."""
    document: JsonValue = {
        "response": {"text": f"{GITHUB} and {GITHUB}", "parsed_json": {GITHUB: [VALUE]}},
        "stream": _stream("a ", GITHUB[:9], GITHUB[9:], " b"),
        "then": [{"stream": _stream(f"{GITHUB} whole")}],
    }

    assert Redactor([VALUE]).found_in(document) == [
        ("response.text", "github"),
        ("a key of response.parsed_json", "github"),
        ("a place whose name is secret", "known-value"),
        ("then[0].stream[0].delta", "github"),
        ("stream[].delta, joined", "github"),
    ]


def test_found_in_does_not_join_messages() -> None:
    """Two messages that would make a secret together make none."""
    messages: JsonValue = [{"role": "user", "content": GITHUB[:9]}, {"role": "user", "content": GITHUB[9:]}]

    assert Redactor().found_in({"messages": messages}) == []
    assert Redactor([GITHUB]).found_in({"messages": messages}) == [
        ("messages[].content, joined", "known-value")
    ]


def test_nothing_is_left_or_found_in_what_was_redacted() -> None:
    """The two questions agree with the answer."""
    redactor = Redactor([VALUE])
    pieces, _ = redactor.pieces(["x ", VALUE[:5], VALUE[5:] + GITHUB[:7], GITHUB[7:]])
    redacted, _ = redactor.json({"a": f"{VALUE} {GITHUB}"})
    document: JsonValue = {"doc": redacted, "stream": _stream(*pieces)}

    assert redactor.left_in(document) == []
    assert redactor.found_in(document) == []


def test_without_known_values_nothing_is_left() -> None:
    """There is nothing to look for."""
    assert Redactor().left_in({"a": VALUE, "stream": _stream("a", "b")}) == []
