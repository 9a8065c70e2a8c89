"""Which hosts a proxy speaks for."""

from __future__ import annotations

import pytest

from cortex_replay.config import ProviderSettings, Settings
from cortex_replay.config.servers import Server
from cortex_replay.engine.http.model_hosts import ModelHosts
from cortex_replay.engine.http.upstreams import Upstreams
from cortex_replay.errors import InvalidRequest
from cortex_replay.providers import PROVIDERS

MINE = Settings(
    providers={
        "mine": ProviderSettings(kind="openai-compat", base_url="https://llm.corp.example:8443/v1"),
        "plain": ProviderSettings(kind="openai-compat", base_url="http://llm.lan:8080/v1"),
        "here": ProviderSettings(kind="openai-compat", base_url="http://localhost:9000/v1"),
    }
)


def hosts(*named: str) -> ModelHosts:
    return ModelHosts(Upstreams(MINE), named)


def test_every_provider_is_known_where_its_service_is() -> None:
    """Also where a configuration, as this one, does not name it."""
    for row in PROVIDERS.values():
        if row.base_url.startswith("https://"):
            host = row.base_url.split("/")[2]
            assert hosts().server_at(host, 443) == Server("https", host, 443)


@pytest.mark.parametrize(
    ("host", "port", "scheme"),
    [
        ("llm.corp.example", 8443, "https"),
        ("llm.corp.example", 443, "https"),
        ("llm.corp.example", 80, "http"),
        ("llm.lan", 8080, "http"),
        ("127.0.0.1", 9000, "http"),
        ("me.openai.azure.com", 443, "https"),
        ("bedrock-runtime.us-east-1.amazonaws.com", 443, "https"),
        ("europe-west4-aiplatform.googleapis.com", 443, "https"),
    ],
)
def test_hosts_of_models_by_settings_and_by_name(host: str, port: int, scheme: str) -> None:
    assert hosts().server_at(host, port) == Server(scheme, host, port)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("127.0.0.1", 9001),
        ("corp.example", 443),
        ("x.llm.corp.example", 443),
        ("openai.azure.com", 443),
        ("a.b.openai.azure.com", 443),
        ("api.openai.com.evil.example", 443),
        ("evilapi.openai.com", 443),
        ("s3.us-east-1.amazonaws.com", 443),
        ("packages.example", 443),
    ],
)
def test_all_other_hosts_are_none_of_our_business(host: str, port: int) -> None:
    assert hosts().server_at(host, port) is None


def test_a_user_names_further_ones() -> None:
    named = hosts("LLM.Example.com.", "*.models.example", "10.1.2.3", "[fe80::1]")

    for host in ("llm.example.com", "eu.models.example", "10.1.2.3"):
        assert named.server_at(host, 443) == Server("https", host, 443)
    assert named.server_at("fe80::1", 443) == Server("https", "[fe80::1]", 443)
    assert named.server_at("models.example", 443) is None


@pytest.mark.parametrize("name", ["", "*", "https://x.example", "x.example/v1", "a b", "x.*", "x" * 300])
def test_what_is_no_host_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="is no host"):
        hosts(name)
