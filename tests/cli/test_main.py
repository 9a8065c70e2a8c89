"""The command group, and how a store is named."""

from __future__ import annotations

from pathlib import Path

import pytest

import cortex_replay
from tests.builder import StoreBuilder
from tests.cli.commands import (
    ROOT,
    run,
    spoil,
)


def test_the_store_can_be_named_everywhere(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an argument, after the command, before it, in the environment, or by standing there."""
    spoil(builder)
    ways: list[list[str | Path]] = [
        ["verify", builder.root],
        ["verify", "--store", builder.root],
        ["--store", builder.root, "verify"],
        ["--store", builder.root, "list"],
        ["list", "--store", builder.root],
    ]
    for arguments in ways:
        assert run(*arguments).exit_code == (5 if "verify" in arguments else 0)
    assert run("verify", builder.root, "--store", "elsewhere").exit_code == 2
    assert run("--store", "elsewhere", "verify", builder.root).exit_code == 2

    monkeypatch.setenv("CORTEX_REPLAY_STORE", str(builder.root))
    assert run("verify").exit_code == 5
    assert run("verify", "--store", ROOT).exit_code == 0
    assert run("--store", ROOT, "verify").exit_code == 0
    monkeypatch.delenv("CORTEX_REPLAY_STORE")
    monkeypatch.chdir(builder.root)
    assert run("verify").exit_code == 5


@pytest.mark.parametrize("command", [["verify"], ["list"], ["show", "0"]])
def test_a_store_that_is_not_there(command: list[str], tmp_path: Path) -> None:
    """No folder is a failure; a folder without an index fails integrity; both say what to do."""
    missing = run(*command, "--store", tmp_path / "nowhere")
    assert missing.exit_code == 1
    assert "nowhere" in missing.stderr

    empty = run(*command, "--store", tmp_path)
    assert empty.exit_code == 5
    assert "INDEX.toml" in empty.output
    assert "--store PATH" in empty.output


def test_the_group_s_help_has_examples_and_the_table_of_statuses() -> None:
    """And without a command, help is what is shown."""
    for arguments in (["--help"], []):
        text = run(*arguments).output
        assert "Examples:" in text
        assert "5 integrity" in text


def test_version_and_usage() -> None:
    """The usual."""
    assert f"cortex-replay, version {cortex_replay.__version__}\n" == run("--version").stdout
    assert run("nonsense").exit_code == 2
    assert run("verify", "--nonsense").exit_code == 2
