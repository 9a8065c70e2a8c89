"""``cortex-replay keep``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.sharing.team import Team


@pytest.fixture
def team(in_a_folder: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    team = Team.make(tmp_path, monkeypatch)
    team.record("One?")
    return team


def test_moves_files_out_and_back_with_one_command_each(team: Team) -> None:
    path = team.files()[0].relative_to(team.store).as_posix()

    there = run("keep", "remote")
    assert (there.exit_code, there.stdout) == (0, f"out  {path}\n")
    assert "changed: " in there.stderr
    assert run("verify").exit_code == 0
    assert (team.files(), len(team.objects())) == ([], 1)

    back = run("keep", "git")
    assert (back.exit_code, back.stdout) == (0, f"in   {path}\n")
    assert len(team.files()) == 1


def test_a_dry_run_changes_nothing(team: Team) -> None:
    before = {path: path.read_bytes() for path in team.project.rglob("*") if path.is_file()}

    told = json.loads(run("keep", "remote", "--dry-run", "--json").stdout)

    assert len(told["moved_out"]) == len(told["pushed"]) == 1
    assert told["changed"]
    assert {path: path.read_bytes() for path in team.project.rglob("*") if path.is_file()} == before
    assert team.objects() == []


def test_knows_three_places(team: Team) -> None:
    assert run("keep", "elsewhere").exit_code == 2
    assert run("keep").exit_code == 2
    assert run("keep", "large-remote").exit_code == 0
    assert len(team.files()) == 1, "it is small"
