"""``cortex-replay push``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.sharing.team import Team


@pytest.fixture
def team(in_a_folder: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    return Team.make(tmp_path, monkeypatch)


def test_says_what_went_and_what_was_there(team: Team) -> None:
    team.record("One?")
    planned = run("push", "--dry-run")
    assert (planned.exit_code, team.objects()) == (0, [])

    first, second = run("push"), run("push")

    path = team.files()[0].relative_to(team.store).as_posix()
    assert planned.stdout == first.stdout == f"push  {path}\n"
    assert f"1 object ({team.files()[0].stat().st_size:,} bytes) went to file://" in first.stderr
    assert second.stdout == ""
    assert "0 objects (0 bytes) went" in second.stderr
    assert "1 were there" in second.stderr


def test_speaks_json(team: Team) -> None:
    team.record("One?")

    told = json.loads(run("push", "--json").stdout)

    assert [one["path"] for one in told["pushed"]] == [
        path.relative_to(team.store).as_posix() for path in team.files()
    ]
    assert (told["present"], told["moved_out"], told["url"]) == (0, [], f"file://{team.bucket}")


def test_moves_new_recordings_out_where_they_are_kept_in_the_remote(team: Team) -> None:
    team.configure(keep="remote")
    team.record("One?")

    done = run("push")

    assert "1 file left the work tree" in done.stderr
    assert (team.files(), len(team.objects())) == ([], 1)
    assert run("verify").exit_code == 0


def test_without_a_remote_it_says_what_to_write(team: Team) -> None:
    team.record("One?")
    (team.project / "pyproject.toml").write_text('[tool.cortex-replay]\nstore = "llm"\n')

    done = run("push")

    assert done.exit_code == 1
    assert "[tool.cortex-replay.remote]" in done.stderr


def test_verify_remote_names_what_lacks_and_fetches_nothing(team: Team) -> None:
    team.record("One?", "Two?")
    run("push")
    assert run("verify", "--remote").exit_code == 0
    lost = team.objects()[0]
    lost.unlink()
    team.lose_files()

    done, told = run("verify", "--remote"), run("verify", "--remote", "--json")

    assert (done.exit_code, told.exit_code) == (5, 5)
    assert "has no object in file://" in done.stdout + done.stderr
    team.objects()[0].unlink()
    both = run("verify", "--remote").stdout
    assert [both.count(said) for said in ("has no object", "the same [not-pushed]", "hint: ")] == [1, 1, 1], (
        "what holds for both is said once"
    )
    assert [one["code"] for one in json.loads(told.stdout)["findings"]] == ["not-pushed"]
    assert not list((team.place / "cache").rglob("[0-9a-f]" * 64)), "nothing was fetched"
    assert run("verify", "--remote", "--quick").exit_code == 2
