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
    """It records, verifies, replays the same, and shows the refusal; and leaves nothing behind."""
    before = {path for path in ROOT.iterdir() if path.name != ".cortex-replay"}
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("18 °C and sunny in Paris") >= 2
    for shown in ("demo-model", "(exit status 0)", "NoFixture", "[mismatch]", "(exit status 5)", "refuses"):
        assert shown in done.stdout, shown
    assert {path for path in ROOT.iterdir() if path.name != ".cortex-replay"} == before
