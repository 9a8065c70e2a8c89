"""``record -- COMMAND`` where nobody would answer: it stops before the command runs."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay.cli import missing_keys
from tests.builder import ask
from tests.cli.commands import record_answers, record_tool, run

HERE = ("--store", "llm")
TOUCH = ("--", sys.executable, "-c", "open('ran', 'w')")


@pytest.fixture(autouse=True)
def _without_keys_and_servers(monkeypatch: pytest.MonkeyPatch, in_a_folder: None) -> None:
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(missing_keys, "is_there", lambda _: False)


def record(*options: str) -> Result:
    return run("record", *HERE, *options, *TOUCH)


def test_it_names_the_variables_and_makes_nothing() -> None:
    result = record()

    assert result.exit_code == 2
    assert "none is set" in result.stderr
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OLLAMA_HOST", "--no-key"):
        assert name in result.stderr
    assert not Path("ran").exists()
    assert not Path("llm").exists()


def test_for_a_program() -> None:
    error = json.loads(record("--json").stderr)

    assert error["error"] == "ConfigError"
    assert "OPENAI_API_KEY" in error["message"]


def test_a_key_in_a_file_that_is_not_read_is_pointed_at() -> None:
    Path(".env").write_text("PORT=1\nexport OPENAI_API_KEY=not-to-be-shown\n")
    result = record()

    assert "set -a; . ./.env; set +a" in result.stderr
    assert "not-to-be-shown" not in result.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_API_KEY", "any"),
        ("GOOGLE_API_KEY", "any"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
        ("OLLAMA_HOST", "127.0.0.1:1"),
    ],
)
def test_a_key_or_a_server_of_the_user_s_is_enough(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    record()

    assert Path("ran").exists()


def test_the_provider_s_own_server_in_its_variable_still_wants_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.openai.com/v1")
    assert record().exit_code == 2
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "options", [["--no-key"], ["--upstream", "openai=http://127.0.0.1:1/v1"]], ids=lambda options: options[0]
)
def test_the_user_can_say_so(options: list[str]) -> None:
    record(*options)

    assert Path("ran").exists()


def test_a_configured_server_may_want_none() -> None:
    Path("cortex-replay.toml").write_text(
        "[providers.vllm]\nkind = 'openai-compat'\nbase_url = 'http://127.0.0.1:1/v1'\n"
    )
    record()

    assert Path("ran").exists()


def test_ollama_is_enough_if_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_keys, "is_there", lambda url: url == "http://127.0.0.1:11434")
    record()

    assert Path("ran").exists()


def test_whether_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert missing_keys_is_there(url)
    assert not missing_keys_is_there(url)


missing_keys_is_there = missing_keys.is_there
"""As it is outside of these tests."""


def test_recordings_may_be_all_that_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In once; whoever asks everything anew needs a key."""
    Path("llm").mkdir()
    monkeypatch.chdir("llm")
    record_answers((ask("Recorded?"), "Yes."))
    monkeypatch.chdir("..")

    assert record("--mode", "record").exit_code == 2
    assert not Path("ran").exists()
    result = record()
    assert "warning: no key is set" in result.stderr
    assert Path("ran").exists()


def test_a_server_of_mcp_may_be_all_that_is_asked() -> None:
    record("--upstream", "mcp:docs=https://docs.example/mcp")

    assert Path("ran").exists()


def test_servers_that_the_user_names_may_be_all_that_is_asked() -> None:
    Path("mcp.json").write_text('{"mcpServers": {"files": {"command": "npx", "args": ["server-files"]}}}')
    result = record("--mcp-config", "mcp.json")

    assert "warning: no key is set" in result.stderr
    assert "only MCP servers can be asked" in result.stderr
    assert Path("ran").exists()


def test_so_may_recorded_calls_of_servers() -> None:
    record_tool(Path("llm"))

    assert "only what is recorded is answered" in record().stderr
    assert Path("ran").exists()
