"""Whose tool a model means."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.mcp.tool_names import arguments_text, names_tool

LONG = "a_tool_with_a_name_that_is_so_long_that_no_provider_would_take_it_as_it_is"


@pytest.mark.parametrize(
    ("name", "server", "tool"),
    [
        ("read_file", "files", "read_file"),
        ("mcp__files__read_file", "files", "read_file"),
        ("mcp_files_read_file", "files", "read_file"),
        ("files_read_file", "files", "read_file"),
        ("files__read_file", "files", "read_file"),
        ("files.read_file", "files", "read_file"),
        ("files-read_file", "files", "read_file"),
        ("mcp__my_files__get_sum", "my files", "get.sum"),
        ("mcp__everything__echo", "server-everything", "echo"),
        ("mcp__plugin_files__echo", "files", "echo"),
        (f"mcp__files__{LONG}"[:64], "files", LONG),
        (f"mcp__files__{LONG}"[:28] + "___" + f"mcp__files__{LONG}"[-32:], "files", LONG),
        (f"mcp__files__{LONG}"[:24] + "0123456789abcdef0123456789abcdef01234567", "files", LONG),
        (f"files_{LONG}"[:55] + "_12ab34cd", "files", LONG),
    ],
)
def test_a_name_of_a_client_is_known(name: str, server: str, tool: str) -> None:
    assert names_tool(name, server, tool)


@pytest.mark.parametrize(
    ("name", "server", "tool"),
    [
        ("read_file", "files", "file"),
        ("list_files", "files", "files"),
        ("mcp__memory__read", "files", "read"),
        ("memory_read", "files", "read"),
        ("read", "files", "read_file"),
        ("mcp__files__read", "files", "read_file"),
        (f"mcp__files__{LONG}"[:30], "files", LONG),
        (f"mcp__memory__{LONG}"[:64], "files", LONG),
        (f"mcp__files__{LONG}"[:40] + "_another_tool_altogether", "files", LONG),
        ("mcp____echo", "files", "echo"),
        ("", "files", "echo"),
    ],
)
def test_another_tool_is_not_meant(name: str, server: str, tool: str) -> None:
    assert not names_tool(name, server, tool)


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}, True),
        (None, {}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": -0.0}, {"a": 0}, True),
        ({"a": 0.5}, {"a": 0}, False),
    ],
)
def test_arguments_are_compared_by_value(one: Any, other: Any, are_equal: bool) -> None:
    assert (arguments_text(one) == arguments_text(other)) is are_equal
