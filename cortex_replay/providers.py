"""Every fact about providers, once: their names, servers, variables, headers and paths.

A provider is a row of :data:`PROVIDERS`; what it shares with all that speak the same API is its kind, a row
of :data:`KINDS`. Whoever needs a fact reads it here at that moment, so that a new row is known everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, unquote

__all__ = [
    "ANTHROPIC_VERSION",
    "DEFAULT_ALT",
    "DUMMY_KEY",
    "ENDPOINTS",
    "KINDS",
    "PROVIDERS",
    "Address",
    "Endpoint",
    "Kind",
    "KindRow",
    "Parameters",
    "Provider",
    "address_at",
    "endpoint_of",
    "provider_name",
    "provider_of",
    "upstream_name",
]

Kind = Literal[
    "claude",
    "ollama",
    "openai-compat",
    "openai-responses",
    "azure",
    "gemini",
    "bedrock",
    "http",
    "mcp",
    "scripted",
    "echo",
]

ANTHROPIC_VERSION: Final = "2023-06-01"
DUMMY_KEY: Final = "cortex-replay-dummy-key"
"""What clients are given instead of a key: they will not start without one. Whoever looks for a key does not
take it for one."""
_OWN_PREFIX: Final = "CORTEX_"
DEFAULT_ALT: Final = "json"
"""The form in which Google answers where the query names none."""


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


_SERVED: Final = frozenset(["base_url", "requests_per_minute"])
_WITH_KEY: Final = _SERVED | {"key_env", "key_file"}
KINDS: Final[dict[Kind, KindRow]] = {
    "claude": KindRow(
        _WITH_KEY | {"allow_latest", "version", "betas"}, "claude", ("x-api-key", ""), is_versioned=True
    ),
    "ollama": KindRow(_SERVED | {"allow_remote", "allow_unpinned"}, "ollama", is_versioned=True),
    "openai-compat": KindRow(_WITH_KEY | {"max_tokens_field"}, "openai", is_versioned=True),
    "openai-responses": KindRow(_WITH_KEY, "openai", is_versioned=True),
    "azure": KindRow(_WITH_KEY, None, ("api-key", "")),
    "gemini": KindRow(_WITH_KEY, "gemini", ("x-goog-api-key", "")),
    "bedrock": KindRow(_WITH_KEY, "bedrock"),
    "http": KindRow(_WITH_KEY),
    "mcp": KindRow(_WITH_KEY),
    "scripted": KindRow(frozenset(["script"])),
    "echo": KindRow(),
}


Parameters = tuple[tuple[str, str | bool], ...]
"""What a path says of a request, by the names that a body would have for it."""


class Address(NamedTuple):
    """What a path is to those who post to it."""

    protocol: str
    parameters: Parameters = ()
    alt: str | None = None
    """See :attr:`Endpoint.alt`."""


@dataclass(frozen=True)
class Endpoint:
    """Where the calls of a wire are posted."""

    path: str
    """``{model}`` stands for what a body of another wire would say; ``{*}`` for a segment that says nothing
    of the request."""
    protocol: str
    parameters: Parameters = ()
    """What the path says besides: that its answer is a stream, for instance."""
    models: str = ""
    """A pattern of the models whose calls these are, where others have another wire at the same path."""
    alt: str | None = None
    """The form of answer that the wire reads, by the name that the query has for it (``alt=sse``). One that
    is asked for in another form is recorded as it is. ``None`` where no query changes the form."""
    before: str = ".*"
    """A pattern of what may stand before it, below a server's own base."""

    @cached_property
    def _end(self) -> str:
        """What every path of it ends with."""
        return self.path.removeprefix("/v1").rpartition("}")[2]

    @cached_property
    def _exact(self) -> re.Pattern[str]:
        return re.compile(f"{_pattern_of(self.path)}/*")

    @cached_property
    def _tail(self) -> re.Pattern[str]:
        return re.compile(f"{self.before}{_pattern_of(self.path.removeprefix('/v1'))}/*")

    def match(self, path: str, *, is_tail: bool) -> Address | None:
        """What a path says, if it is this one; or if it ends so, whatever server it is below."""
        if not path.rstrip("/").endswith(self._end):  # before a pattern is made: few paths are this one
            return None
        found = (self._tail if is_tail else self._exact).fullmatch(path)
        if found is None:
            return None
        named = tuple((name, unquote(value)) for name, value in found.groupdict().items())
        if self.models and not re.search(self.models, dict(named)["model"]):
            return None
        return Address(self.protocol, named + self.parameters, self.alt)

    def split(self, body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The path and the body that a whole document is sent as."""
        names = re.findall(r"\{(\w+)\}", self.path)
        path = re.sub(r"\{(\w+)\}", lambda name: quote(str(body[name[1]]), safe=""), self.path)
        if self.alt not in (None, DEFAULT_ALT):
            path += f"?alt={self.alt}"
        apart = {*names, *dict(self.parameters)}
        return path, {name: value for name, value in body.items() if name not in apart}


def _pattern_of(path: str) -> str:
    *pieces, last = re.split(r"\{(\*|\w+)\}", path)
    named = ("[^/]+" if name == "*" else f"(?P<{name}>[^/]+)" for name in pieces[1::2])
    return "".join(
        re.escape(fixed) + name for fixed, name in zip(pieces[::2], named, strict=True)
    ) + re.escape(last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider that is there without any configuration."""

    kind: Kind
    base_url: str = ""
    """Its own server; empty where there is none, or where every user has another."""
    key_variables: tuple[str, ...] = ()
    """The environment variables that may hold its key; those of ``CORTEX_`` are ours, the others SDKs'."""
    signing_variables: tuple[str, ...] = ()
    """The variables of what its SDKs sign with, where they send no key; without them many do not start."""
    other_credentials: tuple[str, ...] = ()
    """Variables and files by which its SDKs find other credentials; dummies would go before them."""
    session_variable: str = ""
    """The variable of what goes along with a signature."""
    url_variables: Mapping[str, str] = field(default_factory=dict)
    """Where its SDKs look for a server, and what they want behind it; where that is nothing, they bring the
    path of its API themselves. The first also names the server to record from."""
    secret_variables: tuple[str, ...] = ()
    """What else its SDKs send from the environment; a command behind the gateway does not get it."""
    alternative_to: str = ""
    """The provider whose clients it has: they take its variables for a choice between the two, and its header
    tells which they made."""
    client_name: str | None = None
    """What clients of the gateway and recordings call it, if not by its name in a configuration."""
    endpoints: tuple[Endpoint, ...] = ()
    """The calls that are lifted; none for those of its kind's service. Of several for one wire we ask the
    first ourselves."""
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
    def protocols(self) -> frozenset[str]:
        """The wires of the calls that are lifted."""
        service = KINDS[self.kind].service
        row = self if self.endpoints or service is None else PROVIDERS[service]
        return frozenset(endpoint.protocol for endpoint in row.endpoints)

    def is_wanted(self, environment: Mapping[str, str]) -> bool:
        """Whether a command is to find its variables, given the environment that we have."""
        named = (*self.key_variables, *self.url_variables)
        return not self.alternative_to or any(environment.get(name) for name in named)

    @property
    def sdk_key_variables(self) -> list[str]:
        """The variables without which many of its SDKs do not start."""
        names = self.signing_variables or self.key_variables
        return [name for name in names if not name.startswith(_OWN_PREFIX)]

    @property
    def withheld_variables(self) -> list[str]:
        """What a command behind the gateway must not have."""
        return [*self.secret_variables, *set(self.key_variables).difference(self.sdk_key_variables)]


_WHOLE: Final[Parameters] = (("stream", False),)
_STREAM: Final[Parameters] = (("stream", True),)
_CLAUDE: Final = r"(?:^|[./])anthropic\.(?!claude-(?:v\d|instant))"
"""Those that speak its Messages API: the oldest take a prompt."""
_NOVA: Final = r"(?:^|[./])amazon\.nova-(?!canvas|reel|sonic|.*embed)"
"""Nova's models that converse; its others have bodies of their own."""


def _generate_content(*folders: str) -> tuple[Endpoint, ...]:
    """Both calls of Gemini's API, in each folder of models."""
    calls = (("generateContent", False, DEFAULT_ALT), ("streamGenerateContent", True, "sse"))
    return tuple(
        Endpoint(f"{folder}/{{model}}:{name}", "gemini-generate", (("stream", is_stream),), alt=alt)
        for folder in folders
        for name, is_stream, alt in calls
    )


_VERTEX_PROJECT: Final = "/{*}/projects/{*}/locations/{*}/publishers"

PROVIDERS: Final[dict[str, Provider]] = {
    "claude": Provider(
        kind="claude",
        base_url="https://api.anthropic.com",
        key_variables=("CORTEX_CLAUDE_API_KEY", "ANTHROPIC_API_KEY"),
        url_variables={"ANTHROPIC_BASE_URL": "", "ANTHROPIC_API_URL": ""},
        secret_variables=("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"),
        client_name="anthropic",
        endpoints=(Endpoint("/v1/messages", "anthropic-messages"),),
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
        endpoints=(Endpoint("/api/chat", "ollama-chat"), Endpoint("/api/generate", "ollama-generate")),
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
        endpoints=(
            Endpoint("/v1/chat/completions", "openai-chat"),
            Endpoint("/v1/responses", "openai-responses"),
            Endpoint("/v1/completions", "openai-completions", before=".*(?<!/chat)(?<!/fim)"),
        ),
        own_paths=r"(?:/v1)*/(?:chat/completions|responses|completions)/*$",
        agents="(?:Async)?OpenAI/",
        shared_paths=r"/(?:v1|chat|responses|completions|embeddings|models|files|batches|images|audio|moderations"
        r"|uploads|fine_tuning|vector_stores|conversations|videos|realtime|evals)(?:/|$)",
    ),
    "gemini": Provider(
        kind="gemini",
        base_url="https://generativelanguage.googleapis.com",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        url_variables={"GOOGLE_GEMINI_BASE_URL": "", "GEMINI_API_BASE": "/v1beta"},
        endpoints=(
            *_generate_content("/v1beta/models", "/{*}/models"),
            Endpoint("/v1beta/openai/chat/completions", "openai-chat"),
        ),
        own_paths=r"/v1(?:beta|alpha)\d*/(?!projects/|publishers/)"
        r"|/v1(?:(?:beta|alpha)\d*)?/(?:models|tunedModels)/[^/]+:[A-Za-z]+$",
        header="x-goog-api-key",
        agents="google-genai-sdk/",
        error_protocol="gemini-generate",
    ),
    "vertex": Provider(
        kind="gemini",
        base_url="https://aiplatform.googleapis.com",
        url_variables={"GOOGLE_VERTEX_BASE_URL": "", "ANTHROPIC_VERTEX_BASE_URL": "/v1"},
        endpoints=(
            *_generate_content(f"{_VERTEX_PROJECT}/google/models", "/{*}/publishers/google/models"),
            Endpoint(f"{_VERTEX_PROJECT}/anthropic/models/{{model}}:rawPredict", "anthropic-messages"),
            Endpoint(
                f"{_VERTEX_PROJECT}/anthropic/models/{{model}}:streamRawPredict",
                "anthropic-messages",
                (("stream", True),),
            ),
        ),
        own_paths=r"/v1(?:(?:beta|alpha)\d*)?/(?:projects|publishers)/",
        error_protocol="gemini-generate",
    ),
    "bedrock": Provider(
        kind="bedrock",
        base_url="https://bedrock-runtime.us-east-1.amazonaws.com",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        signing_variables=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        other_credentials=(
            *("AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
            *("AWS_CONTAINER_CREDENTIALS_FULL_URI", "~/.aws/credentials", "~/.aws/config"),
        ),
        session_variable="AWS_SESSION_TOKEN",
        secret_variables=("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"),
        url_variables={
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "",
            "AWS_BEDROCK_RUNTIME_ENDPOINT": "",
            "ANTHROPIC_BEDROCK_BASE_URL": "",
        },
        endpoints=(
            Endpoint("/model/{model}/converse", "bedrock-converse", _WHOLE),
            Endpoint("/model/{model}/converse-stream", "bedrock-converse", _STREAM),
            Endpoint("/model/{model}/invoke", "bedrock-anthropic", _WHOLE, _CLAUDE),
            Endpoint("/model/{model}/invoke-with-response-stream", "bedrock-anthropic", _STREAM, _CLAUDE),
            Endpoint("/model/{model}/invoke", "bedrock-nova", _WHOLE, _NOVA),
            Endpoint("/model/{model}/invoke-with-response-stream", "bedrock-nova", _STREAM, _NOVA),
        ),
        own_paths=r"/model/[^/]+/",
        agents="(?:Async)?AnthropicBedrock/",
        error_protocol="bedrock-converse",
    ),
    "azure": Provider(
        kind="azure",
        key_variables=("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
        url_variables={"AZURE_OPENAI_ENDPOINT": "", "AZURE_API_BASE": ""},
        secret_variables=("AZURE_OPENAI_AD_TOKEN", "AZURE_AD_TOKEN"),
        alternative_to="openai",
        endpoints=(
            Endpoint("/openai/v1/chat/completions", "openai-chat"),
            Endpoint("/openai/v1/responses", "openai-responses"),
            Endpoint("/openai/v1/completions", "openai-completions"),
            Endpoint("/openai/deployments/{model}/chat/completions", "openai-chat"),
            Endpoint("/openai/deployments/{model}/completions", "openai-completions"),
            Endpoint("/openai/responses", "openai-responses"),
            Endpoint("/models/chat/completions", "openai-chat"),
            Endpoint("/anthropic/v1/messages", "anthropic-messages"),
        ),
        own_paths=r"/models/chat/completions/*$",
        header="api-key",
        agents="(?:Async)?AzureOpenAI/|azsdk-[a-z]+-ai-inference/",
    ),
    "mistral": Provider(
        kind="openai-compat",
        base_url="https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
        url_variables={"MISTRAL_BASE_URL": "/v1"},
        agents="mistral-client-",
    ),
    "cohere": Provider(
        kind="http",
        base_url="https://api.cohere.com",
        key_variables=("CO_API_KEY", "COHERE_API_KEY"),
        url_variables={"CO_API_URL": ""},
        endpoints=(Endpoint("/v2/chat", "cohere-chat"),),
        own_paths=r"/v2/(?:chat|embed|rerank)/*$",
        agents="cohere(?:-ai)?/",
        error_protocol="cohere-chat",
    ),
    "groq": Provider(
        kind="openai-compat",
        base_url="https://api.groq.com/openai/v1",
        key_variables=("GROQ_API_KEY",),
        url_variables={"GROQ_BASE_URL": ""},
        secret_variables=("GROQ_CUSTOM_HEADERS",),
        agents="(?:Async)?Groq/",
    ),
    "xai": Provider(
        kind="openai-compat",
        base_url="https://api.x.ai/v1",
        key_variables=("XAI_API_KEY",),
        url_variables={"XAI_BASE_URL": "/v1"},
    ),
    "deepseek": Provider(
        kind="openai-compat",
        base_url="https://api.deepseek.com/v1",
        key_variables=("DEEPSEEK_API_KEY",),
        url_variables={"DEEPSEEK_API_BASE": "/v1", "DEEPSEEK_BASE_URL": "/v1"},
        endpoints=(
            Endpoint("/v1/chat/completions", "openai-chat"),
            Endpoint("/beta/chat/completions", "openai-chat"),
            Endpoint("/beta/completions", "openai-completions"),
            Endpoint("/anthropic/v1/messages", "anthropic-messages"),
        ),
        own_paths=r"/beta/(?:chat/)?completions/*$",
    ),
    "openrouter": Provider(
        kind="openai-compat",
        base_url="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
        url_variables={"OPENROUTER_BASE_URL": "/v1", "OPENROUTER_API_BASE": "/v1"},
    ),
    "together": Provider(
        kind="openai-compat",
        base_url="https://api.together.ai/v1",
        key_variables=("TOGETHER_API_KEY",),
        url_variables={"TOGETHER_BASE_URL": "/v1"},
        secret_variables=("TOGETHER_CUSTOM_HEADERS",),
        agents="(?:Async)?Together/",
    ),
    "fireworks": Provider(
        kind="openai-compat",
        base_url="https://api.fireworks.ai/inference/v1",
        key_variables=("FIREWORKS_API_KEY",),
        url_variables={"FIREWORKS_BASE_URL": ""},
        secret_variables=("FIREWORKS_CUSTOM_HEADERS",),
        agents="(?:Async)?Fireworks/",
    ),
    "cerebras": Provider(
        kind="openai-compat",
        base_url="https://api.cerebras.ai/v1",
        key_variables=("CEREBRAS_API_KEY",),
        url_variables={"CEREBRAS_BASE_URL": ""},
        secret_variables=("CEREBRAS_CUSTOM_HEADERS",),
        agents="(?:Async)?Cerebras/",
    ),
    "scripted": Provider(kind="scripted"),
    "echo": Provider(kind="echo"),
}
"""By the name that a configuration has for each."""

ENDPOINTS: Final = tuple(endpoint for row in PROVIDERS.values() for endpoint in row.endpoints)
"""The calls that are lifted, whoever is asked."""
_LONGEST_FIRST: Final = sorted(ENDPOINTS, key=lambda endpoint: -len(endpoint.path))
"""What ends as another does says more than that one."""


@lru_cache(maxsize=256)  # a client posts to the same few
def address_at(path: str, *, is_tail: bool = False) -> Address | None:
    """What is posted to a path, where it is a call that is lifted.

    Args:
        path: As a client sent it.
        is_tail: Whether anything may stand before it: a server's own base, or another spelling of it.
    """
    found = (endpoint.match(path, is_tail=is_tail) for endpoint in _LONGEST_FIRST)
    return next((address for address in found if address is not None), None)


def endpoint_of(protocol: str, *, stream: bool, upstream: str = "") -> Endpoint:
    """Where we post a call of a wire ourselves.

    Args:
        protocol: The wire.
        stream: Whether the answer is to be a stream.
        upstream: Whom we ask, by the name that clients have for it; its own paths come first.
    """
    row = provider_of(upstream)
    return next(
        endpoint
        for endpoint in (*(row.endpoints if row else ()), *ENDPOINTS)
        if endpoint.protocol == protocol and dict(endpoint.parameters).get("stream", stream) == stream
    )


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
