"""Where sessions of MCP are opened, whatever carries them."""

from __future__ import annotations

from cortex_replay.engine.core import RunCore
from cortex_replay.engine.mcp.link import Connect, SendToClient
from cortex_replay.engine.mcp.session import Session

__all__ = ["Desk"]


class Desk:
    """Opens the sessions of one run.

    Args:
        run: Whose scopes count the calls.
    """

    def __init__(self, run: RunCore) -> None:
        self._run = run

    def open_session(self, server: str, connect: Connect, send: SendToClient, scope: str = "") -> Session:
        """A session with a server, in the running loop.

        Args:
            server: The name of the server.
            connect: Starts or reaches the real one; never called in replay.
            send: Takes what the client gets.
            scope: The name of the scope whose calls these are.
        """
        return Session(self._run.counting_scope(scope), server, connect, send)
