"""What a command finds in its environment, so that its SDKs come to the gateway and hold no key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cortex_replay.config import Settings
from cortex_replay.recorder.http.relay import DUMMY_KEY

__all__ = ["command_environment"]

_BASE_URLS: Final[Mapping[str, tuple[str, str]]] = {
    "ANTHROPIC_BASE_URL": ("anthropic", ""),
    "ANTHROPIC_API_URL": ("anthropic", ""),
    "OPENAI_BASE_URL": ("openai", "/v1"),
    "OPENAI_API_BASE": ("openai", "/v1"),
    "OLLAMA_HOST": ("ollama", ""),
    "OLLAMA_API_BASE": ("ollama", ""),
    "OLLAMA_BASE_URL": ("ollama", "/v1"),
    "GOOGLE_GEMINI_BASE_URL": ("gemini", ""),
}
"""Where SDKs look for a server, the upstream it is, and what they want behind it."""
_KEYS: Final = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
"""Without them many SDKs do not start."""
_DROPPED: Final = (
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "CORTEX_CLAUDE_API_KEY",
    "CORTEX_OPENAI_API_KEY",
    "OLLAMA_API_KEY",
    "OPENAI_ADMIN_KEY",
    "OPENAI_CUSTOM_HEADERS",
)
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOOPBACK: Final = "127.0.0.1,localhost,::1"


def command_environment(
    environment: Mapping[str, str],
    settings: Settings,
    url: Callable[[str], str],
    guard: str | None = None,
) -> dict[str, str]:
    """The environment of a command that runs behind a gateway.

    Args:
        environment: Our own.
        settings: For the variables that hold keys of configured providers.
        url: The base URL of each upstream.
        guard: A proxy that everything else is to run into; ``None`` to leave proxies as they are.
    """
    made = dict(environment)
    for provider in settings.providers.values():
        made |= {name: DUMMY_KEY for name in provider.key_variables if name in environment}
    for name in _DROPPED:
        made.pop(name, None)
    made |= dict.fromkeys(_KEYS, DUMMY_KEY)
    made |= {name: url(upstream) + behind for name, (upstream, behind) in _BASE_URLS.items()}
    made["CORTEX_REPLAY_GATEWAY"] = url("")
    if guard is not None:
        for name in _PROXIES:
            made[name] = made[name.lower()] = guard
        made["NO_PROXY"] = made["no_proxy"] = _LOOPBACK
        made["NODE_USE_ENV_PROXY"] = "1"
    else:
        for name in ("NO_PROXY", "no_proxy"):
            made[name] = ",".join(filter(None, [environment.get(name, ""), _LOOPBACK]))
    return made
