"""A repository in the work tree of another is not what it says it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.errors import StoreIo
from cortex_replay.store.git.repository import find_top
from tests.security.test_git import git, run


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "llm").mkdir()
    return folder


def test_a_git_file_does_not_lead_into_the_work_tree_around_it(clone: Path) -> None:
    """A commit can hold both the file and the folder that it leads to."""
    git(clone, "init", "-q", "--bare", "evil")
    (clone / "llm" / ".git").write_text("gitdir: ../evil\n")
    before = (clone / "evil" / "config").read_bytes()

    with pytest.raises(StoreIo, match="planted"):
        find_top(clone / "llm")
    assert run("init", "--driver-only", "--store", clone / "llm")[0] == 1
    assert (clone / "evil" / "config").read_bytes() == before


def test_a_submodule_is_what_it_says(clone: Path, tmp_path: Path) -> None:
    (clone / ".git" / "modules").mkdir()
    git(tmp_path, "init", "-q", "--bare", str(clone / ".git" / "modules" / "llm"))
    (clone / "llm" / ".git").write_text("gitdir: ../.git/modules/llm\n")

    assert find_top(clone / "llm") == clone / "llm"


def test_init_writes_nothing_beside_files_that_nobody_lists(clone: Path) -> None:
    (clone / "llm" / "fixtures").mkdir()
    (clone / "llm" / "fixtures" / "a.json").write_text("{}")

    status, said = run("init", "--store", clone / "llm")

    assert status == 1
    assert "no index lists" in said
    assert sorted(path.name for path in (clone / "llm").iterdir()) == ["fixtures"]
