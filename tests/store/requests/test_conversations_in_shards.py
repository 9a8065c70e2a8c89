"""A conversation whose turns stand in different shards: what continues what crosses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay import Fixture, LlmMessage, LlmRequest, LlmRole
from cortex_replay.store import Store
from cortex_replay.store.check import check_store
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.index import shards

TURNS = 6


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MOST_ROWS_IN_ONE_FILE", 1)


def turn(number: int, text: str = "an answer") -> Fixture:
    roles = (LlmRole.USER, LlmRole.ASSISTANT)
    messages = [LlmMessage(roles[i % 2], f"message {i}") for i in range(2 * number + 1)]
    return Fixture.of(LlmRequest("test-model", "You are terse. " * 200, messages), text)


def record_conversation(root: Path) -> Store:
    """Each turn in a commit of its own, so that each finds the one before it in another shard."""
    store = Store.create(root)
    for number in range(TURNS):
        store.add(turn(number))
        store.commit()
    return store


def assert_sound(root: Path, *turns: Fixture) -> None:
    assert check_store(DirectorySource(root)).findings == []
    for verify in ("full", "on-read"):
        store = Store.open(root, verify=verify)
        for expected in turns:
            assert store.get(*expected.key).request == expected.request


def continues(root: Path) -> int:
    return sum(path.read_text().count("continues = ") for path in (root / "index").iterdir())


def test_each_turn_continues_the_one_before(tmp_path: Path) -> None:
    """The parent is found in a shard that the commit does not change."""
    record_conversation(tmp_path)

    assert len(list((tmp_path / "index").iterdir())) > 2
    assert continues(tmp_path) == TURNS - 1
    assert_sound(tmp_path, *map(turn, range(TURNS)))


def test_a_turn_that_goes_leaves_nothing_broken(tmp_path: Path) -> None:
    """What continued it is written anew in its own shard, and the rest stays."""
    store = record_conversation(tmp_path)

    store.remove(*turn(3).key)
    store.commit()
    assert continues(tmp_path) == TURNS - 2  # the next continues the one before

    store.remove(*turn(0).key)
    store.commit()
    assert continues(tmp_path) == TURNS - 3  # the next is whole
    assert_sound(tmp_path, *(turn(number) for number in range(TURNS) if number not in (0, 3)))


def test_a_shared_system_text_is_stored_once(tmp_path: Path) -> None:
    """Its row stands in a shard of its own, which later commits leave alone."""
    store = record_conversation(tmp_path)
    store.add(Fixture.of(LlmRequest("test-model", "You are terse. " * 200, "Something else"), "yes"))
    store.commit()

    assert len(list((tmp_path / "fixtures" / "parts").iterdir())) == 1
    assert_sound(tmp_path, *map(turn, range(TURNS)))


def test_another_answer_to_a_turn(tmp_path: Path) -> None:
    """What continues a request does not depend on its answer."""
    store = record_conversation(tmp_path)
    before = continues(tmp_path)

    store.replace(turn(2, "another answer"))
    store.commit()

    assert continues(tmp_path) == before
    assert store.get(*turn(2).key).answers[0].text == "another answer"
    assert_sound(tmp_path, *map(turn, range(TURNS)))
