"""What a server said to a call, as a recording holds it: a script, in the order in which it came.

``{"messages": [...]}`` has entries, each with ``at_ms`` since the call and one of these: ``notification`` or
``request`` (of the server, with ``method`` and ``params``), ``answer`` (of the client, ``to`` the k-th
request of the script, with its ``result`` or ``error``), ``result`` or ``error`` (of the call), ``cancelled``
(by the client). There may be ``meta``, as a fixture has it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, cast

from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.messages import PROGRESS, Message, RequestId, parameters_of, request_id

__all__ = ["KINDS", "Script", "is_script", "problem_of_script"]

KINDS: Final = ("notification", "request", "answer", "result", "error", "cancelled")
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_MOST_BYTES: Final = 32 * 2**20


def is_script(wire: Mapping[str, JsonValue]) -> bool:
    """Whether it is a recording of a call of MCP."""
    return "messages" in wire


def problem_of_script(wire: Mapping[str, JsonValue]) -> str | None:
    """Why a recorded script cannot be played, if it cannot."""
    entries = wire.get("messages")
    if not isinstance(entries, list):
        return "messages: expected a list"
    unanswered: list[int] = []
    asked = ends = 0
    for number, entry in enumerate(entries):
        where = f"messages[{number}]"
        kind = _kind_of(entry)
        if kind is None:
            return f"{where}: expected at_ms from 0, and one of {', '.join(KINDS)}, an object"
        value = cast("dict[str, dict[str, JsonValue]]", entry)[kind]
        if kind in ("notification", "request") and not isinstance(value.get("method"), str):
            return f"{where}: expected a method"
        if kind == "request":
            asked += 1
            unanswered.append(asked)
        if kind == "answer":
            to = value.get("to")
            if to not in unanswered or isinstance(to, bool) or ("result" in value) == ("error" in value):
                return f"{where}: expected a result or an error, to a request before it"
            unanswered.remove(cast("int", to))
        ends += kind in ("result", "error", "cancelled")
        if ends > 1:
            return f"{where}: a call ends once"
    return None


def _kind_of(entry: JsonValue) -> str | None:
    """What an entry is, if it is one."""
    match entry:
        case {"at_ms": int(at_ms), **others} if (
            at_ms >= 0 and not isinstance(at_ms, bool) and len(others) == 1
        ):
            [(kind, value)] = others.items()
            return str(kind) if kind in KINDS and isinstance(value, dict) else None
    return None


class Script:
    """A script that is being taken down.

    Args:
        about: The id of the request that is answered; ``None`` for a notification of the client.
        token: What progress of it is reported under.
    """

    def __init__(self, about: RequestId | None, token: JsonValue = None) -> None:
        self._about = about
        self._token = token
        self._started = time.monotonic()
        self._entries: list[JsonValue] = []
        self._requests: dict[RequestId, int] = {}
        self._size = 0
        self.meta: dict[str, JsonValue] = {}

    @property
    def is_empty(self) -> bool:
        return not self._entries

    @property
    def is_too_large(self) -> bool:
        """Whether nothing of it can be stored."""
        return self._size > _MOST_BYTES

    def wire(self) -> dict[str, JsonValue]:
        """The script as it is stored."""
        return {"messages": [*self._entries], **({"meta": dict(self.meta)} if self.meta else {})}

    def notify(self, message: Message, size: int) -> None:
        """The server says something."""
        parameters = dict(parameters_of(message))
        if message.get("method") == PROGRESS and self.is_of_token(parameters.get("progressToken")):
            del parameters["progressToken"]
        meta = parameters.get("_meta")
        if isinstance(meta, dict) and self._about is not None and meta.get(SUBSCRIPTION) == self._about:
            parameters["_meta"] = {**meta, SUBSCRIPTION: None}
        said = {"params": parameters} if "params" in message else {}
        self._add("notification", {"method": message["method"], **said}, size)

    def ask(self, message: Message, size: int) -> None:
        """The server asks the client."""
        found = request_id(message)
        if found is not None:
            self._requests[found] = len(self._requests) + 1
        said = {"params": message["params"]} if "params" in message else {}
        self._add("request", {"method": message["method"], **said}, size)

    def answer(self, message: Message, size: int) -> None:
        """The client answers the server."""
        found = request_id(message)
        number = None if found is None else self._requests.get(found)
        if number is not None:
            self._add("answer", {"to": number, **_outcome(message)}, size)

    def has_asked(self, found: RequestId) -> bool:
        """Whether an answer of the client belongs here."""
        return found in self._requests

    def is_of_token(self, token: JsonValue) -> bool:
        """Whether progress that is reported under a token is that of this call."""
        return token is not None and token == self._token

    def end(self, message: Message, size: int) -> None:
        """The server answers the call."""
        [(name, value)] = _outcome(message).items()
        self._add(name, value, size)

    def cancel(self, reason: JsonValue) -> None:
        """The client gives the call up."""
        self._add("cancelled", {"reason": reason} if isinstance(reason, str) else {}, 0)

    def _add(self, kind: str, value: JsonValue, size: int) -> None:
        self._size += size
        if self.is_too_large:
            self._entries = []
        else:
            at_ms = round((time.monotonic() - self._started) * 1000)
            self._entries.append({"at_ms": at_ms, kind: value})


def _outcome(message: Message) -> dict[str, JsonValue]:
    name = "error" if "error" in message else "result"
    return {name: message[name]}
