"""Which requests are intercepted, and what they are answered with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.destinations import destinations_of
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.model_calls import ModelCall, model_call
from cortex_replay.engine.http.other_calls import other_server
from cortex_replay.engine.http.routes import Route
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import InvalidRequest
from cortex_replay.faults import Faults
from cortex_replay.hosts import LOCAL, normal_host
from cortex_replay.interception.request import Request
from cortex_replay.modes import Mode

if TYPE_CHECKING:
    from cortex_replay.interception.mcp.servers import McpServers

__all__ = ["Http", "Interception", "Target"]

Http = Literal["models", "all"]


class Target(NamedTuple):
    """Who a request may be for."""

    route: Route | None
    """Where it goes, if it is addressed to a provider."""
    model_call: ModelCall | None = None
    """What it looks like, if it is not."""


class Interception:
    """The calls of one process to models, answered by an engine.

    Args:
        engine: Who answers.
        scope: Whose turns they are; a test's.
        faults: What is to go wrong.
        allow_hosts: Hosts, with or without a port, that are left alone though calls to them look like calls
            to a model, or all calls are ours: the application under test. A configured provider is never left
            alone.
        http: Which calls are recorded and replayed: those to ``models``, or ``all``.
        mcp: The MCP servers whose sessions are recorded and replayed; without it they are left alone.
        outer_scope: The name under which calls are counted by a gateway that they are passed on to.
    """

    def __init__(
        self,
        engine: Engine,
        scope: Scope,
        faults: Faults | None = None,
        *,
        allow_hosts: Iterable[str] = (),
        http: Http = "models",
        mcp: McpServers | None = None,
        outer_scope: str = "",
    ) -> None:
        if http not in get_args(Http):
            raise InvalidRequest("http", f"is {' or '.join(get_args(Http))}, not {str(http)[:40]!r}")
        self.engine = engine
        self.faults = faults or Faults()
        self.scope = scope
        self.mcp = mcp
        self.calls = 0
        """How many were intercepted; not those to MCP servers."""
        self.strangers: set[str] = set()
        """The hosts that were asked as models are, and are none of the configured providers."""
        self.others: set[str] = set()
        """The hosts that were asked something else."""
        self.takes_all = http == "all" and scope.mode is not Mode.LIVE
        """Whether every call is ours, and not just those to models."""
        self._outer_scope = outer_scope
        self._destinations = destinations_of(engine.upstreams)
        self._allowed = {_authority(host) for host in allow_hosts}

    def allow(self, host: str) -> None:
        """Leave a further host alone."""
        self._allowed.add(_authority(host))

    def target(self, request: Request) -> Target | None:
        """Who a request may be for; ``None`` for all other traffic."""
        method, path, header = request.method, request.path, request.header
        route = self._destinations.provider_route(request.host, request.port, method, path, header)
        if route is not None:
            return Target(route)
        looks_like = model_call(method, path, header)
        if (looks_like is None and not self.takes_all) or self.is_allowed(request.authority):
            return None
        return Target(None, looks_like)

    def call(self, target: Target, request: Request, body: bytes) -> Call | None:
        """The call that a request is; ``None`` if its body asks no model, and only these are ours."""
        method, headers, query = request.method, request.headers, request.query
        looks_like = target.model_call
        if target.route is not None:
            return Call(method, target.route, query, headers, body, outer_scope=self._outer_scope)
        if looks_like is not None and looks_like.fits(body):
            server = looks_like.server(request.scheme, request.authority)
            route = looks_like.route(server, request.path)
            self.strangers.add(request.authority)
        elif self.takes_all:
            server = other_server(request.scheme, request.authority)
            route = Route(server.name, request.path, None)
            self.others.add(request.authority)
        else:
            return None
        return Call(method, route, query, headers, body, server)

    @property
    def hosts(self) -> frozenset[str]:
        """The names of the machines that nobody may reach around us, not even to look a name up; this one is
        not among them. While something is recorded we reach them ourselves."""
        return frozenset() if self.scope.mode.asks else self._destinations.hosts - LOCAL

    def is_allowed(self, authority: str) -> bool:
        """Whether calls to a host are left alone, by its name or by its name and port."""
        host, port = _authority(authority)
        return (host, port) in self._allowed or (host, None) in self._allowed


def _authority(text: str) -> tuple[str, str | None]:
    """A host in its one form, all names of this machine being one, and the port that stands behind it."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or (":" in host and not host.endswith("]")):
        host, port = text, ""
    name = normal_host(host)
    return ("localhost" if name in LOCAL else name), port or None
