"""The steps of `docs/migrating.md`, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from integration.suites.environments import ROOT, program

__all__ = ["move_over", "pytest_options", "steps"]

_GUIDE: Final = ROOT / "docs" / "migrating.md"
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"\s{2,}#.*$")
_RUN: Final = "pytest"
"""The step that shows whether it worked; what comes after it is for a suite that did."""
_UNINSTALL: Final = "pip uninstall"
_NOT_CONVERTED: Final = 4


def steps() -> list[str]:
    """The commands of the guide up to the run of the tests."""
    commands = _commands()
    return commands[: _run_in(commands)]


def pytest_options() -> list[str]:
    """What the guide has pytest run with."""
    commands = _commands()
    return shlex.split(commands[_run_in(commands)])[1:]


def _commands() -> list[str]:
    block = _BLOCK.search(_GUIDE.read_text("utf-8"))
    assert block is not None, "the guide begins with the commands"
    return [_COMMENT.sub("", line[2:]) for line in block[1].splitlines() if line.startswith("$ ")]


def _run_in(commands: list[str]) -> int:
    return next(number for number, command in enumerate(commands) if command.split()[0] == _RUN)


def move_over(
    folder: Path, environment: Path, variables: Mapping[str, str], *, keeps_vcrpy: bool = False
) -> dict[str, Any]:
    """Do what the guide says in a suite's folder; gives the report of the import.

    Args:
        folder: The suite.
        environment: Where pytest-recording and cortex-replay are installed.
        variables: The environment of the commands.
        keeps_vcrpy: Whether its conftest.py names vcrpy, so that it cannot be uninstalled yet.
    """
    path = os.pathsep.join([str(program(environment, "python").parent), variables["PATH"]])
    report: dict[str, Any] = {}
    for step in steps():
        if keeps_vcrpy and step.startswith(_UNINSTALL):
            continue
        is_import = step.startswith("cortex-replay import")
        done = subprocess.run(
            ["bash", "-c", f"{step} --json" if is_import else step],
            cwd=folder,
            env={**variables, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        allowed = (0, _NOT_CONVERTED) if is_import else (0,)
        if done.returncode not in allowed:
            raise RuntimeError(f"{step!r} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        if is_import:
            report = json.loads(done.stdout)
    return report
