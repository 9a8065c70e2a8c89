"""What goes to the bucket, and what leaves the work tree for it."""

from __future__ import annotations

import pytest

from cortex_replay import blake3_hex
from cortex_replay.errors import FixtureIntegrityFailed, StoreIo
from cortex_replay.sharing.objects import find_lacking
from cortex_replay.sharing.push import plan_push
from cortex_replay.sharing.shared_store import SharedStore
from tests.sharing.team import Team


def test_each_file_becomes_an_object_under_its_hash(team: Team) -> None:
    team.record("One?", "Two?")

    plan_push(SharedStore.open(team.store)).apply()

    assert {path.read_bytes() for path in team.objects()} == {path.read_bytes() for path in team.files()}
    for path in team.objects():
        digest = blake3_hex(path.read_bytes())
        assert path.relative_to(team.bucket).as_posix() == f"b3/{digest[:2]}/{digest}"


def test_only_what_the_bucket_lacks_goes(team: Team) -> None:
    team.record("One?")
    plan_push(SharedStore.open(team.store)).apply()
    team.record("Two?")

    plan = plan_push(SharedStore.open(team.store))

    assert (len(plan.lacking), plan.present) == (1, 1)
    assert [finding.path for finding in find_lacking(SharedStore.open(team.store))] == [plan.lacking[0].path]
    plan.apply()
    assert find_lacking(SharedStore.open(team.store)) == []


def test_a_changed_file_never_goes(team: Team) -> None:
    team.record("One?")
    team.files()[0].write_bytes(b"{}")

    with pytest.raises(FixtureIntegrityFailed):
        plan_push(SharedStore.open(team.store)).apply()

    assert team.objects() == []


def test_a_file_that_nobody_has_is_named(team: Team) -> None:
    team.record("One?")
    path = team.files()[0].relative_to(team.store).as_posix()
    team.lose_files()

    with pytest.raises(FixtureIntegrityFailed, match=path):
        plan_push(SharedStore.open(team.store))


def test_what_only_the_cache_has_goes_to_an_emptied_bucket(team: Team) -> None:
    team.record("One?")
    plan_push(SharedStore.open(team.store)).apply()
    team.lose_files()
    assert team.answer("One?")
    team.objects()[0].unlink()

    plan_push(SharedStore.open(team.store)).apply()

    assert len(team.objects()) == 1


def test_a_store_without_a_remote_says_what_to_write(team: Team) -> None:
    team.record("One?")
    (team.project / "pyproject.toml").write_text('[tool.cortex-replay]\nstore = "llm"\n')

    with pytest.raises(StoreIo, match=r"\[tool.cortex-replay.remote\]"):
        SharedStore.open(team.store)
