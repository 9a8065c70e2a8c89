"""A client that shakes hands otherwise than the one that recorded: a newer one, or one that can do more.

It gets the recorded handshake of the same server whose protocol it knows. A client proposes the newest
version that it speaks, and takes any older one that it still speaks; so an answer with a version up to the
proposed one will do, and the newest of these is best. A newer one would only end the session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from weakref import WeakKeyDictionary

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import LlmError
from cortex_replay.mcp.messages import INITIALIZE
from cortex_replay.mcp.questions import UPSTREAM_PREFIX
from cortex_replay.store import Store
from cortex_replay.store.exchange import Exchange

__all__ = ["has_handshake", "recorded_handshake"]

_FOUND: Final[WeakKeyDictionary[Store, dict[tuple[str, str], list[str]]]] = WeakKeyDictionary()


def recorded_handshake(store: Store, owner: str, asked: dict[str, JsonValue]) -> Exchange | None:
    """The recorded ``initialize`` that comes nearest to one, if the client can live with its answer."""
    proposed = _version(asked.get("body"))
    found: tuple[bool, str, str] | None = None
    best: Exchange | None = None
    for exchange in _handshakes(store, owner, str(asked["upstream"])):
        answered = _answered_version(exchange)
        if not answered or answered > proposed:
            continue
        rank = _version((exchange.request or {}).get("body")) == proposed, answered, exchange.key or ""
        if found is None or rank > found:
            found, best = rank, exchange
    return best


def has_handshake(store: Store, owner: str, server: str) -> bool:
    """Whether an ``initialize`` of a server is recorded."""
    return next(_handshakes(store, owner, UPSTREAM_PREFIX + server), None) is not None


def _handshakes(store: Store, owner: str, upstream: str) -> Iterator[Exchange]:
    for key in _keys(store, owner, upstream):
        try:
            found = store.exchange(key, owner)
        except LlmError:  # the error comes when it is asked for
            continue
        match found:
            case Exchange(request={"upstream": str(there), "path": str(path)}) if (
                there == upstream and path == INITIALIZE
            ):
                yield found


def _keys(store: Store, owner: str, upstream: str) -> list[str]:
    """The keys of what may be handshakes with a server: all files are read for them, so that is done once."""
    found = _FOUND.setdefault(store, {})
    keys = found.get((owner, upstream))
    if not keys or any(store.exchange_row(key, owner) is None for key in keys):
        wanted = [orjson.dumps(upstream), orjson.dumps(INITIALIZE)]
        keys = [key for (_, key), data in store.scan_exchanges(owner) if all(text in data for text in wanted)]
        found[owner, upstream] = keys
    return keys


def _version(body: JsonValue) -> str:
    found = body.get("protocolVersion") if isinstance(body, dict) else None
    return found if isinstance(found, str) else ""


def _answered_version(exchange: Exchange) -> str:
    messages = exchange.wire.get("messages")
    for entry in messages if isinstance(messages, list) else ():
        if isinstance(entry, dict) and "result" in entry:
            return _version(entry["result"])
    return ""
