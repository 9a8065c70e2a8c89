"""Who is asked again for a recording.

A recording comes with a repository, and may be a stranger's: what it says of a provider and a server is a
hint, never an order. It is asked of a server that settings, the environment or a flag name, or of the
provider's own. A key goes where those say, by the rules of :mod:`cortex_replay.config.trust`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.config.servers import Server, server_of
from cortex_replay.engine.http.upstreams import Upstreams, UpstreamServer, base_of, is_for_sdk, sdk_base_of
from cortex_replay.errors import ConfigError
from cortex_replay.providers import KINDS, PROVIDERS, provider_of, upstream_name
from cortex_replay.store import Fixture

__all__ = ["Target", "Targets", "with_sdk_servers"]

_ONE_SERVER: Final = ("claude", "ollama", "scripted", "echo")
"""Adapters whose name is that of the one provider they ask unless told otherwise."""
_OWN_MODELS: Final = (
    ("anthropic-messages", re.compile(r"claude-"), "claude"),
    ("openai-chat", re.compile(r"(?:gpt-(?!oss)|chatgpt-|o\d)"), "openai"),
    ("openai-responses", re.compile(r"(?:gpt-(?!oss)|chatgpt-|o\d)"), "openai"),
    ("ollama-chat", re.compile(""), "ollama"),
    ("ollama-generate", re.compile(""), "ollama"),
    ("gemini-generate", re.compile(r"gemini-|gemma-"), "gemini"),
)
"""Who has answered, where a recording says only which wire it came over and what the model is called."""
_WIRES_OF_KIND: Final = {
    "claude": ("anthropic-messages",),
    "openai-compat": ("openai-chat", "openai-responses", "openai-completions"),
    "openai-responses": ("openai-chat", "openai-responses", "openai-completions"),
    "azure": ("openai-chat", "openai-responses", "openai-completions"),
    "gemini": ("gemini-generate", "anthropic-messages"),
    "scripted": (),
    "echo": (),
}
"""Kinds that do not speak every wire."""
_NOBODY: Final = (
    "it does not say who answered, as recordings of earlier versions do not; name a provider with --provider"
)


@dataclass(frozen=True, slots=True)
class Target:
    """Who is asked."""

    provider: str
    """By the name that a configuration has for it."""
    server: UpstreamServer | None = None
    """Where; ``None`` for what answers within this program."""
    wires: tuple[str, ...] | None = None
    """The wires that can be used; ``None`` for all."""

    def speaks(self, protocol: object) -> bool:
        """Whether it can be asked over a wire, so that the answer comes in the form of the recorded one."""
        return self.server is not None and (self.wires is None or protocol in self.wires)


class Targets:
    """Finds who is asked for each recording.

    Args:
        settings: What is configured.
        upstreams: The servers that hold in this run.
        environment: Where keys are.
        chosen: The provider that the user named for all of them.
    """

    def __init__(
        self, settings: Settings, upstreams: Upstreams, environment: Mapping[str, str], chosen: str | None
    ) -> None:
        self._settings = settings
        self._servers = {server.own_name: server for server in upstreams}
        self._environment = environment
        self._chosen = chosen

    def find(self, fixture: Fixture) -> Target | str:
        """Who is asked for a recording, or why it cannot be asked."""
        found = self._at(self._chosen) if self._chosen else self._recorded(fixture)
        if isinstance(found, str):
            return found
        return self._problem_with_key(found) or found

    def _at(self, name: str) -> Target:
        """The provider that the user named: it is asked over a wire that it speaks for certain."""
        kind = self._settings.providers[name].kind
        return Target(name, self._servers.get(name), _WIRES_OF_KIND.get(kind))

    def _recorded(self, fixture: Fixture) -> Target | str:
        meta = fixture.meta or {}
        given, upstream = meta.get("provider"), meta.get("upstream")
        name = given if isinstance(given, str) else _provider_by_signs(fixture)
        if isinstance(upstream, str):
            return self._at_upstream(name, upstream)
        if name in self._servers:
            return Target(name, self._servers[name])
        if name in self._settings.providers:
            return self._at(name)
        return (
            _NOBODY if not name else f"there is no provider {name} in your settings; name one with --provider"
        )

    def _at_upstream(self, name: str, upstream: str) -> Target | str:
        """The server that a recording names, if the user names it too."""
        recorded = _place_of(upstream)
        if recorded is None:
            return "the server that it names is not spelled plainly; name a provider with --provider"
        here = [server for server in self._servers.values() if _place_of(server.base_url) == recorded]
        if here:
            found = min(here, key=lambda server: server.own_name != name)
            return Target(found.own_name, found)
        server = self._servers.get(name)
        row = provider_of(upstream_name(name))
        if server is not None and row is not None and recorded == _place_of(row.base_url):
            return Target(name, server)  # the user has placed the provider elsewhere
        if server is not None and recorded[0].is_loopback and _is_local(server.base_url):
            return Target(name, server)  # a server on this machine has another port each time
        return _how_to_allow(name, upstream)

    def _problem_with_key(self, target: Target) -> str | None:
        """Why nothing can be asked there, before anything is."""
        server = target.server
        if server is None:
            return None
        try:
            key = server.key(self._environment)
        except ConfigError as error:
            return str(error)
        variables = () if key is not None else server.missing_key(self._environment)
        if variables:
            return f"there is no key for {target.provider}; set {' or '.join(variables)}"
        return None


def _provider_by_signs(fixture: Fixture) -> str:
    """Who answered, where the recording does not say so itself; nobody where that would be a guess.

    Many servers speak OpenAI's API, so that a recording that only says this may come from any of them.
    """
    adapter = str((fixture.meta or {}).get("adapter"))
    if adapter in _ONE_SERVER:
        return adapter
    protocol = (fixture.answers[0].wire or {}).get("protocol")
    model = fixture.key.model
    return next((name for wire, own, name in _OWN_MODELS if wire == protocol and own.match(model)), "")


def _place_of(url: str) -> tuple[Server, str] | None:
    """What tells a server from another: its scheme, host and port, and the path that all calls begin with."""
    try:
        base = base_of(url)
    except ConfigError:
        return None
    server = server_of(base)
    return None if server is None else (server, urlsplit(base).path)


def _is_local(url: str) -> bool:
    server = server_of(url)
    return server is not None and server.is_loopback


def _how_to_allow(name: str, upstream: str) -> str:
    row = PROVIDERS.get(name)
    if row is not None and row.url_variable:
        how = f"set {row.url_variable}={shlex.quote(upstream)}"
    else:
        how = "pass --upstream " + shlex.quote(f"{name or 'NAME'}={upstream}")
    return (
        f"it was recorded at {upstream}, which none of your settings names, so nothing was sent there; "
        f"if you trust that server, {how}, or name a provider with --provider"
    )


def with_sdk_servers(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """The settings with the servers that SDKs find in the environment, and the keys for those servers."""
    providers = {
        name: _at_sdk_server(name, provider, environment) for name, provider in settings.providers.items()
    }
    return replace(settings, providers=providers)


def _at_sdk_server(name: str, provider: ProviderSettings, environment: Mapping[str, str]) -> ProviderSettings:
    row = PROVIDERS.get(name)
    given = environment.get(row.url_variable, "").strip() if row is not None else ""
    if row is None or not given or not is_for_sdk(row, provider):
        return provider
    placed = provider.at(sdk_base_of(given, row) + row.url_variables[row.url_variable])
    if "key_env" in KINDS[provider.kind].settings and row.key_variables:
        placed = replace(placed, key_env=row.key_variables)
    return placed
