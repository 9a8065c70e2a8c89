"""Programs that others publish, each built or installed once below ``.bench/``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

__all__ = ["BENCH", "completed", "go_install", "needed", "once"]

BENCH: Final = Path(__file__).resolve().parent.parent / ".bench"


def needed(program: str, purpose: str) -> str:
    """Where a program is; without it the test is skipped."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program} to {purpose} with")
    return found


def once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """A folder, filled unless it is already; what was cut short starts afresh."""
    mark = folder / ".complete"
    if not mark.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        fill(folder)
        mark.touch()
    return folder


def go_install(package: str, version: str, folder: Path, *, version_variable: str) -> None:
    """A program from its Go module, which is told the version it is."""
    go = needed("go", f"build {package}")
    flags = f"-s -w -X {version_variable}={version}"
    completed(
        [go, "install", "-trimpath", "-ldflags", flags, f"{package}@v{version}"], GOBIN=os.fspath(folder)
    )


def completed(command: Sequence[str | Path], **environment: str) -> None:
    """Run a program to its end, which has to be a good one."""
    done = subprocess.run(
        command,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"{command} ended with {done.returncode}:\n{done.stdout.decode(errors='replace')}")
