from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cortex_replay import Store
from tests.sample_store import sample_files

ROOT = Path(__file__).parent.parent


def test_the_shipped_store_is_what_its_script_makes() -> None:
    """No file differs, none is left over."""
    shipped = {
        path.relative_to(ROOT).as_posix(): path.read_bytes() for path in (ROOT / "fixtures").rglob("*.json")
    }
    shipped["INDEX.toml"] = (ROOT / "INDEX.toml").read_bytes()

    assert sample_files() == shipped
    assert len(Store.open(ROOT)) == 7


def test_the_demo_runs_to_its_end() -> None:
    """It verifies, replays every kind, and shows the refusal of a changed byte."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples/replay_demo.py"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    for shown in (
        "Paris.",
        "get_weather",
        "一、 | 二、",
        "Four., then One., then Six!",
        "exit status 5",
        "refuses",
    ):
        assert shown in done.stdout
