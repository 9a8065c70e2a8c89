"""What a pull fetches, and that it is enough."""

from __future__ import annotations

import pytest

from cortex_replay import Store
from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.sharing.pull import Selection, _with_links, plan_pull
from cortex_replay.sharing.push import plan_push
from cortex_replay.sharing.shared_store import SharedStore
from cortex_replay.store.index.index import FixtureRow, Index, PartRow, ScopedRow
from tests.sharing.team import Team


@pytest.fixture
def clone(team: Team) -> Team:
    team.record("One?")
    team.record("Two?", model="other")
    team.record("One?", scope="test_a")
    team.record("One?", scope="test_b")
    plan_push(SharedStore.open(team.store)).apply()
    team.lose_files()
    return team


def pull(team: Team, **wanted: str) -> int:
    plan = plan_pull(SharedStore.open(team.store), Selection(**wanted))
    plan.apply()
    assert plan.evicted() == 0
    return len(plan.lacking)


def test_after_a_pull_everything_works_without_the_bucket(clone: Team) -> None:
    assert pull(clone) == 4
    clone.bucket.rename(clone.place / "gone")

    assert Store.open(clone.store)
    assert clone.answer("Two?", model="other") == "Two? Yes, indeed."
    assert clone.answer("One?", scope="test_b") == "One? Yes, test_b."
    assert pull(clone) == 0


def test_a_model_is_pulled_alone(clone: Team) -> None:
    assert pull(clone, model="oth*") == 1
    clone.bucket.rename(clone.place / "gone")

    assert clone.answer("Two?", model="other")
    with pytest.raises(FixtureIntegrityFailed):
        clone.answer("One?")


def test_a_test_gets_what_is_shared_and_its_own_and_nothing_of_others(clone: Team) -> None:
    assert pull(clone, test="test_a") == 3
    clone.bucket.rename(clone.place / "gone")

    assert clone.answer("One?", scope="test_a") == "One? Yes, test_a."
    assert clone.answer("Two?", model="other", scope="test_a")
    with pytest.raises(FixtureIntegrityFailed):
        clone.answer("One?", scope="test_b")


def test_what_cannot_be_had_is_named(clone: Team) -> None:
    for path in clone.objects():
        path.unlink()

    with pytest.raises(FixtureIntegrityFailed) as error:
        pull(clone)

    assert len(error.value.issues) == 4


def test_a_continued_request_brings_those_before_it_and_the_parts() -> None:
    first = FixtureRow("1.json", "1" * 64, "m", "a")
    own = ScopedRow("2.json", "2" * 64, "m", "b", scope="t", continues="a")
    last = FixtureRow("3.json", "3" * 64, "m", "c", "b")
    other = FixtureRow("4.json", "4" * 64, "n", "a")
    part = PartRow("5.json", "5" * 64)

    index = Index([first, last, other], scoped=[own], parts=[part])

    assert set(_with_links(index, [last])) == {last, own, first, part}
    assert set(_with_links(index, [other])) == {other, part}
