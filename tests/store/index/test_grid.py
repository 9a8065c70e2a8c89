"""The layout of an index: what two branches record merges, with nothing that tells git how."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.store.index.grid import render_index, render_shard, slot_of
from cortex_replay.store.index.index import ExchangeRow, FixtureRow, Index, ScopedRow, parse_index
from tests.store.branches import Branches, count_conflicts

A, B = "a" * 64, "b" * 64


def test_a_row_stands_where_its_key_says() -> None:
    """In a text of 256 sections with 64 slots each, whatever else is recorded."""
    row = FixtureRow("fixtures/a.json", A, "m", B)
    alone = render_index(Index([row])).split("\n")
    crowd = [FixtureRow(f"fixtures/{i}.json", A, "m", f"{i:064x}") for i in range(100)]
    among = render_index(Index([*crowd, row])).split("\n")
    section = f"# {slot_of(row) // 64:02x}"

    for lines in (alone, among):
        place = lines.index('path = "fixtures/a.json"')
        assert [line for line in lines[:place] if line.startswith("# ")][-1] == section
    # Each slot is an empty line, each section a comment; around them two comments, two values and the end.
    assert len(alone) == 256 * 65 + 3 + 3 + 1 + 5
    assert len(among) == len(alone) + 5 * 100


def test_the_text_is_a_function_of_the_rows() -> None:
    rows = [FixtureRow(f"fixtures/{i}.json", A, "m", f"{i:064x}") for i in range(50)]

    assert render_index(Index(rows)) == render_index(Index(rows[::-1]))
    assert parse_index(render_index(Index(rows))).header == {"format": 1, "key": 1}
    # Many scopes name one file, and more of them than a shard has slots.
    scoped = [ScopedRow("fixtures/a.json", A, "m", B, scope=f"tests/{i}") for i in range(100)]
    assert render_shard(Index(scoped=scoped)) == render_shard(Index(scoped=scoped[::-1]))


def test_the_place_is_that_of_the_question_not_of_the_answer() -> None:
    """So that a question that was recorded twice cannot stand twice."""
    before = FixtureRow("fixtures/a.json", A, "m", B)

    assert slot_of(before) == slot_of(before._replace(path="fixtures/b.json", blake3=B))
    assert slot_of(before) != slot_of(before._replace(model="another"))
    assert slot_of(ExchangeRow("e", A, "m", B, "1")) != slot_of(ExchangeRow("e", A, "m", B, "2"))
    assert slot_of(FixtureRow("a", A)) != slot_of(FixtureRow("b", A))


def test_the_text_says_why_and_what_to_do() -> None:
    head = render_index(Index()).split("\nformat = 1\n")[0]

    assert "git can merge" in head
    assert head.endswith("run: cortex-replay resolve")
    assert render_index(Index()).endswith("\n# end\n")  # tools cut off empty lines at the end of a file


@pytest.mark.parametrize(("size", "added"), [(10, 3), (200, 20)])
def test_what_two_branches_record_merges(tmp_path: Path, size: int, added: int) -> None:
    """A sample of the measurement in `integration/test_merging.py`."""
    assert count_conflicts(tmp_path, size, added, range(2)) == 0


def test_one_side_records_again_and_prunes(tmp_path: Path) -> None:
    """And the other adds."""
    branches = Branches(tmp_path / "store", 10)
    branches.branch("theirs", {"shared 3": "again", "new": "x"}, removed=["shared 4", "shared 5"])
    branches.branch("ours", ["mine 1", "mine 2"])

    assert branches.merge()
    expected = {
        **branches.recorded,
        "shared 3": "again",
        "new": "x",
        "mine 1": "recorded",
        "mine 2": "recorded",
    }
    del expected["shared 4"], expected["shared 5"]
    assert branches.questions() == expected
    assert branches.store().findings() == []


def test_both_sides_record_the_same(tmp_path: Path) -> None:
    """The same text at the same place, beside what only one of them has."""
    branches = Branches(tmp_path / "store", 10)
    branches.branch("theirs", ["same", "theirs"])
    branches.branch("ours", ["same", "ours"])

    assert branches.merge()
    assert len(branches.questions()) == 13
    assert branches.store().findings() == []


@pytest.mark.parametrize("command", [("rebase", "-q", "theirs"), ("cherry-pick", "theirs")])
def test_rebase_and_cherry_pick(tmp_path: Path, command: tuple[str, ...]) -> None:
    branches = Branches(tmp_path / "store", 10)
    branches.branch("theirs", ["theirs"], removed=["shared 1"])
    branches.branch("ours", ["ours"])

    assert branches.merge(*command)
    assert len(branches.questions()) == 11
    assert branches.store().findings() == []


@pytest.mark.parametrize("before", [None, "as before"])
def test_two_answers_to_one_question_conflict(tmp_path: Path, before: str | None) -> None:
    """Both cannot be right, and git says so; the text of the conflict says what to do."""
    branches = Branches(tmp_path / "store", 10)
    question = "new" if before is None else "shared 1"
    branches.branch("theirs", {question: "theirs"})
    branches.branch("ours", {question: "ours"})

    assert not branches.merge()
    assert "run: cortex-replay resolve\n" in branches.store().index_text()
    assert "run: cortex-replay resolve" in str(branches.store().findings())
