"""One exchange: a recorded HTTP call that is not a completion.

Two kinds share a shape. A *failure* stands under a fixture's key and says what answer ``n`` was
instead of a completion. An *opaque* call (embeddings, token counts, model lists) stands under the
hash of its own request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, cast

from cortex_replay.canonical import JsonValue, exchange_bytes
from cortex_replay.errors import ResponseParse
from cortex_replay.hashing import blake3_hex, is_digest
from cortex_replay.mcp.questions import MCP, STANDS_ALONE, server_in
from cortex_replay.mcp.script_form import problem_of_script
from cortex_replay.mcp.scripts import is_script
from cortex_replay.store.fixture import FixtureKey
from cortex_replay.store.fixture_json import FixtureError, read_document, render_document
from cortex_replay.store.frames import check_frames

__all__ = ["Exchange", "parse_exchange", "render_exchange"]

_LOWEST_STATUS: Final = 200
"""Those below do not end a call."""
_HIGHEST_STATUS: Final = 599


@dataclass(frozen=True, slots=True)
class Exchange:
    """A parsed exchange: either ``match`` and ``n`` are set (a failure), or ``key`` is (opaque)."""

    wire: dict[str, JsonValue]
    """What was answered: ``status``, ``headers``, and one of ``body``, ``body_base64``, ``events`` and
    ``frames``; or ``messages`` to an MCP call."""
    match: FixtureKey | None = None
    n: int | None = None
    key: str | None = None
    request: dict[str, JsonValue] | None = None
    """What was asked, of an opaque one: ``upstream``, ``method``, ``path``, ``query`` and ``body``."""
    then: tuple[dict[str, JsonValue], ...] = ()
    """What the calls after the first were answered, of an opaque one."""
    meta: dict[str, JsonValue] | None = None
    """For people and reports; ``scope`` says who recorded it."""

    @classmethod
    def failure(cls, key: FixtureKey, n: int, wire: dict[str, JsonValue]) -> Exchange:
        """The answer ``n`` (from 1) to a key, which was an error."""
        return cls(wire, match=FixtureKey(*key), n=n)

    @property
    def wires(self) -> tuple[dict[str, JsonValue], ...]:
        """All that was answered, in the order of the calls. One alone answers every call."""
        return (self.wire, *self.then)

    def apart(self) -> tuple[Exchange, ...]:
        """Each of its answers as an exchange by itself."""
        return tuple(replace(self, wire=wire, then=()) for wire in self.wires)

    @property
    def row_key(self) -> tuple[str | None, str | None, str | None, str | None]:
        """What stands in its row after path and hash: model, prompt_hash, n, key."""
        if self.match is None:
            return None, None, None, self.key
        return *self.match, str(self.n), None


def parse_exchange(data: bytes) -> Exchange:
    """Read one exchange; an opaque one gets its key from its own request.

    Raises:
        FixtureError: The bytes are not JSON, or the JSON is not an exchange.
    """
    document = read_document(data)
    request = None if "request_match" in document else document.get("request")
    wire = _wire(document.get("wire"), "wire", request)
    meta = document.get("meta")
    if meta is not None and not isinstance(meta, dict):
        raise FixtureError("meta: expected an object")
    if "request_match" in document:
        return replace(_failure(document, wire), meta=meta)
    return replace(_opaque(document, wire), then=_then(document.get("then"), request), meta=meta)


def _wire(wire: JsonValue, where: str, request: JsonValue) -> dict[str, JsonValue]:
    if isinstance(wire, dict) and (is_script(wire) or _is_call(request)):
        _check_script(wire, where, request)
        return wire
    if isinstance(wire, dict) and "frames" in wire:
        check_frames(wire, request)
        return wire
    status = wire.get("status") if isinstance(wire, dict) else None
    if not isinstance(wire, dict) or not isinstance(status, int):
        raise FixtureError(f"{where}: expected an object with a status")
    if isinstance(status, bool) or not _LOWEST_STATUS <= status <= _HIGHEST_STATUS:
        raise FixtureError(f"{where}: expected a status from {_LOWEST_STATUS} to {_HIGHEST_STATUS}")
    if sum(name in wire for name in ("body", "body_base64", "events")) != 1:
        raise FixtureError(f"{where}: expected one of body, body_base64 and events")
    _refuse_odd_events(wire.get("events"))
    return wire


def _is_call(request: JsonValue) -> bool:
    return isinstance(request, dict) and request.get("method") == MCP


def _check_script(wire: dict[str, JsonValue], where: str, request: JsonValue) -> None:
    asked = request if isinstance(request, dict) else {}
    path, is_known = asked.get("path"), asked.get("query", []) in ([], STANDS_ALONE)
    if server_in(asked) is None or not isinstance(path, str) or not isinstance(asked.get("body"), dict):
        raise FixtureError(f"request: expected the method {MCP}, a server, and an object as body")
    if not is_known:
        raise FixtureError("request.query: expected none, or that the call belongs to no session")
    if problem := problem_of_script(wire, path):
        raise FixtureError(f"{where}.{problem}")


def _then(value: JsonValue, request: JsonValue) -> tuple[dict[str, JsonValue], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise FixtureError("then: expected a list")
    wires = []
    for number, item in enumerate(value):
        if not isinstance(item, dict):
            raise FixtureError(f"then[{number}]: expected an object")
        wires.append(_wire(item.get("wire"), f"then[{number}].wire", request))
    return tuple(wires)


def _refuse_odd_events(events: JsonValue) -> None:
    """Refuse events that are neither text nor messages whose bytes can be made."""
    for event in events if isinstance(events, list) else ():
        if not isinstance(event, dict) or not isinstance(event.get("text"), str):
            from cortex_replay.wire.recording import event_bytes  # noqa: PLC0415 - most exchanges need no codec

            try:
                event_bytes(event)
            except ResponseParse as error:
                raise FixtureError(f"wire: {error}") from None


def _failure(document: dict[str, JsonValue], wire: dict[str, JsonValue]) -> Exchange:
    match, n = document["request_match"], document.get("n")
    if not isinstance(match, dict):
        raise FixtureError("request_match: expected an object")
    model, prompt_hash = match.get("model"), match.get("prompt_hash")
    if not isinstance(model, str) or not isinstance(prompt_hash, str) or not is_digest(prompt_hash):
        raise FixtureError("request_match: expected a model and a hash of 64 lower-case hex digits")
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise FixtureError("n: expected a whole number from 1")
    return Exchange(wire, match=FixtureKey(model, prompt_hash), n=n)


def _opaque(document: dict[str, JsonValue], wire: dict[str, JsonValue]) -> Exchange:
    request = document.get("request")
    if not isinstance(request, dict):
        raise FixtureError("expected request_match or request")
    texts = tuple(request.get(name) for name in ("upstream", "method", "path"))
    query = request.get("query", [])
    if not isinstance(query, list) or not all(isinstance(text, str) for text in texts):
        raise FixtureError("request: expected the texts upstream, method and path, and a list query")
    pairs = []
    for pair in query:
        match pair:
            case [str() as name, str() as value]:
                pairs.append((name, value))
            case _:
                raise FixtureError("request.query: expected pairs of texts")
    upstream, method, path = cast("tuple[str, str, str]", texts)
    key = blake3_hex(exchange_bytes(upstream, method, path, pairs, request.get("body")))
    return Exchange(wire, key=key, request=request)


def render_exchange(exchange: Exchange) -> bytes:
    """The bytes of an exchange, in the one form in which this project writes it."""
    document: dict[str, Any] = {}
    if exchange.match is not None:
        document = {"request_match": exchange.match._asdict(), "n": exchange.n}
    else:
        document = {"request": exchange.request}
    document["wire"] = exchange.wire
    if exchange.then:
        document["then"] = [{"wire": wire} for wire in exchange.then]
    if exchange.meta is not None:
        document["meta"] = exchange.meta
    return render_document(document)
