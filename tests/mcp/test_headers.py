"""What a message says in headers."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.mcp.headers import plain_name, routing_headers

VERSION = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}


def test_a_request_that_stands_alone_says_its_method_and_whom_it_is_for() -> None:
    request: Any = {"method": "tools/call", "params": {"name": "read", **VERSION}}

    assert routing_headers(request) == {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "read",
    }


def test_one_of_a_session_says_nothing() -> None:
    assert routing_headers({"method": "tools/call", "params": {"name": "read"}}) == {}


@pytest.mark.parametrize("name", ["note://ä b", " edge ", "=?base64?eA==?=", "line\nbreak", "plain"])
def test_a_name_survives_its_header(name: str) -> None:
    request: Any = {"method": "resources/read", "params": {"uri": name, **VERSION}}
    value = routing_headers(request)["mcp-name"]

    assert value.isascii()
    assert value.isprintable()
    assert plain_name(value) == name


def test_a_name_that_is_coded_badly_is_none() -> None:
    assert plain_name("=?base64?***?=") is None
