"""From settings to something that answers."""

from __future__ import annotations

import os
from typing import Any

from cortex_replay.adapters import LlmAdapter
from cortex_replay.config import ProviderSettings, Settings, key_for
from cortex_replay.config.files import shown_path
from cortex_replay.config.keys import refuse_outside
from cortex_replay.errors import InvalidRequest

__all__ = ["adapter_for"]


def adapter_for(settings: Settings, name: str | None) -> LlmAdapter:
    """The provider of that name, or the configured one.

    Raises:
        InvalidRequest: There is no such provider, it lacks its key, or a setting of it makes no sense.
    """
    provider = settings.provider_named(name)
    shared: dict[str, Any] = {
        "max_retries": settings.max_retries,
        "max_sensitivity": settings.max_sensitivity,
    }
    return _made(provider, shared)


def _made(provider: ProviderSettings, shared: dict[str, Any]) -> LlmAdapter:
    # Each is loaded when it is wanted: most commands need no HTTP client.
    if provider.kind in ("scripted", "echo"):
        from cortex_replay.testing import EchoAdapter, ScriptedAdapter  # noqa: PLC0415

        if provider.kind == "echo":
            return EchoAdapter()
        if provider.script is None:
            return ScriptedAdapter()
        root = provider.root_of("script")
        if root is not None:
            refuse_outside(provider.script, root, f"script {shown_path(provider.script)}")
        return ScriptedAdapter.from_file(provider.script)
    if provider.kind in ("gemini", "http"):
        reason = f"one of the kind {provider.kind} is for the gateway: cortex-replay record -- COMMAND"
        raise InvalidRequest("provider", reason)
    if provider.base_url is not None:
        shared["base_url"] = provider.base_url
    if provider.kind == "ollama":
        from cortex_replay.adapters.ollama import OllamaAdapter  # noqa: PLC0415

        return OllamaAdapter(
            allow_remote=provider.allow_remote, allow_unpinned=provider.allow_unpinned, **shared
        )
    if provider.kind == "claude":
        from cortex_replay.adapters.claude import ClaudeAdapter  # noqa: PLC0415

        key = key_for(provider, os.environ)
        if key is None:
            variables = " or ".join(provider.key_variables) or "key_env for this server"
            raise InvalidRequest("api_key", f"there is none; set {variables}")
        return ClaudeAdapter(
            key,
            version=provider.version or "",
            betas=provider.betas,
            allow_latest=provider.allow_latest,
            **shared,
        )
    from cortex_replay.adapters.openai_compat import OpenAICompatAdapter  # noqa: PLC0415

    api = "responses" if provider.kind == "openai-responses" else "chat"
    return OpenAICompatAdapter(
        api_key=key_for(provider, os.environ),
        api=api,  # type: ignore[arg-type]
        max_tokens_field=provider.max_tokens_field,
        **shared,
    )
