"""A store that was opened before a fork: what the parent staged is the parent's."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cortex_replay import Store
from tests.torture.plans import BASE, fixture, make_store, sound_answers
from tests.torture.shim import in_child

LONGEST_S = 5


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(make_store(tmp_path / "store"))


def in_fork(work: Callable[[], object]) -> list[str]:
    """What ``work`` gives in a child; one that waits forever is ended."""

    def limited(say: Callable[[str], None]) -> None:
        signal.alarm(LONGEST_S)
        say(f"{work()}")

    return in_child(limited).said


def test_a_child_can_adopt_what_others_left(store: Store) -> None:
    """It does not wait for itself."""

    def die_with_an_answer() -> None:
        Store.open(store.root).add(fixture("a new", "5"))

    in_fork(die_with_an_answer)
    assert store.abandoned().answers == 1

    assert in_fork(store.adopt_abandoned) == ["1"]


@pytest.mark.parametrize("act", [Store.commit, Store.discard], ids=["commits", "discards"])
def test_a_child_leaves_alone_what_its_parent_staged(store: Store, act: Callable[[Store], object]) -> None:
    """Whether it has anything of its own or not."""
    store.add(fixture("a new", "5"))
    in_fork(lambda: act(store))

    assert sound_answers(store.root) == BASE
    store.commit()
    assert sound_answers(store.root) == BASE | {"a new": "5"}
