"""What an MCP server offers today beside what was recorded, and which recordings the changes touch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cortex_replay.canonical import JsonValue
from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.mcp_calls import McpCall, read_mcp_calls
from cortex_replay.mcp.messages import DISCOVER, INITIALIZE, TOOLS_CALL
from cortex_replay.mcp.offers import LISTS, Change, Kind, Offer, compare_offers
from cortex_replay.mcp.questions import PROMPTS_GET, RESOURCES_READ
from cortex_replay.mcp.schemas import problem_of_arguments
from cortex_replay.mcp.tool_names import names_tool
from cortex_replay.store import Store

__all__ = [
    "ContractChange",
    "RecordedOffer",
    "RecordedServer",
    "TouchedCall",
    "judge_offer",
    "offered_tool",
    "read_server",
    "servers_in",
]

_USES: dict[Kind, str] = {
    "tool": TOOLS_CALL,
    "prompt": PROMPTS_GET,
    "resource template": RESOURCES_READ,
}


class RecordedOffer(NamedTuple):
    """A list that a server gave, of one kind, all pages joined."""

    offer: Offer
    paths: tuple[str, ...]
    """The files that hold it."""
    is_whole: bool
    """Whether all of its pages are recorded: else what is on none of them need not be new."""


@dataclass(frozen=True, slots=True)
class RecordedServer:
    """What is recorded of one server."""

    name: str
    calls: tuple[McpCall, ...]
    """In the order in which they were asked."""
    offers: tuple[RecordedOffer, ...]
    """Each list that it gave; the latest is the last."""

    @property
    def handshake(self) -> dict[str, JsonValue] | None:
        """What the latest client that greeted the server said, if one did."""
        greetings = [call.parameters for call in self.calls if call.method == INITIALIZE]
        return greetings[-1] if greetings else None

    @property
    def is_modern(self) -> bool:
        """Whether its clients spoke the protocol in which each request stands alone."""
        return any(
            call.method == DISCOVER and (end := call.end) is not None and end[0] == "result"
            for call in self.calls
        )

    @property
    def latest(self) -> Offer:
        """What was listed last, of each kind."""
        lists: dict[Kind, Any] = {}
        for one in self.offers:
            lists |= one.offer.lists
        return Offer(lists)


class TouchedCall(NamedTuple):
    """A recorded call that a change is about."""

    path: str
    answer: int
    what: str
    problem: str | None
    """Why the server would refuse it today, if it would."""


@dataclass(frozen=True, slots=True)
class ContractChange:
    """A change, and the recordings that it touches."""

    change: Change
    lists: tuple[str, ...]
    """The files that hold what the server offered before."""
    calls: tuple[TouchedCall, ...]
    prompts: tuple[str, ...]
    """The files of the calls to models that offer the tool."""

    @property
    def misfits(self) -> list[TouchedCall]:
        """The recorded calls that the server would refuse today."""
        return [call for call in self.calls if call.problem is not None]

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            **self.change.to_dict(),
            "lists": list(self.lists),
            "calls": [call._asdict() for call in self.calls],
            "prompts": list(self.prompts),
        }


def servers_in(calls: Iterable[McpCall]) -> list[str]:
    """The names of the servers that were asked."""
    return sorted({call.server for call in calls})


def read_server(store: Store, name: str, calls: Sequence[McpCall] | None = None) -> RecordedServer:
    """What is recorded of a server.

    Args:
        store: Where from.
        name: Of the server.
        calls: The recorded calls of all servers, if they were read already.

    Raises:
        FixtureIntegrityFailed: A file is not what the index says.
    """
    own = [call for call in (read_mcp_calls(store) if calls is None else calls) if call.server == name]
    lists = [call for call in own if call.method in LISTS and _result_of(call) is not None]
    offers = [_follow(call, lists) for call in lists if not call.parameters.get("cursor")]
    return RecordedServer(name, tuple(own), tuple(offers))


def _follow(first: McpCall, calls: Sequence[McpCall]) -> RecordedOffer:
    """A list from its first page on. A page of an older list that nothing leads to belongs to none."""
    pages = [first]
    while isinstance(cursor := (_result_of(pages[-1]) or {}).get("nextCursor"), str):
        following = [
            call
            for call in calls
            if call.method == first.method and call.parameters.get("cursor") == cursor and call not in pages
        ]
        if not following:
            break
        pages.append(max(following, key=lambda call: (call.scopes == first.scopes, call.run == first.run)))
    offer = Offer.of_pages((call.method, _result_of(call)) for call in pages)
    return RecordedOffer(offer, tuple(call.path for call in pages), is_whole=cursor is None)


def _result_of(call: McpCall) -> dict[str, JsonValue] | None:
    end = call.end
    return end[1] if end is not None and end[0] == "result" and isinstance(end[1], dict) else None


def judge_offer(
    recorded: RecordedServer, now: Offer, prompts: Sequence[HistoryCall] = ()
) -> list[ContractChange]:
    """Every change from what was recorded to what is offered now, with what it touches.

    Args:
        recorded: What is known of the server.
        now: What it offers, in the form in which it would be stored.
        prompts: The recorded calls to models.
    """
    lists: dict[Change, list[str]] = {}
    for offer, paths, is_whole in recorded.offers:
        for change in compare_offers(offer, now):
            if is_whole or change.what != "added":
                lists.setdefault(change, []).extend(paths)
    return [
        ContractChange(
            change,
            tuple(sorted(set(paths))),
            tuple(_touched(recorded, change, now)),
            tuple(sorted({call.path for call in prompts if _offers(call, recorded.name, change)})),
        )
        for change, paths in lists.items()
    ]


def offered_tool(server: str, names: Iterable[str], offered: JsonValue) -> str | None:
    """Which of some tools of a server a tool is that a prompt offers, under whatever name; if it is one."""
    called = offered.get("name") if isinstance(offered, dict) else None
    if not isinstance(called, str):
        return None
    return next((name for name in names if names_tool(called, server, name)), None)


def _offers(call: HistoryCall, server: str, change: Change) -> bool:
    if not change.is_seen_by_models or change.what == "added":
        return False
    return any(offered_tool(server, [change.name], tool) is not None for tool in call.request.tools)


def _touched(recorded: RecordedServer, change: Change, now: Offer) -> Iterator[TouchedCall]:
    is_of_input = change.what in ("input", "removed", "renamed", "arguments")
    for call in recorded.calls:
        if call.method != _USES[change.of] or not _is_about(call, change):
            continue
        problem = _problem(call, change, now) if is_of_input else None
        yield TouchedCall(call.path, call.answer, call.what, problem)


def _is_about(call: McpCall, change: Change) -> bool:
    if change.of == "resource template":
        uri = call.parameters.get("uri")
        return isinstance(uri, str) and uri.startswith(change.name.partition("{")[0])
    return call.parameters.get("name") == change.name


def _problem(call: McpCall, change: Change, now: Offer) -> str | None:
    entry = now.lists.get(change.of, {}).get(change.name)
    if entry is None:
        return f"there is no such {change.of} any more"
    return problem_of_arguments(call.arguments, entry["inputSchema"]) if "inputSchema" in entry else None
