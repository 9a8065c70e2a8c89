"""Which texts of a message may hold a value of where it was said."""

from __future__ import annotations

from typing import Any

from cortex_replay.mcp.texts import change_texts, texts_in

ENTRY: dict[str, Any] = {
    "at_ms": 12,
    "result": {
        "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "iVBO", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "iVBO", "name": "c"}},
            {"type": "resource_link", "uri": "x://d", "name": "dd"},
        ],
        "structuredContent": {"type": "e", "name": "f", "deep": [{"role": "g"}], "count": 7},
        "messages": [{"role": "user", "content": {"type": "text", "text": "h"}}],
        "tools": [{"name": "not this", "description": "i", "inputSchema": {"type": "object"}}],
        "protocolVersion": "2025-11-25",
    },
}


def test_what_the_protocol_says_and_bytes_are_left_alone() -> None:
    assert texts_in(ENTRY) == ["a", "file:///b", "c", "x://d", "dd", "e", "f", "g", "h", "i"]


def test_what_a_log_says_and_the_arguments_of_a_tool_are_free() -> None:
    said: Any = {
        "notification": {"method": "notifications/message", "params": {"level": "info", "data": "a"}}
    }
    asked: Any = {"name": "read", "arguments": {"name": "b", "type": "c"}}

    assert texts_in([said, asked]) == ["a", "b", "c"]


def test_nothing_else_changes() -> None:
    """And the same texts are found again, whatever was put into them: what is bound is to be filled."""
    changed = change_texts(ENTRY, lambda text: f"⟦{text}")

    assert texts_in(changed) == [f"⟦{text}" for text in texts_in(ENTRY)]
    assert change_texts(changed, lambda text: text[1:]) == ENTRY
