"""What becomes of an MCP call before a recording is looked for: it may be refused, go wrong, or go to the
real server in every mode."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from cortex_replay.config.mcp import McpSettings, Policy
from cortex_replay.mcp.messages import (
    TOOLS_CALL,
    Message,
    error_message,
    parameters_of,
    render_message,
    request_id,
)

__all__ = ["REFUSED", "CallRules", "Interruption", "Strike", "tool_in"]

_MOST_LISTED: Final = 1000
_LONGEST_NAME: Final = 200
REFUSED: Final = -32011
"""The code of an error that says that a policy refuses the call."""


class Interruption(NamedTuple):
    """What a client gets instead of an answer."""

    frame: bytes | None = None
    """Without a line end; ``None`` for a silence that lasts until the client gives up."""
    closes: bool = False
    """Whether the connection ends behind it."""
    is_policy: bool = False
    """Whether the settings want it; else it goes wrong on demand."""


Strike = Callable[[str, str, Message], Interruption | None]
"""What goes wrong with the next call: of a scope, to a server, as the client sent it."""


def tool_in(message: Message) -> str | None:
    """The name of the tool that a message calls, if it calls one."""
    name = parameters_of(message).get("name") if message.get("method") == TOOLS_CALL else None
    return name if isinstance(name, str) else None


class CallRules:
    """The policies and the faults of one run.

    Args:
        servers: What is configured, by the name of a server.
    """

    def __init__(self, servers: Mapping[str, McpSettings] | None = None) -> None:
        self._servers = dict(servers or {})
        self._strikes: list[Strike] = []
        self._by_scope: dict[str, Strike] = {}
        self._lock = threading.Lock()
        self.called: list[tuple[str, str]] = []
        """The server and the name of each tool that was called, in order, whatever became of it."""

    def add_faults(self, strike: Strike) -> None:
        """Let calls of all scopes go wrong."""
        self._strikes.append(strike)

    def set_faults(self, scope: str, strike: Strike | None) -> None:
        """Let calls of one scope go wrong in ways of its own, or in those of all again."""
        if strike is None:
            self._by_scope.pop(scope, None)
        else:
            self._by_scope[scope] = strike

    def may_pass(self, server: str) -> bool:
        """Whether calls of a server may go to the real one in every mode."""
        settings = self._servers.get(server)
        return settings is not None and "live" in (settings.policy, *settings.tools.values())

    def decide(self, scope: str, server: str, message: Message) -> Policy | Interruption:
        """What becomes of a message of a client.

        Args:
            scope: Whose it is.
            server: The name of the server.
            message: A request or a notification.
        """
        tool = tool_in(message)
        if tool is not None:
            with self._lock:
                if len(self.called) < _MOST_LISTED:
                    self.called.append((server, tool[:_LONGEST_NAME]))
        settings = self._servers.get(server)
        policy = "replay" if settings is None else settings.policy_of(tool)
        if policy == "refuse":
            return _refusal(server, tool, message)
        if tool is not None:
            own = self._by_scope.get(scope)
            for strike in [own] if own is not None else self._strikes:
                if (wrong := strike(scope, server, message)) is not None:
                    return wrong
        return policy


def _refusal(server: str, tool: str | None, message: Message) -> Interruption:
    about = request_id(message)
    if about is None:
        return Interruption(b"", is_policy=True)
    what = f"the tool {tool!r} of the server {server!r}" if tool is not None else f"the server {server!r}"
    reason = f"cortex-replay: the settings refuse {what} (policy in [tool.cortex-replay.mcp.{server}])"
    if tool is None:
        said = error_message(about, REFUSED, reason, {"type": "refused"})
    else:
        said = {
            "jsonrpc": "2.0",
            "id": about,
            "result": {"content": [{"type": "text", "text": reason}], "isError": True},
        }
    return Interruption(render_message(said), is_policy=True)
