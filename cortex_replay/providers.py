"""Every fact about providers, once: their names, servers, variables, headers and paths.

A provider is a row of :data:`PROVIDERS`; what it shares with all that speak the same API is its kind, a row
of :data:`KINDS`. Whoever needs a fact reads it here at that moment, so that a new row is known everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

__all__ = [
    "ANTHROPIC_VERSION",
    "DUMMY_KEY",
    "KINDS",
    "PROTOCOLS",
    "PROVIDERS",
    "Kind",
    "KindRow",
    "Provider",
    "provider_name",
    "provider_of",
    "upstream_name",
]

Kind = Literal["claude", "ollama", "openai-compat", "openai-responses", "gemini", "http", "scripted", "echo"]

ANTHROPIC_VERSION: Final = "2023-06-01"
DUMMY_KEY: Final = "cortex-replay-dummy-key"
"""What clients are given instead of a key: they will not start without one. Whoever looks for a key does not
take it for one."""
_OWN_PREFIX: Final = "CORTEX_"


@dataclass(frozen=True, slots=True)
class KindRow:
    """What providers of a kind have in common, wherever their servers are."""

    settings: frozenset[str] = frozenset()
    """Which settings they have, beside those that all have."""
    service: str | None = None
    """The provider that is meant where a configuration names no server."""
    key_header: tuple[str, str] = ("authorization", "Bearer ")
    """The header that carries the key, and what stands before it."""
    is_versioned: bool = False
    """Whether paths of the API begin with ``/v1``."""


_WITH_KEY: Final = frozenset(["base_url", "key_env", "key_file"])
KINDS: Final[dict[Kind, KindRow]] = {
    "claude": KindRow(
        _WITH_KEY | {"allow_latest", "version", "betas"}, "claude", ("x-api-key", ""), is_versioned=True
    ),
    "ollama": KindRow(frozenset(["base_url", "allow_remote", "allow_unpinned"]), "ollama", is_versioned=True),
    "openai-compat": KindRow(_WITH_KEY | {"max_tokens_field"}, "openai", is_versioned=True),
    "openai-responses": KindRow(_WITH_KEY, "openai", is_versioned=True),
    "gemini": KindRow(_WITH_KEY, "gemini", ("x-goog-api-key", "")),
    "http": KindRow(_WITH_KEY),
    "scripted": KindRow(frozenset(["script"])),
    "echo": KindRow(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider that is there without any configuration."""

    kind: Kind
    base_url: str = ""
    """Its own server; empty where there is none."""
    key_variables: tuple[str, ...] = ()
    """The environment variables that may hold its key; those of ``CORTEX_`` are ours, the others SDKs'."""
    url_variables: Mapping[str, str] = field(default_factory=dict)
    """Where its SDKs look for a server, and what they want behind it. The first also names the server to
    record from."""
    secret_variables: tuple[str, ...] = ()
    """What else its SDKs send from the environment; a command behind the gateway does not get it."""
    client_name: str | None = None
    """What clients of the gateway and recordings call it, if not by its name in a configuration."""
    protocols: Mapping[str, str] = field(default_factory=dict)
    """The wires that calls are lifted by, by the path that they are posted to."""
    own_paths: str = "(?!)"
    """A pattern of paths that are its own whatever a header says; all that are lifted are among them."""
    shared_paths: str = "(?!)"
    """A pattern of paths that are this provider's unless a header says otherwise."""
    header: str = ""
    """The header that only its clients send."""
    agents: str = "(?!)"
    """A pattern of how its SDKs begin their ``User-Agent``."""
    error_protocol: str | None = None
    """The wire whose errors its clients understand; ``None`` for that of OpenAI."""

    @property
    def url_variable(self) -> str:
        """The variable whose server is recorded from; empty where there is none."""
        return next(iter(self.url_variables), "")

    @property
    def sdk_key_variables(self) -> list[str]:
        """The variables without which many of its SDKs do not start."""
        return [name for name in self.key_variables if not name.startswith(_OWN_PREFIX)]

    @property
    def withheld_variables(self) -> list[str]:
        """What a command behind the gateway must not have."""
        return [*self.secret_variables, *set(self.key_variables).difference(self.sdk_key_variables)]


PROVIDERS: Final[dict[str, Provider]] = {
    "claude": Provider(
        kind="claude",
        base_url="https://api.anthropic.com",
        key_variables=("CORTEX_CLAUDE_API_KEY", "ANTHROPIC_API_KEY"),
        url_variables={"ANTHROPIC_BASE_URL": "", "ANTHROPIC_API_URL": ""},
        secret_variables=("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"),
        client_name="anthropic",
        protocols={"/v1/messages": "anthropic-messages"},
        own_paths=r"(?:/v1)*/(?:messages|complete)(?:/|$)",
        header="anthropic-version",
        agents="(?:Async)?Anthropic/",
        error_protocol="anthropic-messages",
    ),
    "ollama": Provider(
        kind="ollama",
        base_url="http://127.0.0.1:11434",
        url_variables={"OLLAMA_HOST": "", "OLLAMA_API_BASE": "", "OLLAMA_BASE_URL": "/v1"},
        secret_variables=("OLLAMA_API_KEY",),
        protocols={"/api/chat": "ollama-chat", "/api/generate": "ollama-generate"},
        own_paths=r"(?:/v1)*/api(?:/|$)",
        agents="ollama-python/",
        error_protocol="ollama-chat",
    ),
    "openai": Provider(
        kind="openai-compat",
        base_url="https://api.openai.com/v1",
        key_variables=("CORTEX_OPENAI_API_KEY", "OPENAI_API_KEY"),
        url_variables={"OPENAI_BASE_URL": "/v1", "OPENAI_API_BASE": "/v1"},
        secret_variables=("OPENAI_ADMIN_KEY", "OPENAI_CUSTOM_HEADERS"),
        protocols={"/v1/chat/completions": "openai-chat", "/v1/responses": "openai-responses"},
        own_paths=r"(?:/v1)*/(?:chat/completions|responses)/*$",
        agents="(?:Async)?(?:Azure)?OpenAI/",
        shared_paths=r"/(?:v1|chat|responses|completions|embeddings|models|files|batches|images|audio|moderations"
        r"|uploads|fine_tuning|vector_stores|conversations|videos|realtime|evals)(?:/|$)",
    ),
    "gemini": Provider(
        kind="gemini",
        base_url="https://generativelanguage.googleapis.com",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        url_variables={"GOOGLE_GEMINI_BASE_URL": ""},
        own_paths=r"/v1(?:beta|alpha)\d*/|/v1(?:(?:beta|alpha)\d*)?/(?:models|tunedModels)/[^/]+:[A-Za-z]+$",
        header="x-goog-api-key",
        agents="google-genai-sdk/",
    ),
    "scripted": Provider(kind="scripted"),
    "echo": Provider(kind="echo"),
}
"""By the name that a configuration has for each."""

PROTOCOLS: Final = {path: wire for row in PROVIDERS.values() for path, wire in row.protocols.items()}
"""The calls that are lifted, by the path that they are posted to, whoever is asked."""


def upstream_name(name: str) -> str:
    """What clients call a provider, by any of its names; another name is left as it is."""
    row = PROVIDERS.get(name)
    return name if row is None or row.client_name is None else row.client_name


def provider_name(upstream: str) -> str:
    """What a configuration calls a provider, by the name that clients have for it."""
    return next((name for name in PROVIDERS if upstream_name(name) == upstream), upstream)


def provider_of(upstream: str) -> Provider | None:
    """The provider that clients call by this name."""
    return next((row for name, row in PROVIDERS.items() if upstream_name(name) == upstream), None)
