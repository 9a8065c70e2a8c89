"""The providers that calls may go to: fixed by configuration, never by a client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cortex_replay.config import ProviderSettings, Settings, key_for
from cortex_replay.config.settings import Kind
from cortex_replay.config.trust import CLIENT, refuse_without_consent
from cortex_replay.engine.http.routes import Route, canonical_path, lifted_by, unprefixed_upstream
from cortex_replay.errors import InvalidRequest

__all__ = ["ENVIRONMENT", "Upstream", "Upstreams"]

ENVIRONMENT: Final[Mapping[str, str]] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "ollama": "OLLAMA_HOST",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}
"""Where SDKs look for a provider's server; a server named there is the one that is recorded."""

_SDK_KINDS: Final[Mapping[str, Kind]] = {
    "anthropic": "claude",
    "openai": "openai-compat",
    "ollama": "ollama",
    "gemini": "gemini",
}
"""Whose key an SDK brings to its server."""
_KEY_HEADERS: Final[Mapping[str, tuple[str, str]]] = {
    "claude": ("x-api-key", ""),
    "gemini": ("x-goog-api-key", ""),
}
_ALIASES: Final = {"claude": "anthropic"}
_NO_SERVER: Final = ("scripted", "echo")
_MOST_ROUTES_KEPT: Final = 4096
_LONGEST_PATH_KEPT: Final = 512


@dataclass(frozen=True)
class Upstream:
    """A provider as calls are relayed to it."""

    name: str
    kind: str
    base_url: str
    """Without the ``/v1`` that every path has."""
    provider: ProviderSettings | None = None
    key_variables: tuple[str, ...] = ()

    @property
    def key_header(self) -> tuple[str, str]:
        """The header that carries the key, and what stands before it."""
        return _KEY_HEADERS.get(self.kind, ("authorization", "Bearer "))

    @property
    def is_strange(self) -> bool:
        """Whether a project's file named the server, so that a client's keys need consent to go there."""
        return self.provider is not None and self.provider.root_of("base_url") is not None

    def refuse_key_of_client(self, environment: Mapping[str, str]) -> None:
        """Keep a key that a client brings from a server that a project's file put in its provider's place.

        Raises:
            InvalidRequest: The user has not agreed.
        """
        if self.provider is not None:
            refuse_without_consent(self.provider, CLIENT, None, environment)

    def key(self, environment: Mapping[str, str]) -> str | None:
        """The provider's key, where there is one for this very server.

        Raises:
            InvalidRequest: There is one, and the user has not agreed that it goes there.
        """
        if self.provider is not None:
            return key_for(self.provider, environment)
        for name in self.key_variables:
            if value := environment.get(name, "").strip():
                return value
        return None


class Upstreams:
    """All of them by name, and the way from a path to one of them."""

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        self._by_name = {upstream.name: upstream for upstream in _made(settings, environment or {})}
        for name, url in (overrides or {}).items():
            known = self._by_name.get(name)
            self._by_name[name] = Upstream(name, known.kind if known else "http", _base(url))
        self._routes: dict[tuple[str, str], Route | None] = {}

    def __iter__(self) -> Iterator[Upstream]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Upstream:
        return self._by_name[name]

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def route(self, method: str, path: str, header: Callable[[str], str]) -> Route | None:
        """Where a path goes; ``None`` if nobody is there.

        Paths repeat, so what was found for one is kept; those that a header decides are looked at anew.
        """
        kept = self._routes.get((method, path))
        if kept is not None:
            return kept
        name, _, rest = path[1:].partition("/")
        upstream = self._by_name.get(_ALIASES.get(name, name))
        is_prefixed = upstream is not None
        if upstream is None:
            found = unprefixed_upstream(path, header, self._by_name)
            upstream = self._by_name.get(found) if found else None
            rest = path[1:]
        if upstream is None:
            return None
        canonical = canonical_path(f"/{rest}", upstream.kind)
        protocol = lifted_by(canonical) if method == "POST" else None
        route = Route(upstream.name, canonical if protocol is None else canonical.rstrip("/"), protocol)
        is_short = len(path) <= _LONGEST_PATH_KEPT and len(self._routes) < _MOST_ROUTES_KEPT
        if is_short and (is_prefixed or protocol is not None):
            self._routes[method, path] = route
        return route


def _made(settings: Settings, environment: Mapping[str, str]) -> Iterator[Upstream]:
    for name, provider in settings.providers.items():
        if provider.kind in _NO_SERVER or provider.base_url is None:
            continue
        name = _ALIASES.get(name, name)  # noqa: PLW2901 - the name that clients know it by
        own = environment.get(ENVIRONMENT.get(name, ""), "").strip()
        if own and _is_for_sdk(name, provider):
            # As the SDKs do it: the key in the environment is for the server in the environment.
            yield Upstream(name, provider.kind, _base(own), None, provider.own_key_variables)
        else:
            yield Upstream(name, provider.kind, _base(provider.base_url), provider)


def _is_for_sdk(name: str, provider: ProviderSettings) -> bool:
    """Whether a provider is the one that an SDK's variables are about: its server and key are as they were,
    and it takes the key of that SDK and not another's."""
    default, sdk = ProviderSettings(kind=provider.kind), ProviderSettings(kind=_SDK_KINDS[name])
    has_key = bool(provider.key_env) or provider.key_file is not None
    is_as_it_was = provider.base_url == default.base_url and not has_key
    return is_as_it_was and provider.own_key_variables == sdk.own_key_variables


def _base(url: str) -> str:
    """A server's URL as paths are put behind it."""
    if "://" not in url:  # Ollama's variable may hold a host alone
        host = url if re.search(r":\d+$", url) else f"{url}:11434"
        url = f"http://{host}"
    if not url.startswith(("http://", "https://")):
        raise InvalidRequest("upstream", "is not an http or https URL")
    return re.sub(r"(?:/v1)?/*$", "", url)
