"""From a path to a provider and what is asked of it."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.engine.http.routes import path_problem
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.providers import ENDPOINTS

CUSTOM = Settings(
    providers={
        "router": ProviderSettings(kind="http", base_url="https://example.com/api/v1"),
        "vllm": ProviderSettings(kind="openai-compat", base_url="http://127.0.0.1:8000/v1"),
    }
)


def route(method: str, path: str, upstreams: Upstreams | None = None, **headers: str) -> Any:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    found = (upstreams or Upstreams(CUSTOM)).route(method, path, lambda name: given.get(name, ""))
    return found and (found.upstream, found.path, found.protocol)


@pytest.mark.parametrize("versions", ["", "/v1", "/v1/v1"])
@pytest.mark.parametrize(
    ("prefix", "rest", "expected"),
    [
        ("/anthropic", "/messages", ("anthropic", "/v1/messages", "anthropic-messages")),
        ("/claude", "/messages", ("anthropic", "/v1/messages", "anthropic-messages")),
        ("", "/messages", ("anthropic", "/v1/messages", "anthropic-messages")),
        ("/anthropic", "/messages/count_tokens", ("anthropic", "/v1/messages/count_tokens", None)),
        ("/openai", "/chat/completions", ("openai", "/v1/chat/completions", "openai-chat")),
        ("", "/chat/completions", ("openai", "/v1/chat/completions", "openai-chat")),
        ("/openai", "/responses", ("openai", "/v1/responses", "openai-responses")),
        ("/openai", "/embeddings", ("openai", "/v1/embeddings", None)),
        ("/openai", "/completions", ("openai", "/v1/completions", "openai-completions")),
        ("", "/completions", ("openai", "/v1/completions", "openai-completions")),
        ("/mistral", "/fim/completions", ("mistral", "/v1/fim/completions", None)),
        ("/vllm", "/chat/completions", ("vllm", "/v1/chat/completions", "openai-chat")),
        ("/ollama", "/chat/completions", ("ollama", "/v1/chat/completions", "openai-chat")),
        ("/ollama", "/api/chat", ("ollama", "/api/chat", "ollama-chat")),
        ("", "/api/generate", ("ollama", "/api/generate", "ollama-generate")),
        ("", "/api/show", ("ollama", "/api/show", None)),
    ],
)
def test_any_number_of_versions(versions: str, prefix: str, rest: str, expected: Any) -> None:
    assert route("POST", prefix + versions + rest) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/azure/openai/deployments/mine/chat/completions", "openai-chat"),
        ("/azure/openai/deployments/mine/completions", "openai-completions"),
        ("/azure/openai/deployments/mine/embeddings", None),
        ("/azure/openai/responses", "openai-responses"),
        ("/azure/openai/v1/chat/completions", "openai-chat"),
        ("/azure/openai/v1/responses", "openai-responses"),
        ("/azure/models/chat/completions", "openai-chat"),
        ("/azure/anthropic/v1/messages", "anthropic-messages"),
        ("/cohere/v2/chat", "cohere-chat"),
        ("/cohere/v1/chat", None),
        ("/deepseek/beta/completions", "openai-completions"),
        ("/deepseek/anthropic/v1/messages", "anthropic-messages"),
    ],
)
def test_an_api_with_paths_of_its_own_keeps_them(path: str, expected: str | None) -> None:
    name, _, rest = path[1:].partition("/")

    assert route("POST", path) == (name, f"/{rest}", expected)


def test_a_client_of_azure_that_follows_the_variable_of_openai_is_led_back() -> None:
    """As the JavaScript one does. Its header tells, whatever was remembered of the path; but a server that
    OpenAI's variable names may want that header, too, and is asked where there is no Azure."""
    upstreams = Upstreams(Settings(), {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com"})
    for _ in range(2):
        azure = ("azure", "/openai/responses", "openai-responses")
        assert route("POST", "/openai/v1/responses", upstreams, api_key="k") == azure
        openai = ("openai", "/v1/responses", "openai-responses")
        assert route("POST", "/openai/v1/responses", upstreams) == openai
    path = "/openai/v1/deployments/mine/chat/completions"
    expected = ("azure", "/openai/deployments/mine/chat/completions", "openai-chat")
    assert route("POST", path, upstreams, api_key="k") == expected
    assert route("POST", "/openai/v1/responses", api_key="k") == openai


def test_a_deployment_in_a_path_is_the_model() -> None:
    found = Upstreams(CUSTOM).route(
        "POST", "/azure/openai/deployments/my%20gpt/chat/completions", lambda _: ""
    )

    assert found is not None
    assert found.parameters == (("model", "my gpt"),)


@pytest.mark.parametrize(
    ("name", "base", "own"),
    [
        ("groq", "/openai", "https://api.groq.com/openai"),
        ("fireworks", "/inference", "https://api.fireworks.ai/inference"),
        ("openrouter", "/api", "https://openrouter.ai/api"),
    ],
)
def test_a_client_may_bring_the_path_of_the_api_or_not(name: str, base: str, own: str) -> None:
    upstreams = Upstreams(Settings())

    assert upstreams[name].base_url == own
    for brought in ("/v1", base + "/v1"):
        expected = (name, "/v1/chat/completions", "openai-chat")
        assert route("POST", f"/{name}{brought}/chat/completions", upstreams) == expected


@pytest.mark.parametrize("given", ["http://127.0.0.1:9", "http://127.0.0.1:9/openai/v1"])
def test_the_path_of_an_api_follows_where_its_sdk_brings_it(given: str) -> None:
    """Groq's SDK takes a server alone, and asks below ``/openai/v1``."""
    upstreams = Upstreams(Settings(), {"GROQ_BASE_URL": given})

    assert upstreams["groq"].base_url == "http://127.0.0.1:9/openai"


def test_lists_of_models_are_told_apart_by_headers() -> None:
    """Three providers have the same path."""
    upstreams = Upstreams(Settings())

    for _ in range(2):  # what is remembered of a path must not decide
        assert route("GET", "/v1/models", upstreams, anthropic_version="2023-06-01")[0] == "anthropic"
        assert route("GET", "/v1/models", upstreams, x_goog_api_key="k")[0] == "gemini"
        assert route("GET", "/v1/models", upstreams)[0] == "openai"
    assert route("GET", "/api/tags", upstreams) == ("ollama", "/api/tags", None)


@pytest.mark.parametrize("path", [endpoint.path.replace("/{*}", "/v1") for endpoint in ENDPOINTS])
def test_no_header_decides_about_a_call_that_is_lifted(path: str) -> None:
    """What is remembered of its path would send the next client's call to the wrong provider."""
    for headers in ({"x_goog_api_key": "k"}, {"anthropic_version": "2023-06-01"}):
        upstreams = Upstreams(Settings())
        assert route("POST", path, upstreams, **headers) == route("POST", path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/gemini/v1beta/models/g:embedContent", ("gemini", "/v1beta/models/g:embedContent", None)),
        ("/v1beta1/projects/p/locations", ("vertex", "/v1beta1/projects/p/locations", None)),
        ("/v1/models/g:countTokens", ("gemini", "/v1/models/g:countTokens", None)),
        ("/router/v1/v1/rerank", ("router", "/v1/rerank", None)),
        ("/router/anything", ("router", "/anything", None)),
        ("/ollama/", ("ollama", "/", None)),
        ("/ollama", ("ollama", "/", None)),
    ],
)
def test_other_providers(path: str, expected: Any) -> None:
    assert route("POST", path) == expected


def test_nobody_is_elsewhere() -> None:
    for path in ("/", "/favicon.ico", "/metrics", "/anthropicc/v1/messages2", "/api2/chat"):
        assert route("GET", path) is None, path


def test_only_a_post_is_lifted() -> None:
    assert route("GET", "/openai/v1/responses")[2] is None


@pytest.mark.parametrize(
    ("variable", "value", "name", "base"),
    [
        ("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1/", "openai", "http://127.0.0.1:8080"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8080", "anthropic", "http://127.0.0.1:8080"),
        ("OLLAMA_HOST", "127.0.0.1:9999", "ollama", "http://127.0.0.1:9999"),
        ("OLLAMA_HOST", "box", "ollama", "http://box:11434"),
    ],
)
def test_the_server_that_sdks_are_told_of_is_the_one_that_is_recorded(
    variable: str, value: str, name: str, base: str
) -> None:
    environment = {variable: value, "OPENAI_API_KEY": "k1", "ANTHROPIC_API_KEY": "k2"}
    upstream = Upstreams(Settings(), environment)[name]

    assert upstream.base_url == base
    assert upstream.key(environment) == {"openai": "k1", "anthropic": "k2"}.get(name)


def test_a_key_does_not_reach_a_server_that_it_was_not_made_for() -> None:
    environment = {"OPENAI_API_KEY": "k1"}

    assert Upstreams(Settings(), environment)["openai"].key(environment) == "k1"
    assert Upstreams(CUSTOM, environment)["vllm"].key(environment) is None
    named = Upstreams(Settings(), environment, {"openai": "https://example.com/v1"})
    assert named["openai"].key(environment) is None
    assert named["openai"].base_url == "https://example.com"


VERTEX = "/v1beta1/projects/p/locations/us-central1/publishers"


@pytest.mark.parametrize(
    ("path", "upstream", "protocol", "said"),
    [
        ("/v1beta/openai/chat/completions", "gemini", "openai-chat", {}),
        ("/v1beta/models/g:generateContent", "gemini", "gemini-generate", {"model": "g", "stream": False}),
        ("/v1/models/g:generateContent", "gemini", "gemini-generate", {"model": "g", "stream": False}),
        (
            "/gemini/v1alpha/models/g:streamGenerateContent",
            "gemini",
            "gemini-generate",
            {"model": "g", "stream": True},
        ),
        (
            f"{VERTEX}/google/models/g:generateContent",
            "vertex",
            "gemini-generate",
            {"model": "g", "stream": False},
        ),
        (
            "/vertex/v1/publishers/google/models/g:generateContent",
            "vertex",
            "gemini-generate",
            {"model": "g", "stream": False},
        ),
        (f"{VERTEX}/anthropic/models/c@1:rawPredict", "vertex", "anthropic-messages", {"model": "c@1"}),
        (
            f"/vertex{VERTEX}/anthropic/models/c@1:streamRawPredict",
            "vertex",
            "anthropic-messages",
            {"model": "c@1", "stream": True},
        ),
        (f"{VERTEX}/mistralai/models/m:rawPredict", "vertex", None, {}),
    ],
)
def test_google_names_the_model_in_its_paths(
    path: str, upstream: str, protocol: str | None, said: dict[str, Any]
) -> None:
    found = Upstreams(Settings()).route("POST", path, lambda _: "")

    assert found is not None
    assert (found.upstream, found.protocol, dict(found.parameters)) == (upstream, protocol, said)


@pytest.mark.parametrize(
    ("name", "query", "is_lifted"),
    [
        ("streamGenerateContent", "alt=sse", True),
        ("streamGenerateContent", "key=k&alt=sse&prettyPrint=false", True),
        ("streamGenerateContent", "%24alt=sse", True),
        ("streamGenerateContent", "", False),
        ("streamGenerateContent", "alt=json", False),
        ("streamGenerateContent", "alt=sse&alt=json", False),
        ("generateContent", "", True),
        ("generateContent", "alt=json&key=k", True),
        ("generateContent", "$alt=json;enum-encoding=int", False),
        ("generateContent", "alt=sse", False),
    ],
)
def test_google_answers_in_the_form_that_the_query_names(name: str, query: str, is_lifted: bool) -> None:
    """One that no wire reads is recorded as it is."""
    found = Upstreams(Settings()).route("POST", f"/v1beta/models/g:{name}", lambda _: "")

    assert found is not None
    assert found.is_lifted(query) is is_lifted


def test_a_server_of_mcp_is_no_upstream() -> None:
    """Its calls are messages, and its key goes out with nothing else."""
    settings = Settings(providers={"docs": ProviderSettings(kind="mcp", base_url="https://docs.example/mcp")})
    upstreams = Upstreams(settings, {}, {"docs": "http://a/mcp", "mcp:other": "http://b/mcp"})

    assert not {"docs", "other", "mcp:other"} & set(upstreams.names)
    assert route("POST", "/docs/anything", upstreams) is None


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/v1/messages", None),
        ("/v1/m%20x", None),
        ("/v1/ü", None),
        ("v1", "does not begin with a slash"),
        ("/v1/%zz", "has a percent sign that escapes nothing"),
        ("/v1/../x", "has a segment of dots"),
        ("/v1/%2e%2E/x", "has a segment of dots"),
        ("/v1/%252e%252e/x", "has a segment of dots"),
        ("/v1/..;a=b/x", "has a segment of dots"),
        ("/v1/．．/x", "has a segment of dots"),
        ("/v1/%" + "25" * 20 + "2e", "is escaped again and again"),
        ("/v1/%ff", "has an escape that is no character"),
        ("/v1/%5cx", "has a backslash"),
        ("/v1/%0ax", "has a control character"),
    ],
)
def test_a_path_that_could_lead_out_of_a_provider_s_own_is_named(path: str, problem: str | None) -> None:
    assert path_problem(path) == problem
