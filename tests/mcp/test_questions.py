"""What a call is found by."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from cortex_replay.canonical import JsonValue
from cortex_replay.hashing import blake3_hex
from cortex_replay.mcp.questions import name_call, question_of, server_in, stands_alone, subject_of

PICTURE = b"\x89PNG\r\n\x1a\n"
ENCODED = base64.b64encode(PICTURE).decode()
ALONE: dict[str, JsonValue] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
LATER: dict[str, JsonValue] = {"io.modelcontextprotocol/protocolVersion": "2027-01-01", "progressToken": 1}


def body(method: str, parameters: dict[str, Any]) -> Any:
    return question_of("every", method, parameters)["body"]


def test_what_one_client_says_of_itself_and_of_one_request_is_left_out() -> None:
    asked = {"name": "sum", "arguments": {"_meta": 1}, "_meta": {"progressToken": 7}}
    shaken = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }

    assert body("tools/call", asked) == {"name": "sum", "arguments": {"_meta": 1}}
    assert body("initialize", shaken) == {"protocolVersion": "2025-11-25", "capabilities": {}}
    assert body("tools/call", {"name": "x", "clientInfo": 1})["clientInfo"] == 1


@pytest.mark.parametrize("written", [{}, {"arguments": {}}, {"arguments": None}])
@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
def test_no_arguments_are_no_arguments_however_a_client_writes_it(
    method: str, written: dict[str, Any]
) -> None:
    assert body(method, {"name": "x", **written}) == {"name": "x", "arguments": {}}


def test_the_first_page_is_the_first_page() -> None:
    assert body("tools/list", {"cursor": None}) == body("tools/list", {}) == {}
    assert body("tools/list", {"cursor": ""}) == {"cursor": ""}


def test_bytes_count_by_their_hash() -> None:
    known = {"blake3": blake3_hex(PICTURE), "bytes": len(PICTURE)}
    content = [
        {"type": "image", "data": ENCODED, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "a://b", "blob": ENCODED}},
        {"type": "text", "data": ENCODED},
        {"type": "audio", "data": "no base64!"},
    ]

    assert body("tools/call", {"name": "x", "arguments": {"content": content}})["arguments"]["content"] == [
        {"type": "image", "data": known, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "a://b", "blob": known}},
        {"type": "text", "data": ENCODED},
        {"type": "audio", "data": "no base64!"},
    ]


@pytest.mark.parametrize(
    ("method", "parameters", "name"),
    [
        ("tools/call", {"name": "get-sum"}, "tool get-sum of server every"),
        ("prompts/get", {"name": "hello"}, "prompt hello of server every"),
        ("resources/read", {"uri": "a://b"}, "resource a://b of server every"),
        ("tools/list", {}, "tools/list of server every"),
        ("tools/call", {"name": 3}, "tools/call of server every"),
    ],
)
def test_a_call_is_named_as_people_name_it(method: str, parameters: dict[str, Any], name: str) -> None:
    question = question_of("every", method, parameters)

    assert name_call(question) == name
    assert server_in(question) == "every"


def test_a_call_is_about_a_tool_a_prompt_or_a_resource() -> None:
    assert subject_of(question_of("every", "tools/call", {"name": "get-sum"})) == "get-sum"
    assert subject_of(question_of("every", "resources/read", {"uri": "a://b"})) == "a://b"
    assert subject_of(question_of("every", "tools/list", {"name": "get-sum"})) is None


def test_a_request_that_stands_alone_is_another_question_than_one_of_a_session() -> None:
    """The answers of a session lack what a newer client must have."""
    alone = question_of(
        "every", "tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    )
    later = question_of(
        "every", "tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2027-01-01"}}
    )
    in_session = question_of("every", "tools/list", {"_meta": {"progressToken": 1}})

    assert alone == later
    assert alone["body"] == in_session["body"]
    assert alone["query"] != in_session["query"]
    assert [alone["query"], in_session["query"]] == [[["session", "none"]], []]
    assert stands_alone(alone)
    assert not stands_alone(in_session)


def test_another_exchange_has_no_server() -> None:
    assert server_in(None) is None
    assert server_in({"method": "POST", "upstream": "mcp:x"}) is None
    assert server_in({"method": "MCP", "upstream": "openai"}) is None


def test_a_request_that_stands_alone_is_another_question() -> None:
    """Its answer says what no answer in a session says, and its client insists on that."""
    in_session = question_of("tools", "tools/call", {"name": "now", "_meta": {"progressToken": 1}})
    alone = question_of("tools", "tools/call", {"name": "now", "_meta": {**ALONE}})

    assert in_session == question_of("tools", "tools/call", {"name": "now"})
    assert alone != in_session
    assert alone == question_of("tools", "tools/call", {"name": "now", "_meta": {**LATER}})
