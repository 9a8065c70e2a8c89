"""``cortex-replay completion``."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from cortex_replay.cli.catalogue import SUMMARIES
from cortex_replay.cli.main import main
from tests.builder import StoreBuilder
from tests.cli.commands import (
    run,
    spoil,
)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    """Prints a script for each shell."""
    if shell == "bash" and not Path("/bin/bash").exists():
        pytest.skip("no bash")
    result = run("completion", shell)

    assert result.exit_code == 0
    assert "_CORTEX_REPLAY_COMPLETE" in result.stdout


def test_fixtures_are_completed(builder: StoreBuilder) -> None:
    """By the start of their hash; a broken store completes nothing and says nothing."""
    command = main.get_command(click.Context(main), "show")
    assert command is not None
    argument = next(p for p in command.params if p.name == "fixture")
    with click.Context(command) as ctx:
        ctx.params["store"] = builder.root
        found = argument.shell_complete(ctx, "")
        assert len(found) == 2
        spoil(builder)
        (builder.root / "INDEX.toml").unlink()
        assert argument.shell_complete(ctx, "") == []


def test_commands_are_completed_with_what_they_do() -> None:
    with click.Context(main) as ctx:
        found = main.shell_complete(ctx, "re")

    assert [item.value for item in found] == [
        "record",
        "replay",
        "refresh",
        "receipt",
        "resolve",
        "rekey",
        "repack",
    ]
    assert found[0].help == SUMMARIES["record"]


def test_wrong_usage() -> None:
    assert run("completion").exit_code == 2
    assert run("completion", "tcsh").exit_code == 2
