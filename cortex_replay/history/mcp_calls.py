"""The recorded calls to MCP servers, each with what was asked, when, and what the server said."""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.history.origins import run_in, scopes_with, seconds_in
from cortex_replay.mcp.messages import TOOLS_CALL
from cortex_replay.mcp.questions import server_in
from cortex_replay.store import Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import bindings_in
from cortex_replay.store.reader import StoredExchange
from cortex_replay.store.tool_calls import StoredCall

__all__ = [
    "Cause",
    "McpCall",
    "answers_to",
    "read_mcp_calls",
    "stored_mcp_calls",
]

_FOLDER: Final = "/exchanges/mcp/"
_ENDS: Final = ("result", "error", "cancelled")


class Cause(NamedTuple):
    """The tool call of a model that caused a call."""

    model: str
    prompt_hash: str
    answer: int
    """Which of the answers to the prompt, from 1."""
    tool_call: int
    """Which of the tool calls of the answer, from 1."""
    id: str | None = None
    """The provider's name for the tool call."""


@dataclass(frozen=True, slots=True)
class McpCall:
    """One call of a server, or one notification to it that it said something after."""

    server: str
    method: str
    parameters: dict[str, JsonValue]
    """As they are stored: without what varies, with placeholders for bound values."""
    key: str
    path: str
    """The file, as the index names it."""
    answer: int
    """Which of the answers to its key, from 1."""
    messages: tuple[dict[str, JsonValue], ...]
    """What was said, in order, as the recording holds it."""
    at: float | None
    """When it was asked, in seconds since 1970; ``None`` if that is not known."""
    run: str
    scopes: tuple[str, ...]
    """Whose call it was, where it is not everybody's."""
    cause: Cause | None
    order: int = 0
    """Its number among the calls of its scope that are recorded as they are, for those of one moment."""
    bindings: tuple[str, ...] = ()

    @property
    def tool(self) -> str | None:
        """The tool that is called, if one is."""
        name = self.parameters.get("name") if self.method == TOOLS_CALL else None
        return name if isinstance(name, str) else None

    @property
    def arguments(self) -> JsonValue:
        """What the tool, or the prompt, is called with."""
        return self.parameters.get("arguments")

    @property
    def end(self) -> tuple[str, JsonValue] | None:
        """How it ended: ``result``, ``error`` or ``cancelled``, and what stands there. A notification has no
        end, and a call whose client left none either."""
        for message in self.messages:
            for name in _ENDS:
                if name in message:
                    return name, message[name]
        return None

    @property
    def answered_ms(self) -> int | None:
        """How long the server took, where it answered."""
        for message in self.messages:
            at_ms = message.get("at_ms")
            if any(name in message for name in _ENDS) and isinstance(at_ms, int):
                return at_ms
        return None

    @property
    def what(self) -> str:
        """What is asked, on one line: ``read_file(path="a.txt")``, ``resources/read demo://1``."""
        return _describe(self.method, self.parameters)

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "server": self.server,
            "method": self.method,
            "tool": self.tool,
            "parameters": self.parameters,
            "key": self.key,
            "path": self.path,
            "answer": self.answer,
            "run": self.run,
            "asked_at": self.at,
            "answered_ms": self.answered_ms,
            "scopes": list(self.scopes),
            "bindings": list(self.bindings),
            "cause": None if self.cause is None else self.cause._asdict(),
            "messages": list(self.messages),
        }


def read_mcp_calls(store: Store, *, damaged: list[Finding] | None = None) -> list[McpCall]:
    """Every recorded call to an MCP server, in the order in which they were asked.

    Args:
        store: Where from.
        damaged: Gets what is wrong with files that are not what the index says, which are left out then.

    Raises:
        FixtureIntegrityFailed: A file is not what the index says.
    """
    scopes: dict[str, list[str]] = {}
    first: dict[str, StoredExchange] = {}
    for stored in store.list_exchanges():
        first.setdefault(stored.path, stored)
        scopes.setdefault(stored.path, []).extend([stored.scope] if stored.scope else [])
    calls: list[McpCall] = []
    for stored in first.values():
        try:
            exchange = store.exchange(stored.key, stored.scope)
        except FixtureIntegrityFailed as error:
            if damaged is None:
                raise
            damaged += error.issues
            continue
        if exchange is not None and (server := server_in(exchange.request)) is not None:
            calls += _calls_in(exchange, server, stored, tuple(scopes[stored.path]))
    return sorted(
        calls, key=lambda call: (call.at is None, call.at or 0.0, call.order, call.path, call.answer)
    )


def answers_to(store: Store, stored: StoredExchange) -> list[McpCall]:
    """What one recording holds: each answer to equal calls, in order.

    Raises:
        FixtureIntegrityFailed: Its file is not what the index says.
    """
    exchange = store.exchange(stored.key, stored.scope)
    server = None if exchange is None else server_in(exchange.request)
    if exchange is None or server is None:
        return []
    return _calls_in(exchange, server, stored, (stored.scope,) if stored.scope else ())


def stored_mcp_calls(store: Store, *, without: AbstractSet[str] = frozenset()) -> list[StoredCall]:
    """Where the recorded calls to MCP servers stand. They have a folder of their own, so that nothing else
    has to be read. A file that is not what the index says is left out.

    Args:
        store: Where to look.
        without: Keys of those that are of no interest.
    """
    found: list[StoredCall] = []
    for stored in store.list_exchanges():
        if stored.key in without or _FOLDER not in f"/{stored.path}":
            continue
        try:
            exchange = store.exchange(stored.key, stored.scope)
        except FixtureIntegrityFailed:
            continue
        request = None if exchange is None else exchange.request
        if request is not None and (server := server_in(request)) is not None:
            what = _describe(str(request["path"]), _parameters_in(request))
            found.append(StoredCall(server, what, stored.key, stored.path, stored.scope))
    return found


def _describe(method: str, parameters: Mapping[str, JsonValue]) -> str:
    """A call on one line."""
    match method, parameters:
        case "tools/call", {"name": str(name), **rest}:
            return f"{name}({_named(rest.get('arguments'))})"
        case "prompts/get", {"name": str(name), **rest}:
            return f"{method} {name}({_named(rest.get('arguments'))})"
        case _, {"uri": str(uri)}:
            return f"{method} {uri}"
        case _, {"cursor": str(cursor)}:
            return f"{method} from {cursor}"
        case "logging/setLevel", {"level": str(level)}:
            return f"{method} {level}"
    return method


def _named(arguments: JsonValue) -> str:
    if not isinstance(arguments, dict):
        return "" if arguments is None else compact(arguments)
    return ", ".join(f"{name}={compact(value)}" for name, value in arguments.items())


def _parameters_in(request: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    body = request.get("body")
    return body if isinstance(body, dict) else {}


def _calls_in(
    exchange: Exchange, server: str, stored: StoredExchange, scopes: tuple[str, ...]
) -> list[McpCall]:
    request = exchange.request or {}
    owner = (exchange.meta or {}).get("scope")
    calls = []
    for number, wire in enumerate(exchange.wires, start=1):
        meta, messages = wire.get("meta"), wire.get("messages")
        meta = meta if isinstance(meta, dict) else {}
        order = meta.get("call")
        call = McpCall(
            server=server,
            method=str(request.get("path")),
            parameters=_parameters_in(request),
            key=stored.key,
            path=stored.path,
            answer=number,
            messages=tuple(entry for entry in messages if isinstance(entry, dict))
            if isinstance(messages, list)
            else (),
            at=seconds_in(meta, "asked_at"),
            run=run_in(meta),
            scopes=scopes_with(owner, scopes),
            cause=_cause_in(meta.get("cause")),
            order=order if isinstance(order, int) else 0,
            bindings=bindings_in(exchange.meta),
        )
        calls.append(call)
    return calls


def _cause_in(value: JsonValue) -> Cause | None:
    match value:
        case {
            "model": str(model),
            "prompt_hash": str(prompt_hash),
            "answer": int(answer),
            "tool_call": int(number),
            **rest,
        }:
            found = rest.get("id")
            return Cause(model, prompt_hash, answer, number, found if isinstance(found, str) else None)
    return None
