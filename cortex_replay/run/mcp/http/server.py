"""An MCP server at a URL, and what a client's headers add to what is sent there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from cortex_replay.config.servers import shown_url
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.relay import Relay
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.http.upstreams import UpstreamServer

if TYPE_CHECKING:
    from cortex_replay.adapters.http import RelayReply

__all__ = ["ClientHeaders", "HttpServer", "HttpTransport"]

HttpTransport = Literal["", "http", "sse"]
"""Streamable HTTP, the older one, or whichever the server has."""

_OWN: Final = frozenset(
    ["accept", "content-type", "last-event-id", "mcp-session-id", "mcp-protocol-version", "mcp-method"]
)
"""Headers of a client that are about its own connection."""


class ClientHeaders:
    """The headers that a client brings, as they were in its latest request: a token may be renewed."""

    def __init__(self, headers: Iterable[tuple[str, str]] = ()) -> None:
        self.latest = list(headers)
        self.is_forgotten = False
        """Whether the server does not know the session any more."""

    def beside(self, *, routing: Mapping[str, str], has_routing: bool) -> dict[str, str]:
        """What goes along with a message, beside what its transport says.

        Args:
            routing: What the message itself says in headers.
            has_routing: Whether it says anything; only then may the client add to it.
        """
        brought = {
            name: value
            for name, value in self.latest
            if name not in _OWN and (has_routing or not name.startswith("mcp-"))
        }
        return {**routing, **brought}


class HttpServer:
    """A server, and the way to it.

    Args:
        upstream: Who it is, with its key.
        relay: Who sends.
        environment: Where keys are.
        headers: What it gets with each request, beside what a client brings.
        transport: Which one it has, if that is known.
        timeout_ms: How long the head of an answer may take.
    """

    def __init__(
        self,
        upstream: UpstreamServer,
        relay: Relay,
        environment: Mapping[str, str],
        headers: Mapping[str, str],
        transport: HttpTransport,
        timeout_ms: int,
    ) -> None:
        self.url = upstream.url
        self.transport = transport
        self.timeout_ms = timeout_ms
        self._upstream = upstream
        self._relay = relay
        self._environment = environment
        self._given = {name.lower(): value for name, value in headers.items()}
        parts = urlsplit(upstream.url)
        self._target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"

    @property
    def shown(self) -> str:
        """The server as it may be shown."""
        return shown_url(self.url)

    def send(
        self, method: str, headers: Mapping[str, str], body: bytes, target: str | None = None
    ) -> AbstractAsyncContextManager[RelayReply]:
        """Whatever the server answers; see :meth:`Relay.send`."""
        path, _, query = (target or self._target).partition("?")
        route = Route(self._upstream.name, path, None)
        given = list({**headers, **self._given}.items())
        return self._relay.send(Call(method, route, query, given, body, self._upstream), self._environment)
