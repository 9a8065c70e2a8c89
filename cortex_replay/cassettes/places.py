"""Whose API a recorded address is.

A call that is recorded as it is has its upstream's name in its key. So a name is given here as it is given
when the test runs again: in process by the host, behind the gateway by the path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

from cortex_replay.cassettes.interactions import Interaction
from cortex_replay.engine.http.model_calls import model_call
from cortex_replay.engine.http.other_calls import is_other, other_server
from cortex_replay.engine.http.routes import Route, canonical_path, unprefixed_upstream
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.providers import PROVIDERS, Kind, address_at, upstream_name

__all__ = ["Places"]

_OTHER_MODEL_HOSTS: Final = re.compile(
    r"(?:api\.(?:mistral\.ai|groq\.com|deepseek\.com|cohere\.(?:ai|com)|together\.(?:ai|xyz)|fireworks\.ai|x\.ai"
    r"|perplexity\.ai|voyageai\.com|ai21\.com|cerebras\.ai)|openrouter\.ai|(?:router|api-inference)\.huggingface\.co"
    r"|[\w-]+\.(?:openai\.azure|services\.ai\.azure|cognitiveservices\.azure)\.com"
    r"|bedrock-runtime\.[\w-]+\.amazonaws\.com|(?:[\w-]+-)?aiplatform\.googleapis\.com)"
)
_LIFTED_TAIL: Final = re.compile(
    r"(?:^|/)(?:v1/messages|v1/responses|openai/responses|(?:v1/)?chat/completions|v1/completions"
    r"|openai/deployments/[^/]+/completions)/?$"
)
_MODEL_CALL: Final = re.compile(
    r"/v1/(?:messages|chat|responses|embeddings|completions|models|moderations)(?:/|$)"
    r"|/api/(?:chat|generate|embed|embeddings|tags|show|ps|version)$"
    r"|/v1(?:beta|alpha)\d*/(?:models|tunedModels)(?:/|$)"
)


class Places:
    """The way from a host and a path to a route.

    Args:
        upstreams: The providers of the configuration.
        hosts: Upstreams by ``host`` or ``host:port``, as a person named them; they win.
        takes_all: Whether hosts that are no model's count, too.
    """

    def __init__(self, upstreams: Upstreams, hosts: Mapping[str, str], *, takes_all: bool = False) -> None:
        self._takes_all = takes_all
        own = {upstream_name(name): row for name, row in PROVIDERS.items() if row.base_url}
        self._kinds: dict[str, Kind] = {name: row.kind for name, row in own.items()}
        self._kinds |= {upstream.name: upstream.kind for upstream in upstreams}
        self._named = {_one_name(host.lower()): name for host, name in hosts.items()}
        servers = [(urlsplit(upstream.base_url), upstream.name) for upstream in upstreams]
        known = [(_host_of(parts), parts.path.rstrip("/"), name) for parts, name in servers]
        known += [(_host_of(urlsplit(row.base_url)), "", name) for name, row in own.items()]
        self._servers = sorted(known, key=lambda server: -len(server[1]))

    def route(self, interaction: Interaction) -> Route | None:
        """Where a call goes; ``None`` if it goes to nobody who runs a model."""
        host, path = interaction.host, interaction.path
        name, base = self._upstream_of(host, path, interaction.request_header)
        if name is None:
            route = self._route_in_process(interaction)
            if route is not None:
                return route
            name = self._by_path(interaction)
            if name is None or is_other(name):
                return None if name is None else Route(name, path, None)
        canonical = canonical_path(path[len(base) :], self._kinds.get(name, "http"))
        is_below = _LIFTED_TAIL.search(canonical) is not None
        address = address_at(canonical, is_tail=is_below) if interaction.method == "POST" else None
        return Route(name, canonical, *(address or (None,)))

    def _route_in_process(self, interaction: Interaction) -> Route | None:
        """The route to a host that no provider is configured at, as interception has it."""
        path = interaction.path
        call = model_call(interaction.method, path, interaction.request_header)
        if call is None or not call.fits(interaction.request_body):
            return None
        server = call.server(interaction.scheme, interaction.host)
        return Route(server.name, path, call.protocol, call.parameters)

    def _by_path(self, interaction: Interaction) -> str | None:
        """The name of an upstream that no request to it gives away."""
        host = interaction.host
        if self._takes_all or _OTHER_MODEL_HOSTS.fullmatch(_without_port(host)):
            return other_server(interaction.scheme, host).name
        if _MODEL_CALL.match(interaction.path):
            return unprefixed_upstream(interaction.path, interaction.request_header, self._kinds)
        return None

    def _upstream_of(self, host: str, path: str, header: Callable[[str], str]) -> tuple[str | None, str]:
        host = _one_name(host)
        named = self._named.get(host) or self._named.get(_without_port(host))
        if named is not None:
            return named, ""
        found = [
            (name, base)
            for server, base, name in self._servers
            if server == host and (not base or path.startswith(f"{base}/"))
        ]
        if not found:
            return None, ""
        base = found[0][1]
        names = [name for name, other in found if other == base]
        told = unprefixed_upstream(path[len(base) :], header, names) if len(names) > 1 else None
        return told if told in names else names[0], base


def _host_of(parts: SplitResult) -> str:
    host, port = parts.hostname or "", parts.port
    is_default = port in (None, {"http": 80, "https": 443}.get(parts.scheme))
    return _one_name(host if is_default else f"{host}:{port}")


def _one_name(host: str) -> str:
    """This machine has several."""
    return re.sub(r"^(?:localhost|\[?::1\]?)(?=:\d+$|$)", "127.0.0.1", host)


def _without_port(host: str) -> str:
    return re.sub(r":\d+$", "", host)
