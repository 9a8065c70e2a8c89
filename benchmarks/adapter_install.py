"""The SDK to measure against, installed once below ``.bench/``, in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import say

__all__ = ["sdk_python"]

_BENCH = Path(__file__).resolve().parent.parent / ".bench"


def sdk_python(package: str, version: str) -> str | None:
    """The Python that has the package; ``None`` if it cannot be had. It is the same Python as this one."""
    folder = _BENCH / package / f"{version}-python{sys.version_info.major}.{sys.version_info.minor}"
    python = os.fspath(folder / "bin" / "python")
    mark = folder / ".complete"
    if not mark.exists():
        say(f"installing {package} {version}")
        shutil.rmtree(folder, ignore_errors=True)  # what was cut short starts afresh
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        for command in (
            [sys.executable, "-m", "venv", os.fspath(folder)],
            [*pip, f"{package}=={version}"],
            [python, "-c", f"import {package}"],
        ):
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            if done.returncode:
                say(f"skipped: {package} {version} cannot be installed:\n{done.stderr.strip()}")
                return None
        mark.touch()
    return python
