"""The steps of `docs/migrating.md`, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from integration.suites.environments import ROOT, program

__all__ = ["move_over", "steps"]

_GUIDE: Final = ROOT / "docs" / "migrating.md"
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"\s{2,}#.*$")
_RUN: Final = "pytest"
"""The step that shows whether it worked; what comes after it is for a suite that did."""
_NOT_CONVERTED: Final = 4


def steps() -> list[str]:
    """The commands of the guide up to the run of the tests."""
    block = _BLOCK.search(_GUIDE.read_text("utf-8"))
    assert block is not None, "the guide begins with the commands"
    lines = [_COMMENT.sub("", line[2:]) for line in block[1].splitlines() if line.startswith("$ ")]
    return lines[: lines.index(_RUN)]


def move_over(folder: Path, environment: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """Do what the guide says in a suite's folder; gives the report of the import.

    Args:
        folder: The suite.
        environment: Where pytest-recording and cortex-replay are installed.
        variables: The environment of the commands.
    """
    path = os.pathsep.join([str(program(environment, "python").parent), variables["PATH"]])
    report: dict[str, Any] = {}
    for step in steps():
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
