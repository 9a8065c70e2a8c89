"""Where MCP sessions are opened, whatever carries them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cortex_replay.engine.core import RunCore
from cortex_replay.errors import ConfigError

if TYPE_CHECKING:
    from cortex_replay.engine.mcp.link import Connect, SendToClient
    from cortex_replay.engine.mcp.session import Session
    from cortex_replay.run.mcp.http.server import HttpTransport
    from cortex_replay.run.mcp.http.servers import HttpServers

__all__ = ["Desk"]


class Desk:
    """Opens the sessions of one run.

    Args:
        run: Whose scopes count the calls.
        http: The servers that are reached over HTTP; :meth:`Run.desk` gives one with those of the run.
    """

    def __init__(self, run: RunCore, http: HttpServers | None = None) -> None:
        self._run = run
        self._http = http

    @property
    def http(self) -> HttpServers:
        """The servers that are reached over HTTP.

        Raises:
            ConfigError: This desk has none.
        """
        if self._http is None:
            raise ConfigError("mcp", "this run reaches no server over HTTP")
        return self._http

    def add_server(
        self, name: str, url: str, headers: Mapping[str, str] | None = None, transport: HttpTransport = ""
    ) -> None:
        """Let clients of the gateway reach one more server, at ``/mcp/NAME``.

        Args:
            name: What recordings call it.
            url: Its endpoint.
            headers: What it gets with each request; no recording holds them.
            transport: ``http`` or ``sse``, where that is known.
        """
        self.http.add(name, url, headers, transport)

    def open_session(self, server: str, connect: Connect, send: SendToClient, scope: str = "") -> Session:
        """A session with a server, in the running loop.

        Args:
            server: The name of the server.
            connect: Starts or reaches the real one; never called in replay.
            send: Takes what the client gets.
            scope: The name of the scope whose calls these are.
        """
        from cortex_replay.engine.mcp.session import Session  # noqa: PLC0415 - most runs have no session

        return Session(self._run.counting_scope(scope), server, connect, send)
