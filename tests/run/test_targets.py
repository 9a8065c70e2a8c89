"""Who is asked again for a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Answer, Fixture
from cortex_replay.config import Settings
from cortex_replay.run import Run
from cortex_replay.run.targets import Target, Targets, with_sdk_servers
from tests.builder import ask

KEYS = {"OPENAI_API_KEY": "sk-openai-4f6b1c9d2e8a", "ANTHROPIC_API_KEY": "sk-ant-4f6b1c9d2e8a"}
OPENAI = "https://api.openai.com/v1"


def find(
    tmp_path: Path,
    meta: dict[str, Any],
    chosen: str | None = None,
    model: str = "m",
    protocol: str | None = None,
    servers: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
) -> Target | str:
    """Who is asked for a recording that says this of itself."""
    environment = {**KEYS, **(variables or {})}
    settings = with_sdk_servers(Settings(), environment)
    run = Run(settings, "live", tmp_path, environment=environment, servers=servers)
    wire: dict[str, Any] | None = None if protocol is None else {"protocol": protocol, "stream": False}
    fixture = Fixture.of(ask("q", model=model), Answer("a", wire=wire), meta={"adapter": "gateway", **meta})
    return Targets(run.settings, run.engine().upstreams, environment, chosen).find(fixture)


def place(found: Target | str) -> tuple[str, str]:
    assert isinstance(found, Target), found
    assert found.server is not None
    return found.provider, found.server.base_url


@pytest.mark.parametrize(
    ("meta", "variables", "expected"),
    [
        ({"provider": "openai", "upstream": OPENAI}, {}, ("openai", "https://api.openai.com")),
        ({"provider": "claude", "upstream": "https://api.anthropic.com"}, {}, ("claude", "https://api.anthropic.com")),
        # As SDKs do: what was recorded at the service is asked where the user has the service now.
        (
            {"provider": "openai", "upstream": OPENAI},
            {"OPENAI_BASE_URL": "https://proxy.example/v1"},
            ("openai", "https://proxy.example"),
        ),
        # A server that the environment names, and the same one on another port.
        (
            {"provider": "openai", "upstream": "http://127.0.0.1:1111/v1"},
            {"OPENAI_BASE_URL": "http://127.0.0.1:2222/v1"},
            ("openai", "http://127.0.0.1:2222"),
        ),
        ({"provider": "x", "upstream": "http://10.0.0.7:80/v1"}, {"OLLAMA_HOST": "10.0.0.7:80"}, ("ollama", "http://10.0.0.7:80")),
        # Recordings of earlier versions have a provider and no server.
        ({"provider": "ollama"}, {"OLLAMA_HOST": "127.0.0.1:5"}, ("ollama", "http://127.0.0.1:5")),
        ({"adapter": "claude"}, {}, ("claude", "https://api.anthropic.com")),
    ],
)  # fmt: skip
def test_the_server_that_the_user_names(
    tmp_path: Path, meta: dict[str, Any], variables: dict[str, str], expected: tuple[str, str]
) -> None:
    assert place(find(tmp_path, meta, variables=variables)) == expected


@pytest.mark.parametrize(
    ("upstream", "variables"),
    [
        ("http://127.0.0.1:1111/v1", {}),
        ("https://thief.example/v1", {}),
        ("https://thief.example/v1", {"OPENAI_BASE_URL": "https://proxy.example/v1"}),
        ("https://api.openai.com.thief.example/v1", {}),
        ("https://api.openai.com:444/v1", {}),
        ("http://api.openai.com/v1", {}),
        ("https://api.openai.com@thief.example/v1", {}),
        ("https://api.openai.com/elsewhere", {}),
        ("https://\u0430pi.openai.com/v1", {}),
        ("", {}),
    ],
)
def test_a_server_that_only_a_recording_names_is_not_asked(
    tmp_path: Path, upstream: str, variables: dict[str, str]
) -> None:
    found = find(tmp_path, {"provider": "openai", "upstream": upstream}, variables=variables)

    assert isinstance(found, str)


def test_the_reason_says_what_would_allow_it(tmp_path: Path) -> None:
    local = {"provider": "openai", "upstream": "http://127.0.0.1:1111/v1"}
    other = {"provider": "mine", "upstream": "http://10.0.0.7:8000"}

    assert "set OPENAI_BASE_URL=http://127.0.0.1:1111/v1" in str(find(tmp_path, local))
    assert "pass --upstream mine=http://10.0.0.7:8000" in str(find(tmp_path, other))
    allowed = find(tmp_path, other, servers={"mine": "http://10.0.0.7:8000"})
    assert place(allowed) == ("mine", "http://10.0.0.7:8000")


def test_whoever_names_a_provider_asks_it_whatever_is_recorded(tmp_path: Path) -> None:
    found = find(tmp_path, {"provider": "x", "upstream": "https://thief.example"}, chosen="openai")

    assert place(found) == ("openai", "https://api.openai.com")
    assert isinstance(found, Target)
    assert found.speaks("openai-responses")
    assert not found.speaks("anthropic-messages")  # its adapter asks instead


@pytest.mark.parametrize(
    ("protocol", "model", "expected"),
    [
        ("anthropic-messages", "claude-sonnet-4-5", "claude"),
        ("openai-chat", "gpt-4o-mini", "openai"),
        ("openai-responses", "o3", "openai"),
        ("ollama-chat", "llama3.1:8b", "ollama"),
        ("anthropic-messages", "tiny", ""),
        ("openai-chat", "gpt-oss:20b", ""),
        ("openai-chat", "llama3.1:8b", ""),
        (None, "gpt-4o-mini", ""),
    ],
)
def test_an_earlier_recording_is_asked_where_no_guess_is_needed(
    tmp_path: Path, protocol: str | None, model: str, expected: str
) -> None:
    found = find(tmp_path, {}, model=model, protocol=protocol)

    if expected:
        assert place(found)[0] == expected
    else:
        assert "does not say who answered" in str(found)


def test_a_key_goes_along_to_the_server_in_the_environment_and_to_no_other(tmp_path: Path) -> None:
    meta = {"provider": "openai", "upstream": OPENAI}
    named = find(tmp_path, meta, variables={"OPENAI_BASE_URL": "https://proxy.example/v1"})
    flagged = find(tmp_path, meta, servers={"openai": "https://other.example/v1"})

    assert isinstance(named, Target)
    assert named.server is not None
    assert named.server.key(KEYS) == KEYS["OPENAI_API_KEY"]
    assert isinstance(flagged, Target)
    assert flagged.server is not None
    assert flagged.server.key(KEYS) is None
