"""A project's file cannot let in whoever knows what everybody knows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortex_replay import InvalidRequest
from cortex_replay.admin.callers import Callers
from cortex_replay.config import CallerSettings, Settings, load_settings

PUBLIC = {
    "PATH": os.defpath + ":/usr/local/bin",
    "PWD": "/srv/a-project",
    "GITHUB_REPOSITORY": "somebody/a-project",
    "GITHUB_SHA": "0123456789abcdef" * 2,
    "LS_COLORS": "rs=0:di=01;34:ln=01;36",
}
TOKEN = "0123456789abcdef" * 2


def project(folder: Path, variable: str) -> Path:
    said = f'[callers.x]\ntoken_env = "{variable}"\ngrants = ["llm_complete"]\n'
    (folder / "cortex-replay.toml").write_text(said)
    return folder


@pytest.mark.parametrize("name", PUBLIC)
def test_a_token_of_a_project_is_in_a_variable_for_secrets(tmp_path: Path, name: str) -> None:
    """Another user of this machine knows the others, and could spend the keys of this one."""
    settings = load_settings(project(tmp_path, name), {"HOME": str(tmp_path)}).settings
    with pytest.raises(InvalidRequest, match=rf"{name}: .*_TOKEN"):
        Callers(settings, PUBLIC)


@pytest.mark.parametrize("name", ["CI_CALLER_TOKEN", "MY_SECRET", "CALLER_KEY"])
def test_a_variable_for_secrets_serves(tmp_path: Path, name: str) -> None:
    settings = load_settings(project(tmp_path, name), {"HOME": str(tmp_path)}).settings
    assert Callers(settings, {name: TOKEN}).by_token(TOKEN) is not None


def test_a_variable_that_is_not_set_is_no_trouble(tmp_path: Path) -> None:
    settings = load_settings(project(tmp_path, "CALLER"), {"HOME": str(tmp_path)}).settings
    assert Callers(settings, {}).without_token == ["x"]


def test_whoever_starts_a_server_may_take_any_variable(tmp_path: Path) -> None:
    """In a program, or in a file of his own."""
    settings = Settings(callers={"x": CallerSettings(token_env=("CALLER",), grants=("llm_complete",))})
    assert Callers(settings, {"CALLER": TOKEN}).by_token(TOKEN) is not None
    own = tmp_path / ".config" / "cortex-replay"
    own.mkdir(parents=True)
    (own / "config.toml").write_text('[callers.x]\ntoken_env = "CALLER"\n')
    elsewhere = tmp_path / "empty"
    elsewhere.mkdir()
    loaded = load_settings(elsewhere, {"HOME": str(tmp_path)})
    assert Callers(loaded.settings, {"CALLER": TOKEN}).by_token(TOKEN) is not None
