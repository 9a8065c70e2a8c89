"""What a command finds in its environment, so that its SDKs come to the gateway and hold no key.

Whatever looks like a secret is withheld, by its name or by its value; the keys that SDKs ask for are dummies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from cortex_replay.config import Settings
from cortex_replay.engine.http.relay import DUMMY_KEY
from cortex_replay.redact.redactor import Redactor
from cortex_replay.secret_names import has_secret

__all__ = ["command_environment", "withheld_from"]

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


def withheld_from(environment: Mapping[str, str], passed: Collection[str] = ()) -> list[str]:
    """The names of the variables that a command is not to have, in order.

    Args:
        environment: Our own.
        passed: Those that the user hands over by name.
    """
    redactor = Redactor()
    return sorted(
        name
        for name, value in environment.items()
        if name not in passed
        and value != DUMMY_KEY
        and (has_secret(name, value) or redactor.found_in(value.replace("\\n", "\n")))
    )


def command_environment(
    environment: Mapping[str, str],
    settings: Settings,
    url: Callable[[str], str],
    guard: str | None = None,
    *,
    withheld: Collection[str] = (),
    passed: Collection[str] = (),
) -> dict[str, str]:
    """The environment of a command that runs behind a gateway.

    Args:
        environment: Our own.
        settings: For the variables that hold keys of configured providers.
        url: The base URL of each upstream.
        guard: A proxy that everything else is to run into; ``None`` to leave proxies as they are.
        withheld: The variables to leave out, as :func:`withheld_from` names them.
        passed: Those that the user hands over by name, keys of SDKs too.
    """
    made = {name: value for name, value in environment.items() if name not in withheld}
    for provider in settings.providers.values():
        made |= {name: DUMMY_KEY for name in provider.key_variables if name in environment}
    for name in _DROPPED:
        made.pop(name, None)
    made |= dict.fromkeys(_KEYS, DUMMY_KEY)
    made |= {name: environment[name] for name in passed if name in environment}
    made |= {name: url(upstream) + behind for name, (upstream, behind) in _BASE_URLS.items()}
    made["CORTEX_REPLAY_GATEWAY"] = url("")
    made["CORTEX_REPLAY_CONTROL"] = url("-")
    if guard is not None:
        for name in _PROXIES:
            made[name] = made[name.lower()] = guard
        made["NO_PROXY"] = made["no_proxy"] = _LOOPBACK
        made["NODE_USE_ENV_PROXY"] = "1"
    else:
        for name in ("NO_PROXY", "no_proxy"):
            made[name] = ",".join(filter(None, [environment.get(name, ""), _LOOPBACK]))
    return made
