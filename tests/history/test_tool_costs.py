"""Tools of MCP that changed, and what that does to prompt caches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cortex_replay.history.calls import read_calls
from cortex_replay.history.mcp_calls import read_mcp_calls
from cortex_replay.history.tool_contracts import judge_offer, read_server
from cortex_replay.history.tool_costs import costs_of_changes, tool_edits, with_tools_of
from cortex_replay.mcp.offers import Offer
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.store import Store
from cortex_replay.types import LlmRequest
from tests.history.recordings import MODEL, Recording, record, record_list

READ: dict[str, Any] = {"name": "read", "description": "Read a file.", "inputSchema": {"type": "object"}}
LIST: dict[str, Any] = {"name": "list", "description": "List files.", "inputSchema": {"type": "object"}}
BIG = {"rules": "Be brief, whatever you are asked. " * 400}
TARIFF = Tariff.for_models([MODEL], {}, None)


def offer(*tools: dict[str, Any]) -> Offer:
    return Offer.of_pages([("tools/list", {"tools": [*tools]})])


def offered(*tools: dict[str, Any]) -> list[dict[str, Any]]:
    """As a client writes them for a model."""
    return [
        {
            "name": f"mcp__files__{tool['name']}",
            "description": tool["description"],
            "input_schema": tool["inputSchema"],
        }
        for tool in tools
    ]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A prompt whose system text is cached, behind the tools."""
    fields = {"tools": offered(READ, LIST)}
    record(tmp_path / "store", Recording(0, BIG, fields=fields, markers=[("system", 1)]))
    record_list(tmp_path / "store", READ, LIST)
    return tmp_path / "store"


def test_a_changed_description_costs_all_that_stands_behind_it(root: Path) -> None:
    store = Store.open(root)
    server = read_server(store, "files")
    prompts = read_calls(store).calls

    [cost] = costs_of_changes(prompts, server, offer(READ | {"description": "Read it."}, LIST), TARIFF)

    assert cost.cost.block == "tool 'mcp__files__read'"
    assert cost.cost.tokens > 3000
    assert list(costs_of_changes(prompts, server, offer(LIST, READ), TARIFF)) == []


def test_what_a_prompt_would_be() -> None:
    request = LlmRequest("m", "", "hi", 0.0, 9, tools=[*offered(READ), {"name": "other"}, *offered(LIST)])
    before = offer(READ, LIST)

    def names(now: Offer) -> Any:
        changed = with_tools_of(request, "files", before, now)
        tools: Any = None if changed is None else changed.tools
        return tools and [tool["name"] for tool in tools]

    read, other, listed = "mcp__files__read", "other", "mcp__files__list"
    assert names(before) is None
    assert names(offer(LIST)) == [other, listed]
    assert names(offer(READ, LIST, READ | {"name": "more"})) == [read, other, listed, "more"]
    assert names(offer(READ | {"name": "Read"}, LIST)) == ["mcp__files__Read", other, listed]
    schema = {"type": "object", "properties": {"path": {}}}
    changed = with_tools_of(request, "files", before, offer(READ | {"inputSchema": schema}, LIST))
    assert changed is not None
    assert changed.tools[0] == offered(READ)[0] | {"input_schema": schema}


def test_a_prompt_that_is_older_than_its_tools(root: Path) -> None:
    record_list(root, READ | {"description": "Read a page."}, LIST)
    store = Store.open(root)
    [call] = read_calls(store).calls
    calls = read_mcp_calls(store)

    [edit] = tool_edits(store, call.request, "anthropic", None, TARIFF, calls)

    assert (edit.server, edit.tool, edit.text) == ("files", "read", '"Read a file." became "Read a page."')
    assert edit.cost is not None
    assert edit.cost.tokens > 3000


def test_a_tool_that_another_server_describes_as_the_prompt_does(root: Path) -> None:
    """Two servers may have a tool of one name; the prompt does not say whose it is."""
    record_list(root, READ | {"description": "Read a book."}, server="files2")
    store = Store.open(root)
    [call] = read_calls(store).calls

    assert list(tool_edits(store, call.request, "anthropic", None, TARIFF, read_mcp_calls(store))) == []


def test_the_latest_list_counts_and_every_list_is_judged(root: Path) -> None:
    store = Store.open(root)
    server = read_server(store, "files")
    [change] = judge_offer(server, offer(READ | {"description": "Read it."}, LIST), read_calls(store).calls)

    assert change.change.what == "description"
    assert len(change.lists) == 1
    assert len(change.prompts) == 1
    assert read_server(store, "nobody").offers == ()
