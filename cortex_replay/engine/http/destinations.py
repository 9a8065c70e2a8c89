"""Where a URL leads that a client has chosen itself: to a configured provider, or to another server."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cortex_replay.config.servers import Server
from cortex_replay.engine.http.model_calls import model_call
from cortex_replay.engine.http.other_calls import other_server
from cortex_replay.engine.http.routes import Route, unprefixed_upstream
from cortex_replay.engine.http.upstreams import Upstreams, UpstreamServer
from cortex_replay.hosts import LOCAL, normal_host

__all__ = ["Destination", "Destinations", "destinations_of"]

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
            if not upstream.base_url:
                continue
            parts = urlsplit(upstream.base_url)
            host, port = normal_host(parts.hostname or ""), parts.port or _PORTS.get(parts.scheme, 0)
            base = parts.path.rstrip("/")
            found.setdefault((host, port, base, upstream.name), _Place(host, port, base, upstream))
        self._places = sorted(found.values(), key=lambda place: -len(place.base))
        self.hosts = frozenset(place.host for place in self._places)
        """The names of their machines."""

    def provider_route(
        self, host: str, port: int, method: str, path: str, header: Callable[[str], str]
    ) -> Route | None:
        """Where a call goes that is addressed to a provider; ``None`` for most of the world.

        Args:
            host: In its one form.
            port: Of the server.
            method: Of the request.
            path: Without the query.
            header: The value of a header by its name in lower case; empty where there is none.
        """
        found = [
            place
            for place in self._places
            if place.port == port
            and (place.host == host or (place.host in LOCAL and host in LOCAL))
            and (path == place.base or path.startswith(f"{place.base}/") or not place.base)
        ]
        if not found:
            return None
        place = found[0]
        if len(found) > 1:
            below = path[len(place.base) :]
            wanted = unprefixed_upstream(below, header, [one.upstream.name for one in found])
            place = next((one for one in found if one.upstream.name == wanted), place)
        return Route.to(place.upstream.name, place.upstream.kind, method, path[len(place.base) :] or "/")

    def find(self, server: Server, method: str, path: str, header: Callable[[str], str]) -> Destination:
        """Who a call to a server is for. What no provider is known to answer is recorded as it is; see
        :meth:`provider_route`."""
        route = self.provider_route(normal_host(server.host), server.port, method, path, header)
        if route is not None:
            return Destination(route)
        authority = str(server).partition("://")[2]
        looks_like = model_call(method, path, header)
        if looks_like is None:
            stranger = other_server(server.scheme, authority)
            return Destination(Route(stranger.name, path, None), stranger)
        stranger = looks_like.server(server.scheme, authority)
        return Destination(looks_like.route(stranger, path), stranger)


@lru_cache(maxsize=16)  # every test of a run has the same
def destinations_of(upstreams: Upstreams) -> Destinations:
    """The destinations of clients that choose their servers themselves."""
    return Destinations(upstreams)
