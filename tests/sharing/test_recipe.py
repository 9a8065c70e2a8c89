"""The recipe of docs/fleet.md is a workflow, and its commands are ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.cli.commands import run

PAGE = (Path(__file__).parents[2] / "docs/fleet.md").read_text()


def test_the_workflow_records_in_a_matrix_and_collects_afterwards() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    workflow: Any = yaml.safe_load(text)
    record, collect = workflow["jobs"]["record"], workflow["jobs"]["collect"]
    commands = [step["run"] for job in (record, collect) for step in job["steps"] if "run" in step]

    assert workflow[True] == "workflow_dispatch"  # which YAML reads the word `on` as
    assert "secrets." in workflow["env"]["CORTEX_REPLAY_RUN"]
    assert "github.run_id" in workflow["env"]["CORTEX_REPLAY_RUN"]
    assert len(record["strategy"]["matrix"]["part"]) == 4
    assert any("--splits 4 --group ${{ matrix.part }}" in command for command in commands)
    assert collect["needs"] == "record"
    for name, options in re.findall(r"cortex-replay (\w+)((?: --[\w-]+)*)", "\n".join(commands)):
        shown = run(name, "--help")
        assert shown.exit_code == 0
        assert all(option in shown.stdout for option in options.split())
