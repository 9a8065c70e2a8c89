"""Real git with the merge driver installed, on sharded stores and linked conversations."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from cortex_replay.cli.main import main
from cortex_replay.store.index.shards import shard_of
from tests.store.linked_stores import File, answer, conversation, index_of
from tests.store.merge import test_linked_merges, test_shard_roots
from tests.store.merge.test_shard_roots import BASE, Sharded, answers, in_shard, names

WITHOUT_DRIVER = (
    test_linked_merges.test_a_hosted_merge_and_then_resolve,
    test_shard_roots.test_one_shard_on_both_sides_and_then_resolve,
)
"""What the fast tests do in one way."""
WAYS = [("merge", "-q", "--no-edit", "theirs"), ("rebase", "-q", "theirs"), ("cherry-pick", "theirs")]


@pytest.mark.parametrize("way", WAYS, ids=["merge", "rebase", "cherry-pick"])
@pytest.mark.parametrize("check", WITHOUT_DRIVER, ids=["links", "shards"])
def test_without_the_driver(
    tmp_path: Path, way: tuple[str, ...], check: Callable[[Path, tuple[str, ...]], None]
) -> None:
    check(tmp_path, way)


@pytest.mark.parametrize("way", ["ours", "back"])
def test_a_branch_goes_over_without_the_driver(tmp_path: Path, way: str) -> None:
    test_shard_roots.test_a_branch_goes_over(tmp_path, way)


def invoke(*words: object) -> str:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


class Driven(Sharded):
    """A repository whose git calls our driver, as ``init`` tells it."""

    def __init__(self, root: Path, files: list[File], *, is_sharded: bool | None = None) -> None:
        super().__init__(root, files, is_sharded=is_sharded)
        invoke("init", "--driver-only", "--store", root)

    def sound(self) -> None:
        invoke("verify", "--store", self.root)
        invoke("verify", "--staged", "--store", self.root)
        assert self.git("status", "--porcelain") == ""


@pytest.mark.parametrize("way", WAYS, ids=["merge", "rebase", "cherry-pick"])
def test_fifty_recordings_on_each_side(tmp_path: Path, way: tuple[str, ...]) -> None:
    """On many rows: no conflict, nothing lost, and the root lists what the driver made of each shard."""
    base = answers(*names("base", 600))
    project = Driven(tmp_path, base)
    theirs, ours = answers(*names("theirs", 50)), answers(*names("ours", 50))
    shared = {shard_of(row) for row, _ in theirs} & {shard_of(row) for row, _ in ours}
    assert len(shared) > 2, "no shard that both changed"
    project.branch("theirs", [*base[1:], *theirs])
    project.branch("ours", [*base[:-1], *ours])
    project.git(*way)
    if way[0] == "cherry-pick":
        assert len(project.git("log", "--oneline").splitlines()) == 3

    project.sound()
    assert len(project.questions()) == 600 + 100 - 2


def test_an_octopus_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    base = in_shard("base", "3f", 3)
    project = Driven(tmp_path, answers(*base))
    for name in ("one", "two", "three"):
        project.branch(name, answers(*base, *in_shard(name, "3f")))
    said = project.git("merge", "-q", "--no-edit", "one", "two", fails=True)
    assert "octopus" in said.lower()
    project.git("reset", "-q", "--hard")
    project.git("clean", "-q", "-fd")
    project.sound()
    for name in ("one", "two"):
        project.git("merge", "-q", "--no-edit", name)
    project.sound()
    assert len(project.questions()) == 6


@pytest.mark.parametrize("way", WAYS, ids=["merge", "rebase", "cherry-pick"])
@pytest.mark.parametrize("is_sharded", [True, False])
def test_a_parent_and_its_part_are_pruned(tmp_path: Path, way: tuple[str, ...], is_sharded: bool) -> None:
    """Git stops, and names what is needed; resolve brings it back; the merge goes on."""
    others = answers(*BASE)
    project = Driven(tmp_path, [*others, *conversation(3)], is_sharded=is_sharded)
    project.branch("theirs", [*others, answer("theirs")], is_sharded=is_sharded)
    project.branch("ours", [*others, *conversation(4)], is_sharded=is_sharded)
    said = project.git(*way, fails=True)
    parent = index_of(conversation(1)).fixtures[0].path
    assert f"one side removed {parent}, the other needs it" in said

    invoke("resolve", "--store", tmp_path)
    project.git("add", "-A")
    finish = ("commit", "-q", "-m", "merged") if way[0] == "merge" else (way[0], "--continue")
    project.git("-c", "core.editor=true", *finish)
    project.sound()
    assert project.questions() == {*BASE, "theirs", *(f"cats {number}?" for number in (1, 2, 3, 4))}


@pytest.mark.parametrize("forms", ["ours", "theirs", "both", "back"])
def test_a_branch_goes_over(tmp_path: Path, forms: str) -> None:
    is_sharded = {"ours": (False, True, False), "theirs": (False, False, True), "both": (False, True, True)}
    base, ours, theirs = is_sharded.get(forms, (True, False, True))
    project = Driven(tmp_path, answers(*BASE), is_sharded=base)
    project.branch("theirs", answers(*BASE[1:], *names("theirs", 5)), is_sharded=theirs)
    project.branch("ours", answers(*BASE[:-1], *names("ours", 5)), is_sharded=ours)
    said = project.git("merge", "-q", "--no-edit", "theirs", fails=True)
    assert "run: cortex-replay resolve" in said

    invoke("resolve", "--store", tmp_path)
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "merged")
    project.sound()
    assert project.questions() == {*BASE[1:-1], *names("ours", 5), *names("theirs", 5)}
    assert project.is_sharded() == (forms != "back")


def test_both_go_over_and_only_add(tmp_path: Path) -> None:
    """Then there is nothing to choose, and git needs no help."""
    project = Driven(tmp_path, answers(*BASE), is_sharded=False)
    project.branch("theirs", answers(*BASE, *names("theirs", 5)))
    project.branch("ours", answers(*BASE, *names("ours", 5)))
    project.git("merge", "-q", "--no-edit", "theirs")

    project.sound()
    assert len(project.questions()) == len(BASE) + 10


def test_a_commit_that_no_reference_names(tmp_path: Path) -> None:
    """Fetched from a path, and merged by what git fetched; the base is older than all branches."""
    base = in_shard("base", "3f", 3)
    (tmp_path / "mine").mkdir()
    mine = Driven(tmp_path / "mine", answers(*base))
    subprocess.run(["git", "clone", "-q", mine.root, tmp_path / "yours"], check=True)
    yours = Driven.__new__(Driven)
    yours.root = tmp_path / "yours"
    yours.commit(answers(*base, *in_shard("theirs", "3f")), "theirs")
    mine.commit(answers(*base, *in_shard("ours", "3f")), "ours")
    mine.git("pull", "-q", "--no-rebase", "--no-edit", str(yours.root), "main")

    mine.sound()
    assert len(mine.questions()) == 5


def test_two_answers_are_a_conflict_of_shard_and_root(tmp_path: Path) -> None:
    project = Driven(tmp_path, answers(*BASE))
    project.branch("theirs", [*answers(*BASE), answer("both", "theirs")])
    project.branch("ours", [*answers(*BASE), answer("both", "ours")])
    said = project.git("merge", "-q", "--no-edit", "theirs", fails=True)
    assert "has different answers" in said

    invoke("resolve", "--theirs", "--store", tmp_path)
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "merged")
    project.sound()


def test_a_criss_cross(tmp_path: Path) -> None:
    """Whose base git makes itself, of two: it merges, or it stops and resolve goes on."""
    base = in_shard("base", "3f", 3)
    project = Driven(tmp_path, answers(*base))
    one, two, three, four = (in_shard(name, "3f")[0] for name in ("one", "two", "three", "four"))
    project.branch("a", answers(*base, one))
    project.branch("b", answers(*base, two))
    project.git("checkout", "-q", "-b", "a2", "a")
    project.git("merge", "-q", "--no-edit", "b")
    project.git("checkout", "-q", "-b", "b2", "b")
    project.git("merge", "-q", "--no-edit", "a")
    project.commit(answers(*base, one, two, three), "b3")
    project.git("checkout", "-q", "a2")
    project.commit(answers(*base, one, two, four), "a3")
    project.git("merge", "-q", "--no-edit", "b2", fails=None)
    if project.codes():
        invoke("resolve", "--store", tmp_path)
    assert project.questions() == {*base, one, two, three, four}
