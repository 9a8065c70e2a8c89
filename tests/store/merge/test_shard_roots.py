"""Merges of sharded indexes: the root lists what git, and the driver, make of each shard."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from random import Random

import pytest

from cortex_replay import Store, blake3_hex
from cortex_replay.store.index.grid import render_shard
from cortex_replay.store.index.index import FixtureRow, Index, Row, ShardRow
from cortex_replay.store.index.shards import render_whole, shard_of
from cortex_replay.store.merge.merge import merge_indexes
from cortex_replay.store.merge.shard_roots import merge_roots
from cortex_replay.store.trust import trust_index
from tests.cli.commands import run
from tests.store.linked_stores import File, Project, answer, conversation, write


class Tree:
    """What git has of an index at one commit: the files of it."""

    def __init__(self, rows: Collection[Row], *, is_sharded: bool = True) -> None:
        index, files = render_whole(Index.of(rows, {}), is_sharded=is_sharded)
        self.root = trust_index(files.root)
        self.rows = set(rows)
        self.shards = {ShardRow(shard.name, shard.blake3): files.shards[shard.name] for shard in index.shards}
        self.files = {shard.name: data for shard, data in self.shards.items()}


def rows_of(numbers: Collection[int], answer: str = "a") -> dict[int, Row]:
    return {
        i: FixtureRow(
            f"fixtures/{i}-{answer}.json", blake3_hex(f"{i} {answer}".encode()), "m", blake3_hex(b"%d" % i)
        )
        for i in numbers
    }


def merge_by_git(base: Tree, ours: Tree, theirs: Tree) -> dict[str, bytes] | None:
    """What git and the driver leave of the shards; ``None`` if they report a conflict."""
    result: dict[str, bytes] = {}
    for name in {*base.files, *ours.files, *theirs.files}:
        was, mine, yours = (tree.files.get(name) for tree in (base, ours, theirs))
        if mine == yours or yours == was:
            kept = mine
        elif mine == was:
            kept = yours
        elif mine is None or yours is None:
            return None
        else:
            indexes = [trust_index(data or b"") for data in (was, mine, yours)]
            merged, conflicts = merge_indexes(indexes[0], indexes[1], indexes[2])
            if conflicts:
                return None
            kept = render_shard(merged).encode()
        if kept is not None:
            result[name] = kept
    return result


def merge(base: Tree, ours: Tree, theirs: Tree) -> str:
    known = base.shards | ours.shards | theirs.shards
    return merge_roots(
        base.root, ours.root, theirs.root, lambda shards: {one: known[one] for one in shards}
    ).text


@pytest.mark.parametrize("was_sharded", [True, False])
def test_the_root_lists_what_git_makes_of_each_shard(was_sharded: bool) -> None:
    """To the byte, and it holds what both sides recorded; or there is a conflict."""
    merged = 0
    for seed in range(6):
        random = Random(seed)
        common = rows_of(range(40))
        sides = [Tree([*common.values()], is_sharded=was_sharded)]
        for side, start in (("ours", 100), ("theirs", 200)):
            rows = common | rows_of(range(start, start + random.randrange(1, 20)), side)
            if seed % 2:
                del rows[random.randrange(40)]
                rows |= rows_of(random.sample(range(40), random.randrange(3)), side)
            sides.append(Tree([*rows.values()]))
        base, ours, theirs = sides
        text, files = merge(base, ours, theirs), merge_by_git(base, ours, theirs)
        if not text:
            continue
        merged += 1
        assert files is not None
        root = trust_index(text.encode())
        assert {shard.name: shard.blake3 for shard in root.shards} == {
            name: blake3_hex(data) for name, data in files.items()
        }
        old, one, other = (Index.of(tree.rows, {}) for tree in sides)
        whole, conflicts = merge_indexes(old, one, other)
        assert conflicts == []
        assert text == render_whole(whole, is_sharded=True)[1].root.decode()
    assert merged >= 3, "a check of nothing"


def test_a_shard_that_git_does_not_have_is_a_conflict() -> None:
    base, ours, theirs = (Tree([*rows_of(range(n)).values()]) for n in (40, 60, 80))
    made = merge_roots(base.root, ours.root, theirs.root, lambda _: {})

    assert made.text == ""
    assert "git has not got all versions of index/" in made.problems[0]


def test_what_another_shard_needs_is_a_conflict() -> None:
    """The parent's shard is changed by one side alone, so no driver sees it."""
    parent = rows_of([1])[1]
    child = next(
        row
        for i in range(2, 99)
        if shard_of(
            row := FixtureRow(f"fixtures/{i}.json", "0" * 64, "m", blake3_hex(b"%d" % i), blake3_hex(b"1"))
        )
        != shard_of(parent)
    )
    others = rows_of(range(200, 240)).values()
    base, ours, theirs = Tree([parent, *others]), Tree([*others]), Tree([parent, child, *others])
    known = base.shards | ours.shards | theirs.shards
    made = merge_roots(base.root, ours.root, theirs.root, lambda shards: {one: known[one] for one in shards})

    assert made.text == ""
    assert made.lost == [parent.path]


class Sharded(Project):
    """A store that has shards."""

    has_shards = True


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix} {i}" for i in range(count)]


def answers(*questions: str) -> list[File]:
    return [answer(question) for question in questions]


def in_shard(prefix: str, shard: str, count: int = 1) -> list[str]:
    """Questions that stand in one shard."""
    found = (f"{prefix} {i}" for i in range(100_000) if shard_of(answer(f"{prefix} {i}")[0]) == shard)
    return [next(found) for _ in range(count)]


BASE = names("base", 12)


def test_disjoint_shards_merge_without_a_driver(tmp_path: Path) -> None:
    """Git sees lines of the root that lie apart, also of two shards beside each other."""
    base = [*in_shard("base", "3f"), *in_shard("base", "40"), *in_shard("base", "7a")]
    project = Sharded(tmp_path, answers(*base))
    theirs = [*in_shard("theirs", "40"), *in_shard("theirs", "91")]
    ours = [*in_shard("ours", "3f"), *in_shard("ours", "92")]
    project.branch("theirs", answers(*base, *theirs))
    project.branch("ours", answers(*base, *ours))
    project.git("merge", "-q", "--no-edit", "theirs")

    assert project.codes() == set()
    assert project.questions() == {*base, *theirs, *ours}


@pytest.mark.parametrize("command", [("rebase", "-q", "theirs")])
def test_one_shard_on_both_sides_and_then_resolve(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Markers in the root, and none or some in the shard; a question with two answers beside it."""
    base = in_shard("base", "3f", 3)
    project = Sharded(tmp_path, answers(*base, *BASE))
    theirs, ours = in_shard("theirs", "3f", 2), in_shard("ours", "3f", 2)
    project.branch("theirs", [*answers(*base[1:], *BASE, *theirs), answer("both", "theirs")])
    project.branch("ours", [*answers(*base, *BASE, *ours), answer("both", "ours")])
    project.git(*command, fails=True)
    assert "index-malformed" in project.codes()
    for option in ((), ("--staged",)):
        assert "run: cortex-replay resolve" in run("verify", *option, "--store", tmp_path).output

    done = run("resolve", "--theirs", "--store", tmp_path)
    assert done.exit_code == 0, done.output
    assert project.questions() == {*base[1:], *BASE, *theirs, *ours, "both"}
    assert project.is_sharded()
    store = Store.open(tmp_path)
    chosen = "ours" if command[0] == "rebase" else "theirs"
    assert store.get(*answer("both")[0][2:4]).answers[0].text == chosen
    other = run("resolve", "--ours", "--store", tmp_path)
    assert other.exit_code == 0, other.output
    project.git("add", "-A")
    assert run("verify", "--staged", "--store", tmp_path).exit_code == 0


@pytest.mark.parametrize("way", ["theirs", "both"])
def test_a_branch_goes_over(tmp_path: Path, way: str) -> None:
    """While the other one records in one file; or both do; or one goes back."""
    is_sharded = {"ours": (False, True, False), "theirs": (False, False, True), "both": (False, True, True)}
    base, ours, theirs = is_sharded.get(way, (True, False, True))
    project = Sharded(tmp_path, answers(*BASE), is_sharded=base)
    project.branch("theirs", answers(*BASE[1:], *names("theirs", 5)), is_sharded=theirs)
    project.branch("ours", answers(*BASE[:-1], *names("ours", 5)), is_sharded=ours)
    project.git("merge", "-q", "--no-edit", "theirs", fails=True)
    done = run("resolve", "--store", tmp_path)

    assert done.exit_code == 0, done.output
    assert project.questions() == {*BASE[1:-1], *names("ours", 5), *names("theirs", 5)}
    assert project.is_sharded() == (way != "back")


def test_markers_alone(tmp_path: Path) -> None:
    """Without git: the rows of both sides are taken, from the root's shards and their markers."""
    base = in_shard("base", "3f", 3)
    project = Sharded(tmp_path, answers(*base))
    theirs, ours = in_shard("theirs", "3f"), in_shard("ours", "3f")
    project.branch("theirs", answers(*base, *theirs))
    project.branch("ours", answers(*base, *ours))
    project.git("merge", "-q", "--no-edit", "theirs", fails=True)
    (tmp_path / ".git").rename(tmp_path.parent / f"{tmp_path.name} git")

    done = run("resolve", "--store", tmp_path)
    assert done.exit_code == 0, done.output
    assert project.questions() == {*base, *theirs, *ours}


def test_a_root_that_somebody_resolved_to_one_side(tmp_path: Path) -> None:
    """It lists a stale hash: verify fails, and resolve lists what git merged."""
    base = in_shard("base", "3f", 3)
    project = Sharded(tmp_path, answers(*base))
    theirs, ours = in_shard("theirs", "3f"), in_shard("ours", "3f")
    project.branch("theirs", answers(*base, *theirs))
    project.branch("ours", answers(*base, *ours))
    project.git("merge", "-q", "--no-edit", "theirs", fails=True)
    if project.git("ls-files", "--unmerged", "--", "index"):
        pytest.skip("the two rows meet in one slot")
    project.git("checkout", "--ours", "INDEX.toml")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "merged")
    assert "mismatch" in project.codes()

    done = run("resolve", "--store", tmp_path)
    assert done.exit_code == 0, done.output
    assert project.questions() == {*base, *theirs, *ours}


def test_links_between_shards(tmp_path: Path) -> None:
    """One branch prunes a conversation, another records a turn more; then resolve."""
    others = answers(*BASE)
    project = Sharded(tmp_path, [*others, *conversation(3)])
    project.branch("theirs", others)
    project.branch("ours", [*others, *conversation(4)])
    project.git("merge", "-q", "--no-edit", "theirs", fails=None)
    assert project.codes()

    done = run("resolve", "--store", tmp_path)
    assert done.exit_code == 0, done.output
    assert project.questions() == {*BASE, *(f"cats {number}?" for number in (1, 2, 3, 4))}


def test_a_sharded_store_at_a_commit(tmp_path: Path) -> None:
    project = Sharded(tmp_path, [*answers(*BASE), *conversation(2)])
    write(tmp_path, [*answers(*BASE[1:]), *conversation(3)], is_sharded=True)
    review = run("verify", "--base", "main", "--store", tmp_path)
    lines = [line.split("  (")[0] for line in review.stdout.splitlines()]

    assert review.exit_code == 0, review.output
    assert lines == ['added    test-model  "cats 3?"', 'removed  test-model  "base 0"']
    (tmp_path / next((tmp_path / "index").iterdir())).unlink()
    assert project.codes() & {"missing"}


def test_a_shard_that_is_not_staged(tmp_path: Path) -> None:
    project = Sharded(tmp_path, answers(*BASE))
    write(tmp_path, answers(*BASE, "new"), is_sharded=True)
    shard = f"index/{shard_of(answer('new')[0])}.toml"
    project.git("add", "INDEX.toml", "fixtures")
    staged = run("verify", "--staged", "--store", tmp_path)
    assert staged.exit_code == 5
    assert shard in staged.stdout

    project.git("add", "-A")
    assert run("verify", "--staged", "--store", tmp_path).exit_code == 0
    project.git("rm", "-q", "--cached", shard)
    assert f"git add {shard}" in run("verify", "--staged", "--store", tmp_path).stdout


def test_index_sees_shards(tmp_path: Path) -> None:
    """It lists what is new, and keeps the form; a shard that the root does not vouch for needs a person."""
    project = Sharded(tmp_path, answers(*BASE))
    assert run("index", "--check", "--store", tmp_path).exit_code == 0
    row, data = answer("new")
    (tmp_path / row.path).write_bytes(data)
    assert run("index", "--store", tmp_path).exit_code == 0
    assert project.questions() == {*BASE, "new"}
    assert project.is_sharded()

    shard = tmp_path / f"index/{shard_of(row)}.toml"
    shard.write_text(shard.read_text() + "# by hand\n")
    assert project.codes() == {"mismatch", "unlisted"}
    refused = run("index", "--store", tmp_path)
    assert refused.exit_code != 0
    assert f"index/{shard_of(row)}.toml" in refused.stderr
    assert run("index", "--accept-changed", "--store", tmp_path).exit_code == 0
    assert project.questions() == {*BASE, "new"}

    shard.write_text(f"<<<<<<< ours\n{shard.read_text()}=======\n>>>>>>> theirs\n")
    marked = run("index", "--accept-changed", "--store", tmp_path)
    assert marked.exit_code == 5
    assert "run: cortex-replay resolve" in marked.stderr
