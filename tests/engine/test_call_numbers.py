"""A recording says which call of its scope it answered first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from cortex_replay import LlmRequest, RecordingAdapter, Store, Upstream
from cortex_replay.store.changes import said_by
from tests.builder import ask
from tests.engine.counting import DIE, Counting, run

ONE, TWO, THREE = ask("one"), ask("two"), ask("three")


def record(
    root: Path, questions: Sequence[LlmRequest], mode: str = "once", inner: Counting | None = None
) -> None:
    async def main() -> None:
        async with RecordingAdapter(inner or Counting(), root, mode) as recorder:  # type: ignore[arg-type]
            for question in questions:
                try:
                    await recorder.complete(question)
                except Upstream:
                    await recorder.complete(question)

    run(main())


def numbers(root: Path, *questions: LlmRequest) -> list[object]:
    store = Store.open(root)
    return [(store.get(*store.key(question)).meta or {}).get("call") for question in questions]


def test_calls_are_numbered_in_the_order_in_which_they_were_asked(tmp_path: Path) -> None:
    record(tmp_path, [ONE, TWO, THREE])

    assert numbers(tmp_path, ONE, TWO, THREE) == [1, 2, 3]


def test_a_call_that_is_answered_from_the_store_has_a_number_too(tmp_path: Path) -> None:
    """What a second run records stands where that run asked it."""
    record(tmp_path, [ONE, TWO])
    record(tmp_path, [ONE, THREE])

    assert numbers(tmp_path, ONE, TWO, THREE) == [1, 2, 2]


def test_recording_anew_numbers_anew(tmp_path: Path) -> None:
    record(tmp_path, [ONE, TWO])
    record(tmp_path, [TWO, ONE], "record")

    assert numbers(tmp_path, ONE, TWO) == [2, 1]


def test_a_question_that_comes_again_has_the_number_of_its_first_call(tmp_path: Path) -> None:
    """The answers behind it have none: they are in the order of their calls anyway."""
    record(tmp_path, [ONE, DIE, TWO, DIE, THREE])

    assert numbers(tmp_path, ONE, DIE, TWO, THREE) == [1, 2, 3, 5]
    store = Store.open(tmp_path)
    assert ["call" in (answer.meta or {}) for answer in store.get(*store.key(DIE)).answers] == [False, False]


def test_a_call_that_is_tried_again_keeps_its_number(tmp_path: Path) -> None:
    """In replay it is made once: its failure was not recorded."""
    record(tmp_path, [ONE, TWO, THREE], inner=Counting(fails=lambda call: call == 2))

    assert numbers(tmp_path, ONE, TWO, THREE) == [1, 2, 3]


def test_each_scope_counts_for_itself(tmp_path: Path) -> None:
    record(tmp_path, [ONE, TWO])
    record(tmp_path, [THREE])

    assert numbers(tmp_path, ONE, TWO, THREE) == [1, 2, 1]


def test_concurrent_calls_have_different_numbers(tmp_path: Path) -> None:
    questions = [ask(f"question {n}") for n in range(20)]

    async def main() -> None:
        async with RecordingAdapter(Counting(), tmp_path) as recorder:
            await asyncio.gather(*map(recorder.complete, questions))

    run(main())
    assert sorted(map(str, numbers(tmp_path, *questions))) == sorted(map(str, range(1, 21)))


@pytest.mark.parametrize("mode", ["once", "record"])
def test_a_number_is_no_part_of_what_a_recording_says(mode: str, tmp_path: Path) -> None:
    """The same answer in another place of the run leaves the same essence, and is no change to a reviewer."""
    texts = []
    for root, before in ((tmp_path / "a", [ONE]), (tmp_path / "b", [TWO, ONE])):
        record(root, [*before, THREE], mode, Same())
        store = Store.open(root)
        texts.append(said_by(store.get(*store.key(THREE))))

    assert numbers(tmp_path / "a", THREE) != numbers(tmp_path / "b", THREE)
    assert texts[0] == texts[1]


def test_the_same_answer_at_another_place_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    record(tmp_path, [ONE, TWO], inner=Same())
    index = (tmp_path / "INDEX.toml").read_bytes()
    record(tmp_path, [TWO, ONE], "record", inner=Same())

    assert (tmp_path / "INDEX.toml").read_bytes() == index


class Same(Counting):
    """Says the same to every question."""

    @property
    def calls(self) -> int:
        return 0

    @calls.setter
    def calls(self, _: int) -> None:
        pass
