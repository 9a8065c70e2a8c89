"""Every command has tests, examples, and a table of its exit statuses."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from cortex_replay.cli.main import main
from tests.cli.commands import run

HERE = Path(__file__).parent
COMMANDS = main.list_commands(click.Context(main))


def file_of(command: str) -> Path:
    return HERE / f"test_{command.replace('-', '_')}.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_a_file_of_tests_that_runs_it(command: str) -> None:
    path = file_of(command)

    assert path.is_file()
    assert re.search(rf"\"{command}\"", path.read_text()), f"{path.name} never runs {command}"
    assert "def test_" in path.read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_ends_with_the_exit_statuses(command: str) -> None:
    text = run(command, "--help").stdout

    assert re.search(
        rf"^Examples:\n\n(.+\n)*?.*cortex-replay (init --driver-only|{command})", text, re.MULTILINE
    )
    assert re.search(r"Exit status:\n(  \d  .+\n)+$", text)


def test_commands_are_in_the_order_of_the_alphabet_and_in_the_document() -> None:
    document = (HERE.parents[1] / "docs/cli.md").read_text()

    assert sorted(COMMANDS) == COMMANDS
    assert all(re.search(rf"^\| `{command}[` ]", document, re.MULTILINE) for command in COMMANDS)
