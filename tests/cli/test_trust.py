"""``cortex-replay trust``; what a server gets without it is tested in tests/security."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.commands import run

SERVER = "https://llm.example"
PROJECT = """
provider = "p"
[providers.p]
kind = "openai-compat"
base_url = "https://llm.example/v1"
key_env = "LLM_KEY"
"""


@pytest.fixture(autouse=True)
def _own_settings(in_a_folder: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    Path("project/.git").mkdir(parents=True)
    monkeypatch.chdir("project")


def trust(*arguments: str) -> Result:
    return run("trust", *arguments)


def test_a_project_that_asks_for_nothing() -> None:
    result = trust()

    assert (result.exit_code, result.stdout) == (0, "")
    assert "asks for nothing" in result.stderr


def test_what_a_project_asks_for_is_shown_allowed_and_taken_back() -> None:
    Path("cortex-replay.toml").write_text(PROJECT)
    asked = trust()
    assert asked.exit_code == 4
    assert asked.stdout == f"p: LLM_KEY to {SERVER}: not allowed; cortex-replay trust {SERVER} LLM_KEY\n"

    assert trust(SERVER, "LLM_KEY").stdout == f"allowed: LLM_KEY to {SERVER}\n"
    assert trust().exit_code == 0
    assert trust("--list").stdout == f"{SERVER}  LLM_KEY\n"
    assert trust("--remove", SERVER).stdout == f"no longer allowed: LLM_KEY to {SERVER}\n"
    assert "nothing of that was allowed" in trust("--remove", SERVER).stderr
    assert trust("--remove", SERVER, "--json").stderr == ""
    assert trust().exit_code == 4

    assert trust("--all").exit_code == 0
    assert trust().exit_code == 0


def test_for_programs() -> None:
    Path("cortex-replay.toml").write_text(PROJECT)
    row = {"server": SERVER, "key": "LLM_KEY"}

    assert json.loads(trust("--json").stdout) == {"asked": [{"provider": "p", **row, "allowed": False}]}
    assert json.loads(trust(SERVER, "LLM_KEY", "--json").stdout)["trust"] == [row]
    assert json.loads(trust("--list", "--json").stdout)["trust"] == [row]
    assert json.loads(trust("--remove", SERVER, "--json").stdout)["trust"] == [row]


@pytest.mark.parametrize(
    "arguments", [["--all", "--list"], ["--remove"], [SERVER], [SERVER, "K", "--all"], ["no server", "K"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    assert trust(*arguments).exit_code == 2
    assert trust("--list").stdout == ""
