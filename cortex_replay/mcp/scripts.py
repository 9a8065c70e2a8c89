"""What a server said to a call, as a recording holds it: a script, in the order in which it came.

``{"messages": [...]}`` has entries, each with ``at_ms`` since the call and one of these: ``notification`` or
``request`` (of the server, with ``method`` and ``params``), ``answer`` (of the client, ``to`` the k-th
request of the script, with its ``result`` or ``error``), ``result`` or ``error`` (of the call), ``cancelled``
(by the client). There may be ``meta``, as a fixture has it.

What names a request does so by number, since ids are another client's: a notification that cancels a request
of the server has ``to``, as an answer has; the subscription that a notification is for is the k-th that is
open.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.messages import (
    CANCELLED,
    PROGRESS,
    Message,
    RequestId,
    outcome_of,
    parameters_of,
    request_id,
)

__all__ = ["SUBSCRIPTION", "Script", "is_script", "subscription_of"]

SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
"""Under which a notification's ``_meta`` names the request that subscribed to it."""
_MOST_BYTES: Final = 32 * 2**20
_MOST_BEHIND: Final = 2**20
"""Of that, behind the end of a call: a server may go on and on."""
_ENTRY_BYTES: Final = 64
"""What an entry takes besides what it says."""


def is_script(wire: Mapping[str, JsonValue]) -> bool:
    """Whether it is a recording of an MCP call."""
    return "messages" in wire


def subscription_of(message: Mapping[str, JsonValue]) -> JsonValue:
    """The request that subscribed to a notification, if it says so."""
    parameters = message.get("params")
    meta = parameters.get("_meta") if isinstance(parameters, dict) else None
    return meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None


class Script:
    """A script that is being taken down.

    Args:
        token: What progress of the call is reported under.
    """

    def __init__(self, token: JsonValue = None) -> None:
        self._token = token
        self._started = time.monotonic()
        self._entries: list[JsonValue] = []
        self._requests: dict[RequestId, int] = {}
        self._asked = 0
        self._has_ended = False
        self._most = _MOST_BYTES
        self.size = 0
        """Of what it holds, in bytes."""
        self.is_too_large = False
        """Whether nothing of it can be stored."""
        self.is_cut = False
        """Whether more came behind its end than can be stored."""
        self.meta: dict[str, JsonValue] = {}

    @property
    def is_empty(self) -> bool:
        return not self._entries

    def wire(self) -> dict[str, JsonValue]:
        """The script as it is stored."""
        return {"messages": [*self._entries], **({"meta": dict(self.meta)} if self.meta else {})}

    def notify(self, message: Message, size: int, subscription: int | None = None) -> None:
        """The server says something.

        Args:
            message: The notification.
            size: Of its frame.
            subscription: Which of the open subscriptions it is for.
        """
        parameters = dict(parameters_of(message))
        said: dict[str, JsonValue] = {"method": message["method"]}
        if message["method"] == PROGRESS and self.is_of_token(parameters.get("progressToken")):
            parameters["progressToken"] = None
        cancelled = parameters.get("requestId")
        if (
            message["method"] == CANCELLED
            and isinstance(cancelled, str | int)
            and cancelled in self._requests
        ):
            said["to"] = self._requests[cancelled]
            del parameters["requestId"]
        meta = parameters.get("_meta")
        if isinstance(meta, dict) and subscription is not None:
            parameters["_meta"] = {**meta, SUBSCRIPTION: subscription}
        if "params" in message:
            said["params"] = parameters if isinstance(message["params"], dict) else message["params"]
        self._add("notification", said, size)

    def ask(self, message: Message, size: int) -> None:
        """The server asks the client."""
        found = request_id(message)
        said = {"params": message["params"]} if "params" in message else {}
        if self._add("request", {"method": message["method"], **said}, size) and found is not None:
            self._asked += 1  # an id may come twice
            self._requests[found] = self._asked

    def answer(self, message: Message, size: int) -> None:
        """The client answers the server."""
        found = request_id(message)
        number = None if found is None else self._requests.get(found)
        if number is not None:
            self._add("answer", {"to": number, **outcome_of(message)}, size)

    def is_of_token(self, token: JsonValue) -> bool:
        """Whether progress that is reported under a token is that of this call."""
        return token is not None and token == self._token

    def end(self, message: Message, size: int) -> None:
        """The server answers the call."""
        [(name, value)] = outcome_of(message).items()
        self._finish(name, value, size)

    def cancel(self, reason: JsonValue) -> None:
        """The client gives the call up."""
        self._finish("cancelled", {"reason": reason} if isinstance(reason, str) else {}, 0)

    def _finish(self, kind: str, value: JsonValue, size: int) -> None:
        self._add(kind, value, size)
        self._has_ended = True
        self._most = min(_MOST_BYTES, self.size + _MOST_BEHIND)

    def _add(self, kind: str, value: JsonValue, size: int) -> bool:
        """Whether there was room for it."""
        size += _ENTRY_BYTES
        if self.is_too_large or self.is_cut or self.size + size > self._most:
            if self._has_ended:
                self.is_cut = True
            else:
                self.is_too_large = True
                self._entries = []
            return False
        self.size += size
        at_ms = round((time.monotonic() - self._started) * 1000)
        self._entries.append({"at_ms": at_ms, kind: value})
        return True
