"""From settings to something that answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from cortex_replay.adapters import LlmAdapter
from cortex_replay.adapters.request_rate import RequestRate
from cortex_replay.config import Kind, ProviderSettings, Settings, key_for
from cortex_replay.config.files import shown_path
from cortex_replay.config.keys import refuse_outside
from cortex_replay.config.servers import server_of
from cortex_replay.errors import ConfigError
from cortex_replay.providers import DUMMY_KEY

__all__ = ["adapter_for"]


def adapter_for(settings: Settings, name: str | None, rate: RequestRate | None = None) -> LlmAdapter:
    """The provider of that name, or the configured one, which is asked no more often than a rate says.

    Raises:
        ConfigError: There is no such provider, it lacks its key, or it is for the gateway alone.
        InvalidRequest: A setting of it makes no sense.
    """
    provider = settings.provider_named(name)
    make = _ADAPTERS.get(provider.kind)
    if make is None:
        reason = f"one of the kind {provider.kind} is for the gateway: cortex-replay record -- COMMAND"
        raise ConfigError("provider", reason)
    shared = {
        "base_url": provider.base_url,
        "max_retries": settings.max_retries,
        "max_sensitivity": settings.max_sensitivity,
        "requests_per_minute": rate,
    }
    return make(provider, shared)


# Each is loaded when it is wanted: most commands need no HTTP client.


def _scripted(provider: ProviderSettings, _: Mapping[str, Any]) -> LlmAdapter:
    from cortex_replay.testing import ScriptedAdapter  # noqa: PLC0415

    if provider.script is None:
        return ScriptedAdapter()
    root = provider.root_of("script")
    if root is not None:
        refuse_outside(provider.script, root, f"script {shown_path(provider.script)}")
    return ScriptedAdapter.from_file(provider.script)


def _echo(*_: object) -> LlmAdapter:
    from cortex_replay.testing import EchoAdapter  # noqa: PLC0415

    return EchoAdapter()


def _ollama(provider: ProviderSettings, shared: Mapping[str, Any]) -> LlmAdapter:
    from cortex_replay.adapters.ollama import OllamaAdapter  # noqa: PLC0415

    return OllamaAdapter(allow_remote=provider.allow_remote, allow_unpinned=provider.allow_unpinned, **shared)


def _claude(provider: ProviderSettings, shared: Mapping[str, Any]) -> LlmAdapter:
    from cortex_replay.adapters.claude import ClaudeAdapter  # noqa: PLC0415

    key = key_for(provider, os.environ)
    server = server_of(provider.base_url or "")
    if key is None and server is not None and server.is_loopback:
        key = DUMMY_KEY  # a server of the user's own, or our gateway, which has the key
    if key is None:
        variables = " or ".join(provider.key_variables) or "key_env for this server"
        raise ConfigError("api_key", f"there is none; set {variables}")
    return ClaudeAdapter(
        key,
        version=provider.version or "",
        betas=provider.betas,
        allow_latest=provider.allow_latest,
        **shared,
    )


def _openai(provider: ProviderSettings, shared: Mapping[str, Any]) -> LlmAdapter:
    from cortex_replay.adapters.openai_compat import OpenAICompatAdapter  # noqa: PLC0415

    return OpenAICompatAdapter(
        api_key=key_for(provider, os.environ),
        api="responses" if provider.kind == "openai-responses" else "chat",
        max_tokens_field=provider.max_tokens_field,
        **shared,
    )


_ADAPTERS: Final[Mapping[Kind, Callable[[ProviderSettings, Mapping[str, Any]], LlmAdapter]]] = {
    "claude": _claude,
    "ollama": _ollama,
    "openai-compat": _openai,
    "openai-responses": _openai,
    "scripted": _scripted,
    "echo": _echo,
}
"""The kinds that an adapter asks; calls to others only pass the gateway."""
