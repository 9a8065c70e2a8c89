"""The recorded calls to MCP servers, among the exchanges of a store."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from cortex_replay.mcp.questions import name_call, server_in
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.index.index import ScopedRow
from cortex_replay.store.store import Store

__all__ = ["StoredCall", "recorded_calls", "tool_call_keys"]


class StoredCall(NamedTuple):
    """The place of a recorded call, and what it asks in a few words."""

    server: str
    what: str
    key: str
    path: str
    scope: str = ""


def recorded_calls(store: Store) -> Iterator[tuple[StoredCall, Exchange]]:
    """Every recorded call, those of scopes, too.

    Raises:
        FixtureIntegrityFailed: A file is no longer what the index vouches for.
    """
    for scope in ("", *sorted(store.scopes)):
        for key, path in sorted(store.exchange_keys(scope).items(), key=itemgetter(1)):
            if scope and not isinstance(store.exchange_row(key, scope), ScopedRow):
                continue  # it is shared
            exchange = store.exchange(key, scope)
            server = server_in(exchange.request) if exchange is not None else None
            if exchange is not None and server is not None:
                yield StoredCall(server, name_call(exchange.request or {}), key, path, scope), exchange


def tool_call_keys(store: Store) -> frozenset[str]:
    """The keys of those that are shared."""
    return frozenset(call.key for call, _ in recorded_calls(store) if not call.scope)
