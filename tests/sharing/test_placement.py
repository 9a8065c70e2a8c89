"""Files move between the work tree and the bucket, both ways, and none is ever lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.config.remote import Keep
from cortex_replay.errors import ConfigError, FixtureIntegrityFailed, StoreIo
from cortex_replay.sharing import placement
from cortex_replay.sharing.keeping import plan_keep
from cortex_replay.sharing.shared_store import SharedStore
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from tests.sharing.team import Team

LINE = "/fixtures/**/*.json\n"


def keep(team: Team, where: Keep) -> None:
    plan_keep(SharedStore.open(team.store), where).apply()


def is_whole(team: Team) -> bool:
    return check_store(DirectorySource(team.store)).is_trusted


def test_files_leave_and_come_back_to_the_byte(team: Team) -> None:
    team.record("One?", "Two?")
    before = {path: path.read_bytes() for path in team.files()}

    keep(team, "remote")

    assert team.files() == []
    assert is_whole(team)
    assert 'keep = "remote"' in (team.project / "pyproject.toml").read_text()
    assert (team.store / ".gitignore").read_text() == LINE

    keep(team, "git")

    assert {path: path.read_bytes() for path in team.files()} == before
    assert 'keep = "git"' in (team.project / "pyproject.toml").read_text()
    assert not (team.store / ".gitignore").exists()


def test_only_large_files_leave(team: Team) -> None:
    team.configure(large="2000 B")
    team.record("One?", "Two? " + "and so on " * 200)
    small, large = sorted(team.files(), key=lambda path: path.stat().st_size)

    keep(team, "large-remote")

    assert team.files() == [small]
    assert is_whole(team)
    keep(team, "remote")
    assert team.files() == []
    keep(team, "large-remote")
    assert team.files() == [small], "a small one comes back, a large one stays"
    assert not large.exists()


def test_a_file_stays_whose_object_is_another(team: Team) -> None:
    """Somebody has put other bytes under its name before it was pushed."""
    team.record("One?", "Two?")
    one = team.files()[0]
    digest = SharedStore.open(team.store).files[0].blake3
    planted = team.bucket / "b3" / digest[:2] / digest
    planted.parent.mkdir(parents=True)
    planted.write_bytes(b"{}")

    with pytest.raises(FixtureIntegrityFailed, match="stays here"):
        keep(team, "remote")

    assert team.files() == [one]
    assert is_whole(team)


def test_a_file_stays_whose_object_is_in_the_cache_and_no_longer_in_the_bucket(team: Team) -> None:
    team.record("One?")
    keep(team, "remote")
    keep(team, "git")  # by way of the cache
    plan = plan_keep(SharedStore.open(team.store), "remote")
    team.objects()[0].unlink()

    with pytest.raises(FixtureIntegrityFailed, match="stays here"):
        plan.move.apply()

    assert len(team.files()) == 1


def test_a_file_stays_that_was_changed_by_hand(team: Team) -> None:
    team.record("One?")
    plan = plan_keep(SharedStore.open(team.store), "remote")
    plan.push.apply()
    team.files()[0].write_bytes(b"mine")

    with pytest.raises(FixtureIntegrityFailed, match="stays here"):
        plan.move.apply()

    assert team.files()[0].read_bytes() == b"mine"


@pytest.mark.parametrize("where", ["remote", "git"])
def test_an_interrupted_move_loses_nothing_and_is_finished_by_the_next(
    team: Team, where: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.record(*(f"Question {number}?" for number in range(6)))
    if where == "git":
        keep(team, "remote")
    monkeypatch.setattr(placement, "_BATCH", 2)
    steps = 0

    def die(self: object, rows: object) -> object:
        nonlocal steps
        steps += 1
        if steps == 2:
            raise KeyboardInterrupt
        return step(self, rows)

    name = "_let_go" if where == "remote" else "_put"
    step = getattr(placement.Move, name)
    with monkeypatch.context() as patched:
        patched.setattr(placement.Move, name, die)
        with pytest.raises(KeyboardInterrupt):
            keep(team, where)

    assert 0 < len(team.files()) < 6
    assert is_whole(team)
    keep(team, where)
    assert len(team.files()) == (0 if where == "remote" else 6)
    assert is_whole(team)


def test_no_write_follows_a_link(team: Team, tmp_path: Path) -> None:
    team.record("One?")
    keep(team, "remote")
    (tmp_path / "elsewhere").mkdir()
    plan = plan_keep(SharedStore.open(team.store), "git")
    (team.store / "fixtures/test-model").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreIo):
        plan.move.apply()
    with pytest.raises(FixtureIntegrityFailed, match="link"):
        keep(team, "git")

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_configuration_in_another_form_is_left_alone(team: Team) -> None:
    team.record("One?")
    text = f'tool.cortex-replay.store = "llm"\ntool.cortex-replay.remote.url = "file://{team.bucket}"\n'
    (team.project / "pyproject.toml").write_text(text)

    with pytest.raises(ConfigError, match='keep = "remote"'):
        keep(team, "remote")

    assert (team.project / "pyproject.toml").read_text() == text
    assert len(team.files()) == 1
