"""Merges of stores in which requests continue others: a removal loses against a use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortex_replay import Store
from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import ExchangeRow, FixtureRow, Index, PartRow, Row, ScopedRow
from cortex_replay.store.merge.merge import merge_indexes, paths_lost
from tests.cli.commands import run
from tests.store.linked_stores import Project, conversation, index_of, listed, part, turn, write

A, B, C, D = (letter * 64 for letter in "abcd")
PARENT = FixtureRow("fixtures/a.json", A, "m", A)
CHILD = FixtureRow("fixtures/b.json", B, "m", B, A)
GRANDCHILD = FixtureRow("fixtures/c.json", C, "m", C, B)
FAILURE = ExchangeRow("fixtures/exchanges/a.json", D, "m", A, "1")
PART = PartRow("fixtures/parts/tools.json", D)


def merge(base: list[Row], ours: list[Row], theirs: list[Row]) -> set[Row]:
    """The rows of a merge without a conflict, whichever side is ours."""
    old, one, other = (Index.of(rows, {}) for rows in (base, ours, theirs))
    (merged, conflicts), (again, _) = merge_indexes(old, one, other), merge_indexes(old, other, one)
    assert conflicts == []
    assert set(merged.rows) == set(again.rows)
    return set(merged.rows)


@pytest.mark.parametrize(
    "base",
    [
        [PARENT],
        [PARENT, FAILURE],
        [ScopedRow(*PARENT[:4], scope="test"), ScopedRow(*FAILURE[:5], scope="test")],
    ],
    ids=["alone", "with its failure", "of a scope"],
)
def test_a_parent_that_the_other_side_removed_stays(base: list[Row]) -> None:
    """As it was recorded, with the failures before it."""
    assert merge(base, [], [*base, CHILD]) == {*base, CHILD}
    assert merge(base, [], base) == set(), "what is not needed goes"


def test_so_do_the_parents_of_parents() -> None:
    base: list[Row] = [PARENT, CHILD]

    assert merge(base, [], [*base, GRANDCHILD]) == {PARENT, CHILD, GRANDCHILD}


def test_failures_that_stayed_stand_there_once() -> None:
    assert merge([PARENT, FAILURE], [FAILURE], [PARENT, FAILURE, CHILD]) == {PARENT, FAILURE, CHILD}
    merged, _ = merge_indexes(
        Index.of([PARENT, FAILURE], {}), Index([], [FAILURE]), Index([PARENT, CHILD], [FAILURE])
    )
    assert len(merged.rows) == 3


def test_a_parent_of_another_scope_will_do() -> None:
    """Any row of the key has the request."""
    own = ScopedRow(*PARENT[:4], scope="test")

    assert merge([PARENT, own], [own], [PARENT, own, CHILD]) == {own, CHILD}


def test_a_parent_of_one_of_two_answers_stays() -> None:
    """Whichever is chosen later."""
    again = CHILD._replace(path="fixtures/d.json", blake3=D)
    whole = CHILD._replace(path="fixtures/e.json", blake3=C, continues=None)
    sides = Index([PARENT, CHILD]), Index([whole]), Index([PARENT, again])
    merged, (conflict,) = merge_indexes(*sides)

    assert (conflict.ours, conflict.theirs) == (whole, again)
    assert merged.rows == [PARENT]
    assert paths_lost(merged, *sides) == [PARENT.path]


@pytest.mark.parametrize(("named", "stays"), [([D], True), ([], False), (None, True)])
def test_a_part_that_the_other_side_pruned(named: list[str] | None, stays: bool) -> None:
    """It stays if a new fixture names it, or if that cannot be told."""
    new = CHILD._replace(continues=None)
    sides = Index.of([PARENT, PART], {}), Index.of([PARENT], {}), Index.of([PARENT, PART, new], {})
    asked: list[Row] = []

    def named_parts(row: Row) -> list[str] | None:
        asked.append(row)
        return named

    merged, _ = merge_indexes(*sides, named_parts)

    assert (PART in merged.parts) == stays
    assert asked == [new], "what the other side has itself does not need it"
    assert paths_lost(merged, *sides) == ([PART.path] if stays else [])
    assert merge([PART, PARENT], [PARENT], [PART, PARENT]) == {PARENT}


def test_the_part_of_a_parent_that_stays() -> None:
    base: list[Row] = [PARENT, PART]

    assert merge(base, [], [*base, CHILD]) == {*base, CHILD}


@pytest.mark.parametrize("command", [("merge", "-q", "--no-edit", "theirs")])
def test_a_hosted_merge_and_then_resolve(tmp_path: Path, command: tuple[str, ...]) -> None:
    """One branch prunes a conversation with its part, another records a turn more: git sees no conflict."""
    base = conversation(3)
    project = Project(tmp_path, base)
    other = [listed(turn(1, "dogs"), with_part=False)]
    project.branch("theirs", other)
    project.branch("ours", conversation(4))
    project.git(*command)
    assert "link-broken" in project.codes()
    assert "`cortex-replay resolve` brings back" in run("verify", "--store", tmp_path).stderr

    done = run("resolve", "--store", tmp_path)
    assert done.exit_code == 0, done.output
    assert project.codes() == set()
    assert project.questions() == {"cats 1?", "cats 2?", "cats 3?", "cats 4?", "dogs 1?"}
    project.git("add", "-A")
    assert run("verify", "--staged", "--store", tmp_path).exit_code == 0
    assert "nothing to resolve" in run("resolve", "--store", tmp_path).stderr


def test_a_squashed_merge_and_then_resolve(tmp_path: Path) -> None:
    """The branch that has the parents is no parent of the commit; its commits are still in git."""
    project = Project(tmp_path, conversation(2))
    project.branch("theirs", conversation(3))
    project.git("checkout", "-q", "main")
    project.commit([listed(turn(1, "dogs"), with_part=False)], "prune")
    project.git("commit", "-q", "--allow-empty", "-m", "more")
    project.git("merge", "-q", "--squash", "theirs")
    project.git("commit", "-q", "-m", "squashed")
    project.git("branch", "-q", "-D", "theirs")
    assert "link-broken" in project.codes()

    assert run("resolve", "--store", tmp_path).exit_code == 0
    assert project.questions() == {"cats 1?", "cats 2?", "cats 3?", "dogs 1?"}


def test_one_conversation_with_different_answers(tmp_path: Path) -> None:
    """The first turn has two answers, and one is chosen; what follows either of them stays."""
    project = Project(tmp_path, [listed(turn(1, "dogs"))])
    ours, theirs = conversation(3, said="mine"), conversation(3, said="yours")
    project.branch("theirs", [listed(turn(1, "dogs")), *theirs])
    project.branch("ours", [listed(turn(1, "dogs")), *ours])
    project.git("merge", "-q", "theirs", fails=True)

    done = run("resolve", "--theirs", "--store", tmp_path)
    assert done.exit_code == 0, done.output
    store = Store.open(tmp_path)
    assert len(store) == 6
    assert store.get(*turn(1).key).answers[0].text == "yours 1"
    for said in ("mine", "yours"):
        assert store.get(*turn(3, said=said).key).request == turn(3, said=said).request


def test_both_sides_repack(tmp_path: Path) -> None:
    """Each stores the same files, and one adds a turn."""
    whole = [listed(turn(number), with_part=False) for number in (1, 2)]
    project = Project(tmp_path, whole)
    project.branch("theirs", conversation(2))
    project.branch("ours", conversation(3))
    project.git("merge", "-q", "--no-edit", "theirs", fails=None)
    if project.codes():
        assert run("resolve", "--store", tmp_path).exit_code == 0

    assert project.questions() == {"cats 1?", "cats 2?", "cats 3?"}


def test_one_side_repacks_and_the_other_prunes(tmp_path: Path) -> None:
    """What is whole on one side continues, on the other, what was pruned."""
    whole = [listed(turn(number), with_part=False) for number in (1, 2)]
    project = Project(tmp_path, whole)
    project.branch("theirs", whole[1:])
    project.branch("ours", [listed(turn(1), with_part=False), listed(turn(2), turn(1))])
    project.git("merge", "-q", "--no-edit", "theirs")
    assert project.codes() == {"link-broken"}

    assert run("resolve", "--store", tmp_path).exit_code == 0
    assert project.questions() == {"cats 1?", "cats 2?"}


@pytest.mark.parametrize("lost", ["parent", "part"])
def test_the_driver_names_what_git_will_remove(tmp_path: Path, lost: str) -> None:
    """It can write the index only, so git must not commit that."""
    base = conversation(2)
    if lost == "part":
        theirs = [listed(turn(1), with_part=False), listed(turn(2), turn(1))]
        ours = [*base, listed(turn(1, "dogs"))]
    else:
        theirs, ours = base[:2], conversation(3)
    files = [tmp_path / name for name in ("base", "ours", "theirs")]
    for file, side in zip(files, (base, ours, theirs), strict=True):
        file.write_text(render_index(index_of(side)))
    done = run("merge-driver", *files, "INDEX.toml")

    assert done.exit_code == 1
    needed = part()[0].path if lost == "part" else base[2][0].path
    assert f"one side removed {needed}, the other needs it" in done.stderr
    assert "run: cortex-replay resolve" in done.stderr


def test_a_review_completes_requests_from_their_own_commit(tmp_path: Path) -> None:
    """One line for a turn, whatever stands before it; what was removed is told from the files of then."""
    project = Project(tmp_path, conversation(3))
    again = [listed(turn(1, answer="otherwise")), *conversation(4)[2:]]
    write(tmp_path, [part(), *again[:1], *again[1:], listed(turn(1, "dogs"))])
    review = run("verify", "--base", "main", "--store", tmp_path)
    lines = [line.split("  (")[0] for line in review.stdout.splitlines()]

    assert review.exit_code == 0, review.output
    assert sorted(lines[:2]) == ['added    test-model  "cats 4?"', 'added    test-model  "dogs 1?"']
    assert lines[2:] == [
        'changed  test-model  "cats 1?"',
        '         was "said 1"',
        '         now "otherwise"',
    ]

    project.commit([listed(turn(1, "dogs"), with_part=False)], "prune")
    review = run("verify", "--base", "main~1", "--store", tmp_path)
    lines = [line.split("  (")[0] for line in review.stdout.splitlines()]
    assert lines[0] == 'added    test-model  "dogs 1?"'
    assert sorted(lines[1:4]) == [f'removed  test-model  "cats {number}?"' for number in (1, 2, 3)]
    assert lines[4:] == [f"removed  {part()[0].path}, which requests share"]
    since = json.loads(run("verify", "--json", "--base", "main~1", "--store", tmp_path).stdout)["since"]
    assert [row["path"] for row in since["parts"]["removed"]] == [part()[0].path]


def test_a_review_of_a_turn_whose_parent_changed_since(tmp_path: Path) -> None:
    """The parent's file of then is gone from the work tree."""
    project = Project(tmp_path, conversation(2))
    whole = listed(turn(1), with_part=False)
    write(tmp_path, [whole])

    review = run("verify", "--base", "main", "--store", tmp_path)
    assert 'removed  test-model  "cats 2?"' in review.stdout
    assert "the answer is the same" in review.stdout
    assert project.codes() == set()


def test_what_is_staged_is_completed_from_what_is_staged(tmp_path: Path) -> None:
    project = Project(tmp_path, conversation(3))
    parent = tmp_path / index_of(conversation(1)).fixtures[0].path
    data = parent.read_bytes()
    parent.write_text("not what is staged")
    assert run("verify", "--staged", "--store", tmp_path).exit_code == 0

    project.git("rm", "-q", "--cached", str(parent))
    parent.write_bytes(data)
    staged = run("verify", "--staged", "--store", tmp_path)
    assert staged.exit_code == 5
    assert "untracked" in staged.stdout
