"""What tools of MCP that changed do to the prompt cache of a provider: tools stand in front of a prompt, so
nothing behind one that changed is found again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.history.cache_rules import cache_provider
from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.mcp_calls import McpCall
from cortex_replay.history.tool_contracts import RecordedServer, offered_tool, read_server, servers_in
from cortex_replay.mcp.offers import Definition, Offer, compare_offers
from cortex_replay.mcp.wording import describe_rewording
from cortex_replay.prompt.cache.calls import Provider
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.prompt.cache.edits import EditCost, cost_of_edit
from cortex_replay.prompt.parts import goes_on
from cortex_replay.store import Store
from cortex_replay.types import LlmRequest, TokenUsage

__all__ = ["PromptCost", "ToolEdit", "costs_of_changes", "tool_edits", "with_tools_of"]

_SCHEMAS: Final = ("input_schema", "parameters", "inputSchema", "parametersJsonSchema")
"""What providers call the schema of what a tool takes."""


class PromptCost(NamedTuple):
    """What a recorded prompt would cost more, once a server's tools are others."""

    path: str
    answer: int
    model: str
    cost: EditCost

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {"path": self.path, "answer": self.answer, "model": self.model, **self.cost.to_dict()}


class ToolEdit(NamedTuple):
    """A tool that its server describes otherwise than a prompt does."""

    server: str
    tool: str
    text: str
    """What changed, in words. It quotes the server."""
    cost: EditCost | None
    """What the prompt costs more with it; nothing where nothing behind it was cached."""

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        cost = None if self.cost is None else self.cost.to_dict()
        return {"server": self.server, "tool": self.tool, "text": self.text, "cost": cost}


def costs_of_changes(
    prompts: Iterable[HistoryCall], recorded: RecordedServer, now: Offer, tariff: Tariff
) -> Iterator[PromptCost]:
    """What each recorded call to a model costs more with the tools that a server offers now.

    Args:
        prompts: The recorded calls.
        recorded: What is known of the server.
        now: What it offers.
        tariff: What tokens cost.
    """
    for call in prompts:
        edited = with_tools_of(call.request, recorded.name, recorded.latest, now)
        if edited is not None:
            provider = cache_provider(call.model, call.meta)
            cost = _cost(call.request, edited, provider, call.usage, tariff)
            if cost is not None:
                yield PromptCost(call.path, call.answer, call.model, cost)


def tool_edits(
    store: Store,
    request: LlmRequest,
    provider: Provider | None,
    usage: TokenUsage | None,
    tariff: Tariff,
    calls: Sequence[McpCall],
) -> Iterator[ToolEdit]:
    """The tools that a prompt offers otherwise than their servers were last recorded to.

    Args:
        store: Where the servers are recorded.
        request: The prompt, with its plan.
        provider: Whose cache it met.
        usage: What the provider counted of it.
        tariff: What tokens cost.
        calls: The recorded calls of all servers.
    """
    servers = {name: read_server(store, name, calls).latest.tools for name in servers_in(calls)}
    for i, offered in enumerate(request.tools):
        named = [(name, offered_tool(name, tools, offered)) for name, tools in servers.items()]
        said = offered.get("description") if isinstance(offered, dict) else None
        known = {
            (name, tool): says
            for name, tool in named
            if tool is not None and isinstance(says := servers[name][tool].get("description"), str)
        }
        if not known or said in known.values():
            continue
        (name, tool), says = next(iter(known.items()))
        edited = _edited(offered, {"description": says})
        whole = replace(request, tools=(*request.tools[:i], edited, *request.tools[i + 1 :]))
        cost = _cost(request, whole, provider, usage, tariff)
        yield ToolEdit(name, tool, describe_rewording(said, says), cost)


def with_tools_of(request: LlmRequest, server: str, before: Offer, now: Offer) -> LlmRequest | None:
    """A prompt with a server's tools as they are now; ``None`` if that is the same prompt.

    What a client wrote of a tool stays, where the server says the same as before.
    """
    new_names = {one.name: one.new_name for one in compare_offers(before, now) if one.new_name is not None}
    added = [name for name in now.tools if name not in before.tools and name not in new_names.values()]
    tools: list[JsonValue] = []
    place: int | None = None
    for offered in request.tools:
        tool = offered_tool(server, before.tools, offered)
        if tool is None:
            tools.append(offered)
            continue
        current = now.tools.get(new_names.get(tool, tool))
        if current is not None:
            tools.append(_edited(offered, _difference(before.tools[tool], current), tool))
        place = len(tools)
    if place is not None and added:
        tools[place:place] = [{**now.tools[name]} for name in added]
    return None if compact(tools) == compact([*request.tools]) else replace(request, tools=tuple(tools))


def _difference(before: Definition, now: Definition) -> dict[str, JsonValue]:
    names = ("name", "description", "inputSchema")
    return {name: now.get(name) for name in names if compact(before.get(name)) != compact(now.get(name))}


def _edited(offered: JsonValue, change: Mapping[str, JsonValue], tool: str = "") -> JsonValue:
    """A tool as a client writes it, with what its server says otherwise."""
    if not isinstance(offered, dict):
        return offered
    edited = dict(offered)
    if "description" in change:
        edited["description"] = change["description"]
    if "inputSchema" in change:
        edited[next((name for name in _SCHEMAS if name in offered), "input_schema")] = change["inputSchema"]
    if isinstance(name := change.get("name"), str):
        edited["name"] = str(offered["name"]).replace(tool, name)
    return edited


def _cost(
    request: LlmRequest,
    edited: LlmRequest,
    provider: Provider | None,
    usage: TokenUsage | None,
    tariff: Tariff,
) -> EditCost | None:
    if provider is None:
        return None
    count = usage.prompt_tokens if usage is not None and not goes_on(request) else None
    return cost_of_edit(provider, request, edited, tariff, (count or None, None))
