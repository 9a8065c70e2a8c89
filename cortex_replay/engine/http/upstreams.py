"""The providers that calls may go to: fixed by configuration, never by a client."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cortex_replay.canonical import JsonValue
from cortex_replay.config import ProviderSettings, Settings, key_for
from cortex_replay.config.keys import key_variable
from cortex_replay.config.servers import server_of, shown_url
from cortex_replay.config.trust import CLIENT, refuse_without_consent
from cortex_replay.engine.http.routes import Route, unprefixed_upstream
from cortex_replay.errors import ConfigError
from cortex_replay.mcp.questions import UPSTREAM_PREFIX
from cortex_replay.providers import (
    KINDS,
    PROVIDERS,
    Kind,
    Provider,
    provider_name,
    provider_of,
    upstream_name,
)

__all__ = ["UpstreamServer", "Upstreams", "base_of", "is_for_sdk", "is_mcp", "sdk_base_of", "service_of"]

_OLLAMA_PORT: Final = urlsplit(PROVIDERS["ollama"].base_url).port
_AMAZON: Final = re.compile(r"\.amazonaws\.com(?:\.cn)?\Z")
_AZURE: Final = PROVIDERS["azure"]
_MOST_ROUTES_KEPT: Final = 4096
_LONGEST_PATH_KEPT: Final = 512


class Credentials(NamedTuple):
    """What calls are signed with."""

    access_key: str
    secret_key: str
    session_token: str


@dataclass(frozen=True)
class UpstreamServer:
    """A provider as calls are relayed to it."""

    name: str
    kind: Kind
    base_url: str
    """Without the ``/v1`` that every path has; empty for a service that is elsewhere for every user, where
    nobody has said where."""
    provider: ProviderSettings | None = None
    key_variables: tuple[str, ...] = ()
    url: str = ""
    """As the user wrote it, where that is known."""

    @property
    def own_name(self) -> str:
        """What a configuration calls it."""
        return provider_name(service_of(self.name))

    @cached_property
    def origin(self) -> Mapping[str, JsonValue]:
        """What a recording says of who answered."""
        return {"provider": self.own_name, "upstream": shown_url(self.url or self.base_url)}

    def below(self, path: str) -> str:
        """A path below the server's own, which some clients bring themselves."""
        base = urlsplit(self.base_url).path
        return path[len(base) :] if base and path.startswith(f"{base}/v1/") else path

    @property
    def key_header(self) -> tuple[str, str]:
        """The header that carries the key, and what stands before it."""
        return KINDS[self.kind].key_header

    @property
    def is_strange(self) -> bool:
        """Whether a project's file named the server, so that a client's keys need consent to go there."""
        return self.provider is not None and self.provider.root_of("base_url") is not None

    def refuse_key_of_client(self, environment: Mapping[str, str]) -> None:
        """Keep a key that a client brings from a server that a project's file put in its provider's place.

        Raises:
            ConfigError: The user has not agreed.
        """
        if self.provider is not None:
            refuse_without_consent(self.provider, CLIENT, None, environment)

    def key(self, environment: Mapping[str, str]) -> str | None:
        """The provider's key, where there is one for this very server.

        Raises:
            ConfigError: There is one, and the user has not agreed that it goes there.
        """
        if self.provider is not None:
            return key_for(self.provider, environment)
        variable = key_variable(self.key_variables, environment)
        return None if variable is None else environment[variable].strip()

    def credentials(self, environment: Mapping[str, str]) -> Credentials | None:
        """What calls to it are signed with, where it wants them signed and all of it is there.

        Raises:
            ConfigError: It is there, and the user has not agreed that it is used for this server.
        """
        row = PROVIDERS.get(KINDS[self.kind].service or "")
        is_ours = bool(self.key_variables)
        if self.provider is not None:
            host = urlsplit(self.base_url).hostname or ""
            is_ours = self.provider.service is not None or _AMAZON.search(host) is not None
        if row is None or not row.signing_variables or not is_ours:
            return None
        names = row.signing_variables
        found = [environment[name].strip() for name in names if key_variable([name], environment)]
        if len(found) < len(names):
            return None
        if self.provider is not None:
            refuse_without_consent(self.provider, names[-1], None, environment)
        access_key, secret_key = found
        return Credentials(access_key, secret_key, environment.get(row.session_variable, "").strip())

    def missing_key(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """The variables of which one should hold the key, where none does: of a service at its own server,
        which answers nobody without one. For a service without a server, the variable that should name it."""
        provider, row = self.provider, provider_of(self.name)
        variables = self.key_variables
        if provider is not None:
            row, variables = provider.service, () if provider.key_file else provider.key_variables
        is_service = row is not None and server_of(self.base_url) == server_of(row.base_url)
        if row is not None and not self.base_url:
            return (row.url_variable,)
        if not is_service or key_variable(variables, environment) or self.credentials(environment):
            return ()
        if row is not None and row.signing_variables:
            return (row.signing_variables[0], *variables)
        return tuple(name for name in variables if not name.startswith("CORTEX_")) or variables


def service_of(name: str) -> str:
    """Whose protocol an upstream speaks: what stands before the host that a client chose itself."""
    return name.partition("@")[0]


class Upstreams:
    """All of them by name, and the way from a path to one of them."""

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        self._by_name = {upstream.name: upstream for upstream in _servers(settings, environment or {})}
        for name, url in (overrides or {}).items():
            if is_mcp(name, settings):
                continue
            known = self._by_name.get(name)
            self._by_name[name] = UpstreamServer(
                name, known.kind if known else "http", base_of(url), url=_with_scheme(url)
            )
        azure = self._by_name.get("azure")
        self._has_azure = azure is not None and azure.base_url != ""
        self._routes: dict[tuple[str, str, bool], Route | None] = {}

    def __iter__(self) -> Iterator[UpstreamServer]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> UpstreamServer:
        return self._by_name[name]

    @property
    def everywhere(self) -> Iterator[UpstreamServer]:
        """All of them, and then each provider where its own service is."""
        yield from self
        yield from _servers(Settings(), {})

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def route(self, method: str, path: str, header: Callable[[str], str]) -> Route | None:
        """Where a path goes; ``None`` if nobody is there.

        Paths repeat, so what was found for one is kept; those that a header decides are looked at anew.
        """
        is_azure = self._has_azure and bool(header(_AZURE.header))
        kept = self._routes.get((method, path, is_azure))
        if kept is not None:
            return kept
        asked = path
        if is_azure:  # some of its clients read OpenAI's variable first
            path = re.sub(r"^/openai(?:/v1)*(?=/)", "/azure/openai", path)
        name, _, rest = path[1:].partition("/")
        upstream = self._by_name.get(upstream_name(name))
        is_prefixed = upstream is not None
        if upstream is None:
            found = unprefixed_upstream(path, header, self._by_name)
            upstream = self._by_name.get(found) if found else None
            rest = path[1:]
        if upstream is None:
            return None
        route = Route.to(upstream.name, upstream.kind, method, upstream.below(f"/{rest}"))
        is_short = len(path) <= _LONGEST_PATH_KEPT and len(self._routes) < _MOST_ROUTES_KEPT
        if is_short and (is_prefixed or route.protocol is not None):
            self._routes[method, asked, is_azure] = route
        return route


def _servers(settings: Settings, environment: Mapping[str, str]) -> Iterator[UpstreamServer]:
    for own_name, provider in settings.providers.items():
        if provider.base_url is None or provider.kind == "mcp":  # its calls are no relayed requests
            continue
        name = upstream_name(own_name)
        row = provider_of(name)
        own = "" if row is None else environment.get(row.url_variable, "").strip()
        if row is not None and own and is_for_sdk(row, provider):
            # As the SDKs do it: the key in the environment is for the server in the environment.
            yield UpstreamServer(
                name, provider.kind, sdk_base_of(own, row), None, row.key_variables, url=_with_scheme(own)
            )
        else:
            yield UpstreamServer(
                name, provider.kind, base_of(provider.base_url), provider, url=provider.base_url
            )
    for own_name, row in PROVIDERS.items():
        if row.url_variable and own_name not in settings.providers:  # it is somewhere else for every user
            own = environment.get(row.url_variable, "").strip()
            base_url = base_of(own) if own else ""
            yield UpstreamServer(
                upstream_name(own_name), row.kind, base_url, None, row.key_variables, url=own
            )


def is_mcp(name: str, settings: Settings) -> bool:
    """Whether what a command line names is an MCP server."""
    provider = settings.providers.get(name)
    return name.startswith(UPSTREAM_PREFIX) or (provider is not None and provider.kind == "mcp")


def is_for_sdk(row: Provider, provider: ProviderSettings) -> bool:
    """Whether a provider is the one that an SDK's variables are about: its server and key are as they were,
    and it takes the key of that SDK and not another's."""
    has_key = bool(provider.key_env) or provider.key_file is not None
    return provider.service is row and provider.base_url == row.base_url and not has_key


def _with_scheme(url: str) -> str:
    """A server's URL, where Ollama's variable may hold a host alone."""
    if "://" in url:
        return url
    return f"http://{url}" if re.search(r":\d+$", url) else f"http://{url}:{_OLLAMA_PORT}"


def sdk_base_of(url: str, row: Provider) -> str:
    """As :func:`base_of`, for the server that an SDK's variable names: the path of the API follows where the
    SDK brings it itself."""
    base, path = base_of(url), urlsplit(base_of(row.base_url)).path
    return base if row.url_variables[row.url_variable] or base.endswith(path) else base + path


def base_of(url: str) -> str:
    """A server's URL as paths are put behind it.

    Raises:
        ConfigError: It is none.
    """
    url = _with_scheme(url)
    if not url.startswith(("http://", "https://")):
        raise ConfigError("upstream", "is not an http or https URL")
    return re.sub(r"(?:/v1)?/*$", "", url)
