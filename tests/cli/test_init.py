"""``cortex-replay init``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builder import StoreBuilder
from tests.cli.commands import (
    run,
)
from tests.nested import LIGHT


def example(root: Path, framework: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest" if framework == "pytest" else "unittest", "test_llm_example.py"]
    return subprocess.run(
        command, cwd=root, env=os.environ | LIGHT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("framework", ["pytest", "unittest"])
@pytest.mark.parametrize("place", [".", "tests/llm"])
def test_init(tmp_path: Path, framework: str, place: str) -> None:
    """A sound store, git settings, a hook, the merge driver, and an example that passes."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    root = tmp_path / place
    chosen = [] if framework == "pytest" else ["--framework", framework]  # pytest is installed here
    result = run("init", "--store", root, *chosen)

    assert result.exit_code == 0, result.output
    assert StoreBuilder(root).findings() == []
    assert "INDEX.toml -text merge=cortex-replay" in (root / ".gitattributes").read_text()
    assert (root / ".gitignore").read_text() == ".cortex-replay/\n"
    assert f"--store {place}" in (tmp_path / ".pre-commit-config.yaml").read_text()
    driver = subprocess.run(
        ["git", "config", "merge.cortex-replay.driver"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert " -I " in driver.stdout
    assert driver.stdout.endswith("/__main__.py merge-driver -- %O %A %B %P\n")
    done = example(root, framework)
    assert done.returncode == 0, done.stdout + done.stderr
    tracked = subprocess.run(
        ["git", "add", "-A", "-v"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ".cortex-replay" not in tracked.stdout


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    """An index or an example that is there stops it; lists of lines are added to."""
    (tmp_path / ".gitignore").write_text("*.log")
    (tmp_path / ".pre-commit-config.yaml").write_text("repos: []\n")
    result = run("init", "--store", tmp_path)
    assert result.exit_code == 0
    assert "not in a git repository" in result.stderr
    assert "cortex-replay verify --staged" in result.stderr
    assert (tmp_path / ".gitignore").read_text() == "*.log\n.cortex-replay/\n"
    assert (tmp_path / ".pre-commit-config.yaml").read_text() == "repos: []\n"

    before = (tmp_path / "INDEX.toml").read_bytes()
    assert run("init", "--store", tmp_path).exit_code == 1
    assert (tmp_path / "INDEX.toml").read_bytes() == before
    (tmp_path / "INDEX.toml").unlink()
    assert run("init", "--store", tmp_path).exit_code == 1
    assert not (tmp_path / "INDEX.toml").exists()
    assert run("init", "--driver-only", "--store", tmp_path).exit_code == 1


def test_init_for_programs(tmp_path: Path) -> None:
    """What was written, and nothing else on stdout; the second time an error that a program can read."""
    made = json.loads(run("init", "--json", "--store", tmp_path).stdout)

    assert (made["store"], made["framework"], made["merge_driver"]) == (str(tmp_path), "pytest", False)
    assert all(Path(path).is_file() for path in made["written"])
    assert json.loads(run("init", "--json", "--store", tmp_path).stderr)["error"] == "StoreIo"


def test_wrong_usage(tmp_path: Path) -> None:
    assert run("init", "--framework", "nose", "--store", tmp_path).exit_code == 2
    assert list(tmp_path.iterdir()) == []
