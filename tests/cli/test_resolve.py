"""``cortex-replay resolve``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay.store.index.grid import render_index
from cortex_replay.store.index.index import parse_index
from tests.builder import StoreBuilder
from tests.cli.commands import run
from tests.store.branches import Branches


@pytest.fixture
def branches(tmp_path: Path) -> Branches:
    """In a folder of a larger repository, as most stores are."""
    return Branches(tmp_path / "project/tests/llm", 4, top=tmp_path / "project")


def resolve(branches: Branches, *options: str) -> Result:
    return run("resolve", "--store", branches.root, *options)


def conflict(branches: Branches, ours: str = "ours", theirs: str = "theirs") -> None:
    """One question that was recorded again in both branches, beside one that each recorded alone."""
    branches.branch("theirs", {"shared 1": theirs, "their own": "x"})
    branches.branch("ours", {"shared 1": ours, "our own": "x"})
    assert not branches.merge()


def test_two_answers_to_one_question(branches: Branches) -> None:
    """Ours is kept, with all that both sides recorded; until `git add` one can choose again."""
    conflict(branches)
    assert branches.store().codes() == ["index-malformed"]
    for command in (["verify"], ["verify", "--staged"], ["list"], ["index"]):
        assert "run: cortex-replay resolve" in run(*command, "--store", branches.root).output

    first = resolve(branches)
    assert first.exit_code == 0, first.output
    questions = {**branches.recorded, "our own": "x", "their own": "x"}
    assert branches.questions() == questions | {"shared 1": "ours"}
    other = first.stdout.partition(" --take ")[2].split()[0]
    second = resolve(branches, "--take", other)
    assert (second.exit_code, branches.questions()["shared 1"]) == (0, "theirs"), second.output
    again = resolve(branches)
    assert (again.exit_code, branches.questions()["shared 1"]) == (0, "theirs"), "a choice stays"
    assert resolve(branches, "--ours").exit_code == 0
    assert branches.questions()["shared 1"] == "ours"

    assert "git add -A -- " in again.stderr
    branches.git("add", "-A")
    branches.git("commit", "-q", "-m", "merged")
    assert run("verify", "--staged", "--store", branches.root).exit_code == 0
    assert "nothing to resolve" in resolve(branches).stderr


@pytest.mark.parametrize("side", ["--ours", "--theirs"])
def test_in_a_rebase(branches: Branches, side: str) -> None:
    """Where git calls the branch that one rebases onto ours."""
    branches.branch("theirs", {"shared 1": "upstream", "their own": "x"})
    branches.branch("ours", {"shared 1": "mine", "our own": "x"})
    assert not branches.merge("rebase", "-q", "theirs")

    assert resolve(branches, side).exit_code == 0
    assert branches.questions()["shared 1"] == ("upstream" if side == "--ours" else "mine")
    assert len(branches.questions()) == 6


def test_one_side_records_again_what_the_other_prunes(branches: Branches) -> None:
    """An answer rather than none, unless the user says so."""
    branches.branch("theirs", removed=["shared 1"])
    branches.branch("ours", {"shared 1": "again"})
    assert not branches.merge()

    assert resolve(branches).exit_code == 0
    assert branches.questions() == branches.recorded | {"shared 1": "again"}
    assert resolve(branches, "--theirs").exit_code == 0
    assert "shared 1" not in branches.questions()


def test_what_one_side_pruned_stays_pruned(branches: Branches) -> None:
    """Although the two rows meet in one slot: git's base tells a removal from an addition."""
    conflict(branches)
    branches.git("merge", "--abort")
    branches.git("checkout", "-q", "theirs")
    store = branches.store().open()
    pruned = next(item for item in store.list() if "shared 2" in str(store.get(item.model, item.prompt_hash)))
    store.remove(pruned.model, pruned.prompt_hash)
    store.commit()
    branches.git("add", "-A")
    branches.git("commit", "-q", "-m", "prune")
    branches.git("checkout", "-q", "ours")
    assert not branches.merge()

    assert resolve(branches).exit_code == 0
    assert "shared 2" not in branches.questions()


def test_a_branch_from_before_the_grid(tmp_path: Path) -> None:
    """Both branches move to the grid: git cannot see that they do the same, resolve can."""
    branches = Branches(tmp_path / "store", 4)
    rows = sorted(parse_index(branches.store().index_text()).fixtures)
    dense = "format = 1\nkey = 1\n\n" + "\n".join(
        f'[[fixture]]\npath = "{row.path}"\nblake3 = "{row.blake3}"\nmodel = "{row.model}"\n'
        f'prompt_hash = "{row.prompt_hash}"\n'
        for row in rows
    )
    branches.store().write_index(dense)
    branches.git("commit", "-q", "-a", "-m", "dense")
    assert branches.store().findings() == []
    assert run("index", "--check", "--store", branches.root).exit_code == 0
    branches.branch("theirs", ["theirs"])
    branches.branch("ours", ["ours"])
    if not branches.merge():
        assert resolve(branches).exit_code == 0

    assert len(branches.questions()) == 6


def marked(builder: StoreBuilder, ours: list[str], theirs: list[str]) -> str:
    """An index with markers, outside of git, for the rows of these files."""
    text = builder.index_text()
    rows = {row.path: row for row in parse_index(text).fixtures}
    sides = [render_index(parse_index(text).of([rows[path] for path in side], {})) for side in (ours, theirs)]
    return f"<<<<<<< HEAD\n{sides[0]}=======\n{sides[1]}>>>>>>> other\n"


def test_markers_alone(tmp_path: Path) -> None:
    """Without git: the rows of both sides are taken."""
    builder = StoreBuilder(tmp_path)
    one, two, three = (builder.add(question, "x") for question in ("one", "two", "three"))
    builder.write()
    builder.write_index(marked(builder, [one, two], [two, three]))
    assert builder.codes() == ["index-malformed"]
    refused = run("index", "--store", tmp_path)
    assert refused.exit_code == 5
    assert "run: cortex-replay resolve" in refused.stderr

    assert run("resolve", "--dry-run", "--store", tmp_path).exit_code == 0
    assert builder.codes() == ["index-malformed"]
    assert run("resolve", "--store", tmp_path).exit_code == 0
    assert builder.findings() == []
    assert len(builder.open()) == 3


def test_markers_alone_and_two_answers(tmp_path: Path) -> None:
    """Nobody could bring the other one back, so a person chooses first."""
    builder = StoreBuilder(tmp_path)
    ours, theirs = builder.add("one", "ours"), builder.add("one", "theirs")
    builder.write()
    text = marked(builder, [ours], [theirs])
    builder.write_index(text)

    refused = run("resolve", "--store", tmp_path)
    assert refused.exit_code == 1
    assert "--ours, --theirs or --take PATH" in refused.stderr
    assert builder.index_text() == text
    assert (tmp_path / theirs).exists()
    chosen = run("resolve", "--take", theirs, "--store", tmp_path)
    assert chosen.exit_code == 0, chosen.output
    assert [row.path for row in parse_index(builder.index_text()).fixtures] == [theirs]
    assert not (tmp_path / ours).exists()


@pytest.mark.parametrize("side", ["nonsense", 'path = "x"', "[[fixture]]\npath = 3"])
def test_a_side_that_is_no_index(tmp_path: Path, side: str) -> None:
    """It is refused, and nothing changes."""
    builder = StoreBuilder(tmp_path)
    builder.add("one", "x")
    builder.write()
    text = f"{builder.index_text()}<<<<<<< HEAD\n{side}\n=======\n>>>>>>> other\n"
    builder.write_index(text)
    done = run("resolve", "--store", tmp_path)

    assert done.exit_code == 5
    assert builder.index_text() == text


def test_a_path_that_leads_out_of_the_store(tmp_path: Path) -> None:
    """A branch may be hostile: what it lists is judged before any file is touched."""
    builder = StoreBuilder(tmp_path / "store")
    builder.add("one", "x")
    builder.write()
    outside = tmp_path / "outside.json"
    outside.write_text("mine")
    digest = "0" * 64
    row = f'[[fixture]]\npath = "../outside.json"\nblake3 = "{digest}"\nmodel = "m"\nprompt_hash = "{digest}"'
    builder.write_index(f"{builder.index_text()}<<<<<<< HEAD\n{row}\n=======\n>>>>>>> other\n")
    done = run("resolve", "--ours", "--store", builder.root)

    assert done.exit_code == 5
    assert "path-unsafe" in done.stderr
    assert outside.read_text() == "mine"


def test_an_index_that_somebody_changed_since_stays(branches: Branches) -> None:
    """It is no longer what git left there."""
    conflict(branches)
    assert resolve(branches).exit_code == 0
    builder = branches.store()
    store = builder.open()
    item = store.list()[0]
    store.remove(item.model, item.prompt_hash)
    store.commit()
    text = builder.index_text()
    done = resolve(branches, "--theirs")

    assert "nothing to resolve" in done.stderr
    assert builder.index_text() == text


def test_a_file_that_somebody_changed_since_stays(branches: Branches) -> None:
    """It is reported instead."""
    conflict(branches)
    lines = resolve(branches, "--dry-run").stdout
    other = branches.root / lines.partition(" --take ")[2].split()[0]
    other.write_text('{"mine": 1}')
    done = resolve(branches)

    assert done.exit_code == 5
    assert "[unlisted]" in done.stdout
    assert other.read_text() == '{"mine": 1}'


def test_for_programs(branches: Branches) -> None:
    conflict(branches)
    made = json.loads(resolve(branches, "--json").stdout)

    assert (made["conflict"], made["written"], made["ok"], made["rows"]) == (True, True, True, 6)
    assert made["choices"][0]["kept"]["prompt_hash"] == made["choices"][0]["dropped"]["prompt_hash"]
    assert made["removed"] == [made["choices"][0]["dropped"]["path"]]
    branches.git("add", "-A")
    assert json.loads(resolve(branches, "--json").stdout)["conflict"] is False


def test_wrong_usage(branches: Branches) -> None:
    conflict(branches)

    assert resolve(branches, "--take", "fixtures/none.json").exit_code == 2
    assert resolve(branches, "--both").exit_code == 2
    assert branches.store().codes() == ["index-malformed"]
