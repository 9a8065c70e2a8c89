"""The road of somebody new who has pytest: a fresh clone, no key, no network."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example as git has it."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", clone], check=True, timeout=120)
    return clone / "examples" / "pytest_project"


def run(project: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """As at a shell that knows nothing of models."""
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=project,
        env={"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(project.parent)} | variables,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_a_fresh_clone_replays_without_a_key(project: Path) -> None:
    summary = project / "summary.md"
    summary.touch()
    for options in ((), ("-n2",), ("--llm-mode", "once"), ("--llm-fail-unused",)):
        done = run(project, "pytest", "-q", *options, GITHUB_STEP_SUMMARY=str(summary))
        assert done.returncode == 0, done.stdout + done.stderr
        assert "0 misses, 0 recorded, 0 live" in done.stdout
    assert "10 passed" in done.stdout
    assert summary.read_text().count("### cortex-replay (pytest)") == 4
    changed = subprocess.run(
        ["git", "status", "--short"], cwd=project, capture_output=True, text=True, check=True
    )
    assert changed.stdout.split() == ["??", "summary.md"]


def test_the_same_behind_a_gateway(project: Path) -> None:
    options = ("--fail-on", "miss", "--fail-on", "live", "--fail-on", "unused")
    done = run(project, "cortex-replay", "replay", *options, "--", "pytest", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cortex-replay: 22 hits, 0 misses, 0 recorded, 0 live" in done.stderr


def test_the_first_run_says_what_to_do(project: Path) -> None:
    shutil.rmtree(project / "tests" / "llm")
    done = run(project, "pytest", "-q")
    assert done.returncode == 1
    assert done.stdout.count("there is no store at tests/llm") == 1
    assert done.stdout.count("pytest --llm-mode once") == 1


def test_a_fixture_that_nobody_uses_fails_with_a_command_that_removes_it(project: Path) -> None:
    test = project / "tests" / "test_agent.py"
    head, _, _ = test.read_text().partition("def test_our_adapter")
    test.write_text(head + "def test_nothing() -> None: ...\n")
    test.write_text(test.read_text().replace("mark.llm_replay", "mark.llm_replay(allow_no_calls=True)"))
    done = run(project, "pytest", "-q", "--llm-fail-unused", "--llm-report", "used.json")
    assert done.returncode == 1, done.stdout
    assert "error: 4 fixtures are unused" in done.stdout
    command = next(line for line in done.stdout.splitlines() if "cortex-replay prune" in line)
    pruned = run(project, *shlex.split(command[command.index("cortex-replay") :]))
    assert pruned.returncode == 0, pruned.stderr
    assert run(project, "pytest", "-q", "--llm-fail-unused").returncode == 0
