"""The example project: an agent in four styles, replayed as it is in the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.nested import LIGHT

ROOT = Path(__file__).parents[2]


def run(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Without any key, as after a fresh clone."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=project,
        env={"PATH": os.environ["PATH"], **LIGHT, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_example_is_replayed_in_four_styles() -> None:
    done = run(ROOT / "examples/pytest_project", "--llm-fail-unused")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 passed" in done.stdout
    assert "0 misses, 0 recorded, 0 live" in done.stdout


def test_a_prompt_edit_is_told_and_how_to_mend_it(tmp_path: Path) -> None:
    """The message alone is enough: which part changed, from what to what, and the command."""
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples/pytest_project", project, ignore=shutil.ignore_patterns("__pycache__"))
    test = project / "tests/test_agent.py"
    test.write_text(test.read_text().replace("weather in Paris?", "weather in Oslo?"))
    done = run(project, "-k", "anthropic")

    assert done.returncode == 1
    for words in ("Paris", "Oslo", "--llm-mode once", "fixtures/m/"):
        assert words in done.stdout, words
