"""The command group, and how a store is named."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import click
import pytest

import cortex_replay
from cortex_replay.cli import group
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
        assert run(*arguments).exit_code == 5
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


@pytest.mark.parametrize(
    "command",
    [
        ["verify"],
        ["list", "--json"],
        ["index"],
        ["scan"],
        ["replay", "--", "true"],
        ["record", "--provider", "echo", "--model", "m", "--prompt", "Hi."],
        ["record", "--no-key", "--", "true"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("name", ["notes.txt", "INDEX.toml"])
def test_a_file_that_is_opened_as_a_store(command: list[str], name: str, tmp_path: Path) -> None:
    """It is no store, whatever stands in it; nothing is put in its place."""
    file = tmp_path / name
    file.write_text("mine\n")
    first, *rest = command
    result = run(first, "--store", file, *rest)

    assert result.exit_code == 5
    assert "is no folder; a store is a folder with an INDEX.toml in it" in result.stderr
    assert "--store PATH" in result.stderr
    assert file.read_text() == "mine\n"


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


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["recrod"], "No such command 'recrod'. Did you mean 'record'?"),
        (["ls"], "No such command 'ls'. Did you mean 'list'?"),
        (["xyz"], "No such command 'xyz'.\n"),
        (["--stroe", "x", "list"], "Did you mean '--store'?"),
        (["verify", "--stagd"], "Did you mean '--staged'?"),
    ],
)
def test_a_mistyped_name_is_met_with_the_one_that_is_meant(arguments: list[str], meant: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert meant in result.stderr


def test_the_commands_that_run_another_say_where_it_goes() -> None:
    assert "replay [OPTIONS] -- COMMAND ...\n" in run("replay", "--help").stdout
    assert "record [OPTIONS] [-- COMMAND ...]\n" in run("record", "--help").stdout


_NAMES_LOADED = """
import sys
from cortex_replay.cli.main import main
main(["--version"], standalone_mode=False)
main(["--help"], standalone_mode=False)
print("LOADED", *sorted(sys.modules))
"""


def test_help_and_version_load_no_command_and_nothing_that_one_needs() -> None:
    """Whoever asks for them waits for Python and click, and for little else."""
    done = subprocess.run(
        [sys.executable, "-c", _NAMES_LOADED], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = done.stdout.rpartition("LOADED ")[2].split()

    assert [name for name in loaded if name.split(".")[0] in ("asyncio", "blake3", "httpx", "orjson")] == []
    assert [name for name in loaded if name.startswith("cortex_replay.")] == [
        "cortex_replay.cli",
        "cortex_replay.cli.catalogue",
        "cortex_replay.cli.group",
        "cortex_replay.cli.main",
        "cortex_replay.cli.options",
        "cortex_replay.cli.output",
        "cortex_replay.errors",
        "cortex_replay.printable",
        "cortex_replay.progress",
    ]


def test_no_error_of_a_later_click_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project may be held to click 8.1, which has no error for a missing argument that shows the help."""
    monkeypatch.delattr("click.exceptions.NoArgsIsHelpError", raising=False)
    clean_usage_errors = runpy.run_path(group.__file__)["_clean_usage_errors"]

    with pytest.raises(click.exceptions.Exit), clean_usage_errors():
        raise click.exceptions.Exit(4)
