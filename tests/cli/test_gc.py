"""``cortex-replay gc``."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.sharing.team import Team


@pytest.fixture
def team(in_a_folder: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    team = Team.make(tmp_path, monkeypatch)
    subprocess.run(["git", "init", "-q"], cwd=team.project, check=True)
    team.record("One?")
    assert run("push").exit_code == 0
    team.lose_files()
    (team.store / "INDEX.toml").unlink()
    team.record("Two?")
    assert run("push").exit_code == 0
    for path in team.objects():
        os.utime(path, (0, 0))
    return team


def test_prints_the_plan_and_acts_when_told_to(team: Team) -> None:
    (old,) = [path for path in team.objects() if b"One?" in path.read_bytes()]

    planned = run("gc", "--remote")
    assert planned.exit_code == 0
    assert planned.stdout == f"delete  b3/{old.name[:2]}/{old.name}\n"
    assert "would be deleted (--apply)" in planned.stderr
    assert len(team.objects()) == 2

    done = json.loads(run("gc", "--remote", "--apply", "--json").stdout)
    assert ([one["name"] for one in done["deleted"]], done["kept"]) == ([f"b3/{old.name[:2]}/{old.name}"], 1)
    assert len(team.objects()) == 1
    assert run("verify", "--remote").exit_code == 0


def test_the_grace_period_is_an_age(team: Team) -> None:
    assert run("gc", "--remote", "--older-than", "never").exit_code == 2
    assert run("gc", "--remote", "--older-than", "99999999w").exit_code == 2
    assert run("gc", "--remote", "--older-than", "4000w").stdout == ""


def test_ages_are_told_by_the_clock_of_the_bucket(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cortex_replay.cli.gc.bucket_time", lambda _: datetime.fromtimestamp(3600, UTC))

    assert run("gc", "--remote", "--apply").stdout == ""
    assert len(team.objects()) == 2


def test_where_must_be_said_and_git_must_be_there(team: Team) -> None:
    assert run("gc").exit_code == 2
    (team.project / ".git").rename(team.place / "git")

    done = run("gc", "--remote", "--apply")

    assert done.exit_code == 1
    assert "not a git repository" in done.stderr
    assert len(team.objects()) == 2
