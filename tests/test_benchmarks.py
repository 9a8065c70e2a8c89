"""The benchmarks start: they run as a script, so that no module beside it may have a name of Python's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "run.py"


def test_the_benchmarks_start() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_no_module_beside_them_is_taken_for_one_of_python() -> None:
    names = {path.stem for path in SCRIPT.parent.glob("*.py")}

    assert names.isdisjoint(sys.stdlib_module_names)
