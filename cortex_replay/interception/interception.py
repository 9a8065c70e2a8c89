"""Which requests are intercepted, and what they are answered with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from cortex_replay.config import Settings
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.routes import Route, unprefixed_upstream
from cortex_replay.engine.http.upstreams import Upstreams, UpstreamServer
from cortex_replay.engine.scope import Scope
from cortex_replay.faults import Faults
from cortex_replay.hosts import LOCAL, normal_host

__all__ = ["Interception"]

_PORTS: Final = {"https": 443, "http": 80}


class _Origin(NamedTuple):
    host: str
    """In its one form."""
    port: int


class Interception:
    """The calls of one process to its model providers, answered by an engine.

    Args:
        engine: Who answers.
        scope: Whose turns they are; a test's.
        faults: What is to go wrong.
    """

    def __init__(self, engine: Engine, scope: Scope, faults: Faults | None = None) -> None:
        self.engine = engine
        self.faults = faults or Faults()
        self.scope = scope
        self.calls = 0
        """How many were intercepted."""
        self._servers = _servers(engine.upstreams)

    def call(
        self,
        found: list[tuple[UpstreamServer, str]],
        method: str,
        url: Any,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
    ) -> Call:
        """The call that a request is, to one of the providers that :meth:`upstreams_at` found."""
        shown = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
        upstream, path = _fitting(found, dict(shown))
        route = Route.to(upstream.name, upstream.kind, method, path or "/")
        query = url.query.decode("ascii") if isinstance(url.query, bytes) else str(url.query or "")
        return Call(method, route, query, shown, body)

    @property
    def hosts(self) -> set[str]:
        """The names of the machines that nobody may reach around us; this one is not among them."""
        return {origin.host for origin, _, _ in self._servers} - LOCAL

    def upstreams_at(self, url: Any) -> list[tuple[UpstreamServer, str]]:
        """The providers at a URL, with the path below each: one server may stand for several, and most for
        none."""
        host, port = normal_host(url.host), url.port or _PORTS.get(url.scheme, 0)
        path = url.raw_path.partition(b"?")[0].decode("ascii")  # as it goes out, its escapes not undone
        return [
            (upstream, path[len(base) :])
            for origin, base, upstream in self._servers
            if origin.port == port
            and _same_host(origin.host, host)
            and (path == base or path.startswith(base + "/") or not base)
        ]


def _fitting(
    found: list[tuple[UpstreamServer, str]], headers: Mapping[str, str]
) -> tuple[UpstreamServer, str]:
    """Of several providers at one place, the one whose path this is."""
    names = {upstream.name: (upstream, path) for upstream, path in found}
    wanted = unprefixed_upstream(found[0][1], lambda name: headers.get(name, ""), names)
    return names.get(wanted or "", found[0])


def _same_host(one: str, other: str) -> bool:
    return one == other or (one in LOCAL and other in LOCAL)


@lru_cache(maxsize=16)  # there is an interception for every test
def _servers(upstreams: Upstreams) -> list[tuple[_Origin, str, UpstreamServer]]:
    """Where each provider is: as configured, and where its own service is; the longest path comes first."""
    found: dict[tuple[_Origin, str, str], UpstreamServer] = {}
    for upstream in (*upstreams, *Upstreams(Settings())):
        parts = urlsplit(upstream.base_url)
        origin = _Origin(normal_host(parts.hostname or ""), parts.port or _PORTS.get(parts.scheme, 0))
        found.setdefault((origin, parts.path.rstrip("/"), upstream.name), upstream)
    servers = [(origin, base, upstream) for (origin, base, _), upstream in found.items()]
    return sorted(servers, key=lambda server: -len(server[1]))
