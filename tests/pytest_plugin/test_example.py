"""The example project: an agent in four styles, replayed as it is in the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pytest_plugin.conftest import run_in_process

ROOT = Path(__file__).parents[2]


def run(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Without any key, as after a fresh clone; pytest itself finds the plugin."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:hypothesispytest",
            *options,
        ],
        cwd=project,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
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


def test_a_prompt_edit_is_told_and_how_to_mend_it(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message alone is enough: which part changed, from what to what, and the command."""
    copy = project.path / "copy"
    shutil.copytree(ROOT / "examples/pytest_project", copy, ignore=shutil.ignore_patterns("__pycache__"))
    test = copy / "tests/test_agent.py"
    test.write_text(test.read_text().replace("weather in Paris?", "weather in Oslo?"))
    monkeypatch.chdir(copy)
    done = run_in_process(project, "-k", "anthropic")

    assert done.ret == 1
    for words in ("Paris", "Oslo", "--llm-mode once", "fixtures/m/"):
        assert words in done.stdout.str(), words
