"""``cortex-replay sweep -- COMMAND``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.adapters.fake_provider import FakeProvider
from tests.cli.commands import (
    ROOT,
)
from tests.cli.programs import PROGRAM
from tests.gateway.upstream import REAL_KEY

_START = ("-c", "import runpy, sys\nrunpy.run_module('examples.' + sys.argv[1], run_name='__main__')")
"""A program that has to be quoted to be pasted."""


def sweep(tmp_path: Path, agent: str, *options: str) -> tuple[int, Any, str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "AGENT_MODEL": "m",
    }
    command = [str(PROGRAM), "sweep", "--store", str(tmp_path / "llm"), *options, "--"]
    done = subprocess.run(
        [*command, sys.executable, *_START, agent],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_sweep_finds_the_weakness_and_passes_the_mended_agent(
    tmp_path: Path, provider: FakeProvider
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "AGENT_MODEL": "m",
    }
    own = {"OPENAI_BASE_URL": f"{provider.url}/v1", "OPENAI_API_KEY": REAL_KEY}
    record = [str(PROGRAM), "record", "--store", str(tmp_path / "llm"), "--"]
    subprocess.run(
        [*record, sys.executable, "-m", "examples.steady_agent"],
        cwd=tmp_path,
        env=environment | own,
        check=True,
        capture_output=True,
        timeout=60,
    )
    some = ["--fault", "500", "--fault", "cut", "--fault", "malformed-tool"]
    status, matrix, talk = sweep(tmp_path, "fragile_agent", *some)
    assert status == 4, talk
    assert matrix.splitlines() == [
        "call  500      cut      malformed-tool",
        "1     FAILED   FAILED   FAILED",
        "2     FAILED   FAILED   -",
    ]
    again = re.search(r"to see the first one:\n  cortex-replay (replay .*)", talk, re.DOTALL)
    assert again is not None
    pasted = subprocess.run(
        ["bash", "-c", f"{PROGRAM} {again[1]}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert pasted.returncode == 1
    assert "Traceback" in pasted.stderr, "of the agent, which the sweep kept to itself"
    assert "500@1" in again[1]

    status, text, talk = sweep(tmp_path, "steady_agent", "--json", *some)
    assert status == 0, talk
    report = json.loads(text)
    assert (report["calls"], report["survived"]) == (2, True)
    assert [run["verdict"] for run in report["runs"]].count("survived") == 5

    status, matrix, _ = sweep(tmp_path, "fragile_agent", "--fault", "500", "--turn", "2", "--allow", "500")
    assert (status, matrix.splitlines()[1:]) == (0, ["2     failed"])
    assert sweep(tmp_path, "fragile_agent", "--fault", "nonsense")[0] == 2
    assert sweep(tmp_path, "no_such_agent")[::2] == (
        1,
        "error: without any fault, the command ends with status 1; --show-output lets it say why\n",
    )
