"""The MCP servers that a run can reach over HTTP, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.engine.http.relay import Relay
from cortex_replay.engine.http.upstreams import UpstreamServer, is_mcp
from cortex_replay.engine.mcp.link import Connect, ServerLink
from cortex_replay.errors import ConfigError, Transport
from cortex_replay.mcp.questions import UPSTREAM_PREFIX
from cortex_replay.run.mcp.http.server import ClientHeaders, HttpServer, HttpTransport

if TYPE_CHECKING:
    from cortex_replay.adapters.request_rate import RequestRate
    from cortex_replay.redact.redactor import Redactor

__all__ = ["HttpServers"]

_WITHOUT_LIMIT: Final = 2**62
"""A stream may go on for days; its events have a limit each, and its head a time."""
_FOREVER_MS: Final = 365 * 24 * 3600 * 1000
_MOST_AT_ONCE: Final = 1000


class HttpServers:
    """All of a run: those of its settings, those that the command line names, and those that are added.

    Args:
        settings: What is configured, without what the command line says.
        servers: What the command line says.
        environment: Where keys are.
        redactor_for: The redactor that learns the keys of clients.
        rate_of: How often a provider may be asked.
        timeout_ms: How long the head of an answer may take.
    """

    def __init__(
        self,
        settings: Settings,
        servers: Mapping[str, str],
        environment: Mapping[str, str],
        redactor_for: Callable[[], Redactor],
        rate_of: Callable[[str], RequestRate | None],
        timeout_ms: int,
    ) -> None:
        self._environment = environment
        self._timeout_ms = timeout_ms
        self._relay = Relay(
            {}, _FOREVER_MS, redactor_for, rate_of, max_answer=_WITHOUT_LIMIT, most_at_once=_MOST_AT_ONCE
        )
        self._by_name: dict[str, HttpServer] = {}
        for name, provider in settings.providers.items():
            if provider.kind == "mcp" and provider.base_url is not None:
                self._add(name, provider.base_url, provider=provider)
        for name, url in servers.items():
            if is_mcp(name, settings):
                self._add(name.removeprefix(UPSTREAM_PREFIX), url)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def add(
        self, name: str, url: str, headers: Mapping[str, str] | None = None, transport: HttpTransport = ""
    ) -> None:
        """Add a server that a client's own configuration names.

        Args:
            name: What recordings and clients of the gateway call it.
            url: Its endpoint.
            headers: What it gets with each request; it never reaches a recording.
            transport: Which one it has, if that is known.

        Raises:
            ConfigError: The URL is none.
        """
        self._add(name, url, headers, transport)

    def _add(
        self,
        name: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        transport: HttpTransport = "",
        provider: ProviderSettings | None = None,
    ) -> None:
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        except ValueError:
            is_url = False
        if not is_url:
            raise ConfigError(f"mcp:{name}", "is not an http or https URL without a user name")
        upstream = UpstreamServer(name, "mcp", f"{parts.scheme}://{parts.netloc}", provider, url=url)
        self._by_name[name] = HttpServer(
            upstream, self._relay, self._environment, headers or {}, transport, self._timeout_ms
        )

    def connect(self, name: str, client: ClientHeaders) -> Connect:
        """What reaches a server."""

        async def connect() -> ServerLink:
            from cortex_replay.run.mcp.http.link import HttpLink  # noqa: PLC0415 - replay needs none

            server = self._by_name.get(name)
            if server is None:
                known = ", ".join(self.names) or "none"
                how = f"name it with --upstream mcp:{name}=URL, or as a provider of the kind mcp"
                raise Transport(f"nothing says where the MCP server {name} is (known: {known}); {how}")
            return HttpLink(server, client)

        return connect

    async def aclose(self) -> None:
        await self._relay.aclose()
