"""``cortex-replay sweep`` with the agents of ``examples/``, which stand on a real SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.fake_provider import FakeProvider
from tests.cli.programs import ROOT
from tests.gateway.upstream import REAL_KEY, model_server
from tests.warm import PROGRAM


def sweep(tmp_path: Path, agent: str, *options: str) -> tuple[int, Any, str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "AGENT_MODEL": "m",
    }
    command = [str(PROGRAM), "sweep", "--store", str(tmp_path / "llm"), *options, "--"]
    done = subprocess.run(
        [*command, sys.executable, "-m", f"examples.{agent}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    """A scripted model server: sweeps need no real one."""
    with model_server() as serving:
        yield serving


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
    assert " --fault 500@1 -- " in talk

    status, text, talk = sweep(tmp_path, "steady_agent", "--json", *some)
    assert status == 0, talk
    report = json.loads(text)
    assert (report["calls"], report["survived"]) == (2, True)
    assert [run["verdict"] for run in report["runs"]].count("survived") == 5
