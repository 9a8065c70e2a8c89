"""Giving fixtures other keys while others write to the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import FixtureIntegrityFailed, NoFixture, Store, StoreIo
from cortex_replay.canonical import JsonValue
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Answer
from cortex_replay.store.rekey import apply_rekey, plan_rekey
from tests.builder import ask, fixture_of
from tests.torture.rekeying import Warmer


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One that has one answer to each of two questions."""
    made = Store.create(tmp_path)
    for question in ("p", "q"):
        made.add(fixture_of(ask(question), Answer("one")))
    made.commit()
    return made


def extend(root: Path) -> None:
    """Record a second answer to one of the questions, as another process does."""
    other = Store.open(root)
    other.add(fixture_of(ask("q"), Answer("one"), Answer("two")))
    other.commit()


def texts(root: Path, temperature: float | None, question: str) -> list[str]:
    request = replace(ask(question), temperature=temperature)
    try:
        found = Store.open(root).get(request.model, request.prompt_hash())
    except NoFixture:
        return []
    return [answer.text for answer in found.answers]


def test_a_commit_while_it_is_planned_is_no_fault(store: Store) -> None:
    """A listed file is gone because it was replaced: the store is read again, not called broken."""
    source = DirectorySource(store.root)
    reads = []

    def read_many(rows: Any, max_bytes: int) -> Any:
        reads.append(1)
        if len(reads) == 2:  # the first is the check, which has found nothing
            extend(store.root)
        return DirectorySource.read_many(source, rows, max_bytes)

    source.read_many = read_many  # type: ignore[method-assign, assignment]
    plan = plan_rekey(source, Warmer())

    assert len(reads) > 2
    assert sorted(len(item.fixture.answers) for item in plan.moving) == [1, 2]


def test_a_fault_that_no_commit_explains_is_told(store: Store) -> None:
    """Also when it comes after the check."""
    source = DirectorySource(store.root)
    reads = []

    def read_many(rows: Any, max_bytes: int) -> Any:
        reads.append(1)
        if len(reads) == 2:
            (store.root / store.list()[0].path).unlink()
        return DirectorySource.read_many(source, rows, max_bytes)

    source.read_many = read_many  # type: ignore[method-assign, assignment]
    with pytest.raises(FixtureIntegrityFailed, match="not there"):
        plan_rekey(source, Warmer())


def test_an_answer_that_came_after_the_plan_is_not_lost(store: Store) -> None:
    """What moves is no longer what was planned: it is planned again."""
    source = DirectorySource(store.root)
    plan = plan_rekey(source, Warmer())
    extend(store.root)
    with pytest.raises(StoreIo, match="changed in the meantime"):
        plan.apply(source)
    assert texts(store.root, None, "q") == ["one", "two"]

    done = apply_rekey(source, plan, lambda: plan_rekey(source, Warmer()))

    assert len(done.moving) == 2
    assert texts(store.root, 1.0, "q") == ["one", "two"]
    assert texts(store.root, 1.0, "p") == ["one"]
    assert texts(store.root, None, "q") == []
    assert store.abandoned().answers == 0


def test_a_failure_that_came_after_the_plan_is_not_lost(store: Store) -> None:
    """It is one of the files that move."""
    source = DirectorySource(store.root)
    plan = plan_rekey(source, Warmer())
    other = Store.open(store.root)
    wire: dict[str, JsonValue] = {"protocol": "anthropic", "status": 429, "headers": [], "body": "{}"}
    other.add_exchange(Exchange(wire, match=store.key(ask("q")), n=1))
    other.commit()

    apply_rekey(source, plan, lambda: plan_rekey(source, Warmer()))

    assert Store.open(store.root).count_failures() == 1
    assert texts(store.root, 1.0, "q") == ["one"]


def test_what_others_recorded_elsewhere_is_no_reason_to_plan_again(store: Store) -> None:
    """Beside recorders, it would never come to an end."""
    source = DirectorySource(store.root)
    plan = plan_rekey(source, Warmer())
    other = Store.open(store.root)
    other.add(fixture_of(ask("r"), Answer("new")))
    other.commit()

    assert apply_rekey(source, plan, lambda: pytest.fail("it was planned again")) is plan
    assert texts(store.root, None, "r") == ["new"]
    assert texts(store.root, 1.0, "q") == ["one"]


def test_another_answer_under_the_new_key_is_a_collision(store: Store) -> None:
    """Nothing of the plan is done then."""
    source = DirectorySource(store.root)
    plan = plan_rekey(source, Warmer())
    other = Store.open(store.root)
    other.add(fixture_of(replace(ask("q"), temperature=1.0), Answer("another")))
    other.commit()

    done = apply_rekey(source, plan, lambda: plan_rekey(source, Warmer()))

    assert len(done.colliding) == 1
    assert texts(store.root, None, "p") == ["one"]
    assert texts(store.root, 1.0, "q") == ["another"]


def test_it_does_not_go_on_for_ever(store: Store) -> None:
    """Where others change what moves each time, it says so."""
    source = DirectorySource(store.root)
    plan = plan_rekey(source, Warmer())
    extend(store.root)
    with pytest.raises(StoreIo, match="changed in the meantime"):
        apply_rekey(source, plan, lambda: plan)
