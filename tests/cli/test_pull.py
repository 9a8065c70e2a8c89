"""``cortex-replay pull``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.sharing.team import Team


@pytest.fixture
def clone(in_a_folder: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    team = Team.make(tmp_path, monkeypatch)
    team.record("One?")
    team.record("Two?", model="other")
    assert run("push").exit_code == 0
    team.lose_files()
    return team


def test_fetches_everything_once(clone: Team) -> None:
    planned = run("pull", "--dry-run")
    assert "2 objects would be fetched" in planned.stderr

    first, second = run("pull"), run("pull")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stderr.startswith("2 objects (")
    assert "0 were here" in first.stderr
    assert "2 were here" in second.stderr
    assert clone.files() == [], "it goes into the cache, and not into the work tree"
    clone.bucket.rename(clone.place / "gone")
    assert run("verify").exit_code == 0


def test_fetches_what_a_model_needs(clone: Team) -> None:
    told = json.loads(run("pull", "--model", "other", "--json").stdout)

    assert (told["files"], len(told["fetched"])) == (1, 1)
    assert told["fetched"][0]["path"].startswith("fixtures/other/")


def test_fetches_what_a_test_may_ask_for(clone: Team) -> None:
    assert json.loads(run("pull", "--test", "tests/*", "--json").stdout)["files"] == 2


def test_says_what_cannot_be_had_and_why(clone: Team) -> None:
    clone.objects()[0].unlink()

    done = run("pull")

    assert done.exit_code == 5
    assert f"file://{clone.bucket} does not have it" in done.stderr


def test_says_that_the_cache_is_too_small(clone: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORTEX_REPLAY_CACHE_SIZE", "100")

    done = run("pull")

    assert done.exit_code == 1
    assert "2 files of 2 did not stay in the cache" in done.stderr
