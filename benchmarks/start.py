"""[start]: what ``--help`` and ``--version`` cost, against a bare Python that imports click."""

from __future__ import annotations

import sys
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measure import cpu_of_child, say, smallest
from benchmarks.table import Goal, Row

__all__ = ["run"]

_ROUNDS: Final = 10
_PEER: Final = "python -c 'import click'"
_PROGRAM: Final = "from cortex_replay.cli.main import main; main()"
"""As the installed script starts it."""


def run(folder: Path, _wanted: Collection[str]) -> list[Row]:
    say("measuring how the command line starts")
    options = ("--help", "--version")
    programs = {option: [sys.executable, "-c", _PROGRAM, option] for option in options}
    programs[_PEER] = [sys.executable, "-c", "import click"]
    tasks = {name: partial(cpu_of_child, arguments, folder) for name, arguments in programs.items()}
    times = smallest(_ROUNDS, tasks)
    return [
        Row(
            "start",
            f"cortex-replay {option}",
            times[option],
            peer_name=_PEER,
            peer=times[_PEER],
            goal=Goal("seconds", 0.12),
        )
        for option in options
    ]
