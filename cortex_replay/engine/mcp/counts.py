"""How many calls MCP servers got, and what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal

from cortex_replay.errors import InvalidRequest

__all__ = ["CallKind", "ServerCounts", "merge_counts", "read_counts", "server_facts", "server_rows"]

CallKind = Literal["hits", "missed", "recorded", "live", "failed"]
_MOST: Final = 10**12


@dataclass(slots=True)
class ServerCounts:
    """The calls of one server. They are among those that the ledger counts."""

    hits: int = 0
    missed: int = 0
    recorded: int = 0
    live: int = 0
    """Calls that reached the real server."""
    failed: int = 0
    """Of these, those that brought no answer."""

    def add(self, other: ServerCounts) -> None:
        for name in _NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_NAMES: Final = tuple(field.name for field in fields(ServerCounts))


def merge_counts(counts: Iterable[Mapping[str, ServerCounts]]) -> dict[str, ServerCounts]:
    """What several processes counted, together."""
    merged: dict[str, ServerCounts] = {}
    for one in counts:
        for server, counted in one.items():
            merged.setdefault(server, ServerCounts()).add(counted)
    return merged


def read_counts(document: object) -> dict[str, ServerCounts]:
    """What another process counted, as it reports it.

    Raises:
        InvalidRequest: It is no such report.
    """
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InvalidRequest("servers", "expected what each server was asked")
    return {str(server): _read(counted) for server, counted in document.items()}


def _read(document: object) -> ServerCounts:
    counts = document if isinstance(document, dict) else {"": None}
    if not all(name in _NAMES and _is_count(count) for name, count in counts.items()):
        raise InvalidRequest("servers", "expected counts of calls")
    return ServerCounts(**counts)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


def server_facts(servers: Mapping[str, ServerCounts]) -> Iterator[str]:
    """What the servers did, for a line of text; nothing where none was asked."""
    for server, counted in sorted(servers.items()):
        yield f"{server}: {_facts(counted)}"


def server_rows(servers: Mapping[str, ServerCounts]) -> dict[str, str]:
    """The same for a table, by name."""
    return {f"MCP server {server}": _facts(counted) for server, counted in sorted(servers.items())}


def _facts(counted: ServerCounts) -> str:
    told = [f"{count} {_words(name, count)}" for name, count in asdict(counted).items() if count]
    return ", ".join(told) or "nothing"


def _words(name: str, count: int) -> str:
    if name == "missed":
        return "miss" if count == 1 else "misses"
    return "hit" if name == "hits" and count == 1 else name
