"""A provider is one row of a table: whoever needs a fact about it finds it there."""

from __future__ import annotations

import ast
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import cortex_replay
from cortex_replay.cassettes.interactions import Interaction
from cortex_replay.cassettes.places import Places
from cortex_replay.cli.runs import overrides_in
from cortex_replay.config import ProviderSettings, Settings, key_for, load_settings
from cortex_replay.config.trust import needed_consent
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.providers import (
    DUMMY_KEY,
    ENDPOINTS,
    KINDS,
    PROVIDERS,
    Address,
    Endpoint,
    Provider,
    provider_of,
    upstream_name,
)
from cortex_replay.run.adapters import adapter_for
from cortex_replay.run.environment import command_environment
from cortex_replay.wire import WIRES

ACME = Provider(
    kind="openai-compat",
    base_url="https://llm.acme.example/v1",
    key_variables=("CORTEX_ACME_API_KEY", "ACME_API_KEY"),
    url_variables={"ACME_BASE_URL": "/v1", "ACME_HOST": ""},
    secret_variables=("ACME_ADMIN_KEY",),
    client_name="acme-ai",
    own_paths=r"/acme-native(?:/|$)",
    header="x-acme-client",
    error_protocol="ollama-chat",
)
KEY = "a-key-of-acme-0001"


@pytest.fixture(autouse=True)
def _acme(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more row."""
    monkeypatch.setitem(PROVIDERS, "acme", ACME)


def route(path: str, **headers: str) -> tuple[str, str, str | None] | None:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    found = Upstreams(Settings()).route("POST", path, lambda name: given.get(name, ""))
    return None if found is None else (found.upstream, found.path, found.protocol)


def test_settings_have_a_new_provider_with_its_own_server_and_key() -> None:
    """And not those of the service that others of its kind mean by default."""
    provider = Settings().provider_named("acme")

    assert provider.base_url == ACME.base_url
    assert provider.key_variables == ACME.key_variables
    assert key_for(provider, {"ACME_API_KEY": KEY, "OPENAI_API_KEY": "another-0002"}) == KEY


@pytest.mark.parametrize("text", ['models = ["m"]', 'kind = "openai-compat"'])
def test_a_file_that_names_no_server_leaves_it_where_it_is(tmp_path: Path, text: str) -> None:
    """Also if the user's own file names one: that holds."""
    (tmp_path / "home/.config/cortex-replay").mkdir(parents=True)
    (tmp_path / "cortex-replay.toml").write_text(f"[providers.acme]\n{text}")
    environment = {"HOME": str(tmp_path / "home")}

    assert load_settings(tmp_path, environment).settings.providers["acme"].base_url == ACME.base_url
    own = tmp_path / "home/.config/cortex-replay/config.toml"
    own.write_text('[providers.acme]\nbase_url = "https://mine.example"')
    assert load_settings(tmp_path, environment).settings.providers["acme"].base_url == "https://mine.example"


@pytest.mark.parametrize(
    ("kind", "base_url", "expected"),
    [
        ("openai-compat", ACME.base_url, ACME.key_variables),
        ("openai-compat", "https://LLM.acme.example:443/other", ACME.key_variables),
        ("openai-compat", "http://llm.acme.example/v1", ()),
        ("openai-compat", "https://llm.acme.example.evil.example/v1", ()),
        ("claude", ACME.base_url, ()),
        ("http", ACME.base_url, ()),
        ("openai-compat", None, PROVIDERS["openai"].key_variables),
        ("openai-responses", None, PROVIDERS["openai"].key_variables),
    ],
)
def test_its_key_is_for_its_server_alone(kind: str, base_url: str | None, expected: tuple[str, ...]) -> None:
    assert ProviderSettings(kind=kind, base_url=base_url).key_variables == expected  # type: ignore[arg-type]


def test_a_project_needs_no_consent_for_the_own_key_at_the_own_server(tmp_path: Path) -> None:
    """And does for a key of another name, or at another server."""

    def consent(base_url: str, key_env: str) -> str:
        text = f'[providers.acme]\nbase_url = "{base_url}"\nkey_env = "{key_env}"'
        (tmp_path / "cortex-replay.toml").write_text(text)
        provider = load_settings(tmp_path, {}).settings.providers["acme"]
        return str(needed_consent(provider, key_env, "key_env"))

    assert consent(ACME.base_url, "ACME_API_KEY") == "None"
    assert consent(ACME.base_url, "OPENAI_API_KEY") == "https://llm.acme.example=OPENAI_API_KEY"
    assert consent("https://evil.example", "ACME_API_KEY") == "https://evil.example=ACME_API_KEY"


def test_the_gateway_reaches_it_by_both_names() -> None:
    expected = ("acme-ai", "/v1/chat/completions", "openai-chat")

    assert route("/acme/chat/completions") == expected
    assert route("/acme-ai/v1/v1/chat/completions") == expected
    assert route("/acme-native/things") == ("acme-ai", "/v1/acme-native/things", None)
    assert route("/v1/models", x_acme_client="1") == ("acme-ai", "/v1/models", None)
    assert route("/v1/models") == ("openai", "/v1/models", None)


def test_a_server_in_the_environment_is_the_one_that_is_recorded() -> None:
    """With the key of its SDK, unless a configuration made another provider of it."""
    environment = {"ACME_BASE_URL": "https://mine.example/v1", "ACME_API_KEY": KEY}
    upstream = Upstreams(Settings(), environment)["acme-ai"]
    assert (upstream.base_url, upstream.key(environment)) == ("https://mine.example", KEY)

    for kind, base_url in (("openai-compat", None), ("http", ACME.base_url), ("claude", ACME.base_url)):
        other = ProviderSettings(kind=kind, base_url=base_url)  # type: ignore[arg-type]
        upstream = Upstreams(Settings(providers={"acme": other}), environment)["acme-ai"]
        assert upstream.base_url != "https://mine.example"
        assert upstream.key(environment) is None


def test_a_command_behind_the_gateway_is_told() -> None:
    """Its SDKs come to us, and have no key."""
    environment = dict.fromkeys(("ACME_API_KEY", "CORTEX_ACME_API_KEY", "ACME_ADMIN_KEY"), KEY)
    made = command_environment(environment, Settings(), lambda name: f"http://gateway/{name}")

    assert KEY not in made.values()
    assert made["ACME_API_KEY"] == DUMMY_KEY
    assert not {"CORTEX_ACME_API_KEY", "ACME_ADMIN_KEY"} & made.keys()
    assert made["ACME_BASE_URL"] == "http://gateway/acme-ai/v1"
    assert made["ACME_HOST"] == "http://gateway/acme-ai"


def test_the_command_line_knows_both_names() -> None:
    assert overrides_in(["acme=http://one.example"]) == {"acme-ai": "http://one.example"}
    assert overrides_in(["acme-ai=http://one.example"]) == {"acme-ai": "http://one.example"}


def test_a_cassette_of_its_host_is_its_own() -> None:
    places = Places(Upstreams(Settings(), {"ACME_BASE_URL": "https://mine.example"}), {})
    asked = Interaction("POST", "llm.acme.example", "/v1/chat/completions", "", (), b"{}", 200, (), b"")
    found = places.route(asked)

    assert found is not None
    assert (found.upstream, found.protocol) == ("acme-ai", "openai-chat")


def test_it_has_an_adapter() -> None:
    adapter = adapter_for(Settings(), "acme")

    assert "https://llm.acme.example" in repr(adapter)


def test_errors_are_those_that_its_clients_understand() -> None:
    row = provider_of("acme-ai")

    assert row is ACME
    assert provider_of("acme") is None
    assert {PROVIDERS[name].error_protocol for name in PROVIDERS} <= {None, *WIRES}


def test_the_rows_agree_with_each_other() -> None:
    """Names are unambiguous, kinds name services that are there, and every lifted path has a wire."""
    clients = [upstream_name(name) for name in PROVIDERS]
    variables = [variable for row in PROVIDERS.values() for variable in row.url_variables]

    assert len(set(clients)) == len(clients)
    assert len(set(variables)) == len(variables)
    assert all(row.service in (None, *PROVIDERS) for row in KINDS.values())
    assert {endpoint.protocol for endpoint in ENDPOINTS} == set(WIRES)


def test_no_other_module_has_a_fact_of_its_own() -> None:
    """Servers, hosts, variables and headers of providers stand in the table and nowhere else."""
    rows = [row for name, row in PROVIDERS.items() if name != "acme"]
    facts = {row.base_url for row in rows} | {urlsplit(row.base_url).netloc for row in rows}
    facts |= {one for row in rows for one in (*row.key_variables, *row.url_variables, *row.secret_variables)}
    package = Path(cortex_replay.__file__).parent
    copies = [
        f"{path.relative_to(package)}: {node.value}"
        for path in package.rglob("*.py")
        if path != package / "providers.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in facts - {""}
    ]

    assert copies == []


def test_a_path_says_what_a_body_would() -> None:
    endpoint = Endpoint("/v1/{*}/models/{model}:ask", "openai-chat", (("stream", True),))

    found = endpoint.match("/v1/anything/models/big%2Fone:2:ask", is_tail=False)

    assert found == Address("openai-chat", (("model", "big/one:2"), ("stream", True)))
    assert endpoint.match("/v1/two/steps/models/m:ask", is_tail=False) is None
    assert endpoint.match("/base/v9/two/models/m:ask/", is_tail=True) == Address(
        "openai-chat", (("model", "m"), ("stream", True))
    )
    assert endpoint.match("/base/v9/two/models/m:ask/more", is_tail=True) is None


def test_a_document_is_sent_as_a_path_and_a_body() -> None:
    endpoint = Endpoint("/model/{model}/ask", "openai-chat", (("stream", True),))
    document = {"model": "arn:aws/big one", "stream": True, "messages": []}

    path, body = endpoint.split(document)

    assert (path, body) == ("/model/arn%3Aaws%2Fbig%20one/ask", {"messages": []})
    found = endpoint.match(path, is_tail=False)
    assert found is not None
    assert body | dict(found.parameters) == document
