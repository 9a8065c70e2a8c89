"""Where a URL leads that a client has chosen itself: to a configured provider, or to another server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cortex_replay.config.servers import Server
from cortex_replay.engine.http.model_calls import model_call
from cortex_replay.engine.http.routes import Route, unprefixed_upstream
from cortex_replay.engine.http.upstreams import Upstreams, UpstreamServer
from cortex_replay.hosts import LOCAL, normal_host

__all__ = ["Destination", "Destinations"]

_PORTS: Final = {"https": 443, "http": 80}


class Destination(NamedTuple):
    """Who a call is for."""

    route: Route
    server: UpstreamServer | None = None
    """The server that the client chose, where it is none of the configured providers."""


class _Place(NamedTuple):
    host: str
    """In its one form."""
    port: int
    base: str
    """The path that all of its paths begin with."""
    upstream: UpstreamServer


class Destinations:
    """The servers of all providers: where they are configured, and where their own service is."""

    def __init__(self, upstreams: Upstreams) -> None:
        found: dict[tuple[str, int, str, str], _Place] = {}
        for upstream in upstreams.everywhere:
            parts = urlsplit(upstream.base_url)
            host, port = normal_host(parts.hostname or ""), parts.port or _PORTS.get(parts.scheme, 0)
            base = parts.path.rstrip("/")
            found.setdefault((host, port, base, upstream.name), _Place(host, port, base, upstream))
        self._places = sorted(found.values(), key=lambda place: -len(place.base))

    def find(self, server: Server, method: str, path: str, header: Callable[[str], str]) -> Destination:
        """Who a call to a server is for. What no provider is known to answer is recorded as it is.

        Args:
            server: As the client addressed it.
            method: Of the request.
            path: Without the query.
            header: The value of a header by its name in lower case; empty where there is none.
        """
        if found := self._upstreams_at(server, path):
            wanted = unprefixed_upstream(found[0][1], header, [upstream.name for upstream, _ in found])
            upstream, rest = next((one for one in found if one[0].name == wanted), found[0])
            return Destination(Route.to(upstream.name, upstream.kind, method, rest or "/"))
        authority = str(server).partition("://")[2]
        looks_like = model_call(method, path, header)
        if looks_like is None:
            stranger = UpstreamServer(str(server), "http", str(server))
            return Destination(Route(stranger.name, path, None), stranger)
        stranger = looks_like.server(server.scheme, authority)
        return Destination(looks_like.route(stranger, path), stranger)

    def _upstreams_at(self, server: Server, path: str) -> list[tuple[UpstreamServer, str]]:
        """The providers at a server, with the path below each: one server may stand for several."""
        host = normal_host(server.host)
        return [
            (place.upstream, path[len(place.base) :])
            for place in self._places
            if place.port == server.port
            and (place.host == host or (place.host in LOCAL and host in LOCAL))
            and (path == place.base or path.startswith(f"{place.base}/") or not place.base)
        ]
