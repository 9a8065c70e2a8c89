"""The values, made by hand."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from cortex_replay.adapters.claude import ClaudeAdapter
from cortex_replay.adapters.ollama import OllamaAdapter
from cortex_replay.adapters.openai_compat import OpenAICompatAdapter
from cortex_replay.config import CallerSettings, Normaliser, ProviderSettings, Redaction, Settings
from cortex_replay.config.caller import CALLER_CHECKS
from cortex_replay.config.mcp import MCP_CHECKS, McpSettings
from cortex_replay.config.provider import PROVIDER_CHECKS
from cortex_replay.config.settings import SCALAR_CHECKS
from cortex_replay.errors import InvalidRequest
from cortex_replay.providers import PROVIDERS
from cortex_replay.types import LlmRequest


def test_without_any_configuration_nothing_live_is_named() -> None:
    """Replay, from this folder, and the providers that need nothing."""
    settings = Settings()

    assert ("replay", Path(), None, None) == (
        settings.mode,
        settings.store,
        settings.provider,
        settings.model,
    )
    assert list(settings.providers)[:4] == ["claude", "ollama", "openai", "gemini"]
    assert set(PROVIDERS) - set(settings.providers) == {"azure"}  # which has no server but the user's own
    assert LlmRequest("m").timeout_ms == settings.timeout_ms


def test_every_field_has_a_check() -> None:
    """A new field cannot be forgotten."""
    tables = {"providers", "redaction", "normalisers", "bindings", "prices", "callers", "mcp", "remote"}

    assert {f.name for f in fields(Settings)} == {*SCALAR_CHECKS} | tables
    assert {f.name for f in fields(ProviderSettings)} == {*PROVIDER_CHECKS, "project"}
    assert {f.name for f in fields(CallerSettings)} == {*CALLER_CHECKS, "project"}
    assert {f.name for f in fields(McpSettings)} == {*MCP_CHECKS}


def test_the_providers_that_need_nothing_are_what_their_adapters_are() -> None:
    """The same servers and the same version."""
    providers = Settings().providers
    url = {name: provider.base_url for name, provider in providers.items()}

    assert f"ClaudeAdapter(base_url={url['claude']!r})" == repr(ClaudeAdapter("k" * 8))
    assert f"OllamaAdapter(base_url={url['ollama']!r})" == repr(OllamaAdapter())
    assert f"base_url={url['openai']!r}" in repr(OpenAICompatAdapter())
    version = inspect.signature(ClaudeAdapter).parameters["version"].default
    assert providers["claude"].version == version
    assert (url["scripted"], url["echo"]) == (None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("store", ""),
        ("store", 3),
        ("store", "a\0b"),
        ("mode", "rewind"),
        ("mode", None),
        ("provider", "nobody"),
        ("provider", "a.b"),
        ("model", "two words"),
        ("model", ""),
        ("timeout_ms", 0),
        ("timeout_ms", True),
        ("timeout_ms", 1.5),
        ("max_retries", -1),
        ("max_retries", 101),
        ("max_sensitivity", "top"),
        ("jobs", 0),
        ("jobs", "4"),
        ("budget_calls", -1),
        ("budget_tokens", "many"),
    ],
)
def test_a_value_that_cannot_be(name: str, value: object) -> None:
    """Is refused when the settings are made, with its name and without itself."""
    given: dict[str, Any] = {name: value}
    with pytest.raises(InvalidRequest) as caught:
        Settings(**given)

    assert name == caught.value.field
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "url",
    [
        "api.example.com",
        "ftp://example.com",
        "http://",
        "http://user:hunter22@example.com",
        "https://example.com?key=hunter22",
        "https://example.com#hunter22",
        "https://exa mple.com/hunter22",
        "https://example.com\\@hunter22",
        "https://[hunter22",
        "https://example.com:99999999/hunter22",
        "https://example.com/\nhunter22",
    ],
)
def test_a_server_that_is_none(url: str) -> None:
    """Or a URL that holds something that must not be shown; it is not."""
    with pytest.raises(InvalidRequest) as caught:
        ProviderSettings(kind="openai-compat", base_url=url)

    assert caught.value.field == "base_url"
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "given", "whose"),
    [
        ("claude", {"allow_remote": True}, "ollama"),
        (
            "ollama",
            {"key_env": "OLLAMA_API_KEY"},
            "claude, openai-compat, openai-responses, azure, gemini, bedrock, http, mcp",
        ),
        ("ollama", {"version": "1"}, "claude"),
        (
            "echo",
            {"base_url": "https://example.com"},
            "claude, ollama, openai-compat, openai-responses, azure, gemini, bedrock, http, mcp",
        ),
        ("echo", {"script": "a.toml"}, "scripted"),
        ("openai-responses", {"max_tokens_field": "max_tokens"}, "openai-compat"),
    ],
)
def test_a_setting_of_another_kind_of_provider(kind: Any, given: dict[str, Any], whose: str) -> None:
    """Would do nothing, so it is refused, with the kinds that have it."""
    with pytest.raises(InvalidRequest, match=f"of the kind {whose}; this one is {kind}") as caught:
        ProviderSettings(kind=kind, **given)

    assert next(iter(given)) == caught.value.field


@pytest.mark.parametrize("given", [{"kind": "claud"}, {"kind": "claude", "allow_latest": 1}])
def test_a_provider_that_cannot_be(given: dict[str, Any]) -> None:
    """The kinds are known, and flags are flags."""
    with pytest.raises(InvalidRequest):
        ProviderSettings(**given)


def test_the_default_key_is_for_the_service_it_was_made_for() -> None:
    """Another server, another port or no encryption: then a variable must be named."""
    claude = ProviderSettings(kind="claude")
    own = ("CORTEX_CLAUDE_API_KEY", "ANTHROPIC_API_KEY")

    assert own == claude.key_variables
    assert own == replace(claude, base_url="https://API.anthropic.com/").key_variables
    for url in (
        "http://api.anthropic.com",
        "https://api.anthropic.com:444",
        "https://api.anthropic.com.example.com",
        "https://example.com/api.anthropic.com",
        "http://127.0.0.1:1",
    ):
        assert replace(claude, base_url=url).key_variables == ()
        assert ProviderSettings(kind="claude", base_url=url, key_env=("MY_KEY",)).key_variables == ("MY_KEY",)
    assert ProviderSettings(kind="openai-compat", base_url="https://example.com/v1").key_variables == ()
    assert ProviderSettings(kind="openai-responses").key_variables[-1] == "OPENAI_API_KEY"
    assert ProviderSettings(kind="echo").key_variables == ()


def test_choosing_a_provider() -> None:
    """By name, or the one that the settings name."""
    mine = ProviderSettings(kind="echo")
    settings = Settings(provider="mine", providers={"mine": mine})

    assert mine is settings.provider_named()
    assert settings.provider_named("claude").kind == "claude"
    with pytest.raises(InvalidRequest, match="did you mean ollama"):
        settings.provider_named("olama")
    with pytest.raises(InvalidRequest, match="none is named; there are claude, ollama"):
        Settings().provider_named()


def test_settings_do_not_change_with_what_they_were_made_from() -> None:
    """Frozen means frozen."""
    patterns = {"a": "x+"}
    normalisers = {"b": Normaliser("y+", "<b>")}
    settings = Settings(redaction=Redaction(extra_patterns=patterns), normalisers=normalisers)
    patterns["c"] = "z"
    normalisers.clear()

    assert settings.redaction.extra_patterns == {"a": "x+"}
    assert list(settings.normalisers) == ["b"]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Normaliser("(", "<x>"), "pattern"),
        (lambda: Normaliser("x*", "<x>"), "pattern"),
        (lambda: Normaliser("x", ""), "placeholder"),
        (lambda: Normaliser("[[a]]", "<x>"), "pattern"),  # will mean a nested set one day
        (lambda: Normaliser("a{99999999999}", "<x>"), "pattern"),
        (lambda: Normaliser("(" * 5000 + "a" + ")" * 5000, "<x>"), "pattern"),
        (lambda: Redaction(extra_patterns={"a b": "x"}), "extra_patterns"),
        (lambda: Redaction(extra_patterns={"a": "["}), "extra_patterns.a"),
        (lambda: Redaction(extra_patterns={"a": "x"}, redact_key=("b",)), "redact_key[0]"),
        (lambda: Redaction(known_env=("A", "lower")), "known_env[1]"),
        (lambda: Settings(providers={"x": "claude"}), "providers.x"),  # type: ignore[dict-item]
        (lambda: Settings(normalisers={"": Normaliser("x", "y")}), "normalisers"),
        (lambda: Settings(callers={"x": {}}), "callers.x"),  # type: ignore[dict-item]
        (lambda: CallerSettings(grants=("all",)), "grants[0]"),  # type: ignore[arg-type]
        (lambda: CallerSettings(max_calls=-1), "max_calls"),
        (lambda: ProviderSettings(kind="echo", models=()), "models"),
    ],
)
def test_a_part_that_cannot_be(make: Any, field: str) -> None:
    """Patterns compile, match something, and mean the same in every version of Python."""
    with pytest.raises(InvalidRequest) as caught:
        make()

    assert field == caught.value.field
