"""Branch and commit are read from git's files, and a hostile repository leads nowhere."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cortex_replay.bindings.repository import Head, Repository

ONE = "1a" * 20
TWO = "2b" * 20


def make(root: Path, head: str = "ref: refs/heads/fix/login-7\n", **files: str) -> Path:
    git = root / ".git"
    for name, text in {"HEAD": head, "refs/heads/fix/login-7": f"{ONE}\n", **files}.items():
        (git / name).parent.mkdir(parents=True, exist_ok=True)
        (git / name).write_text(text)
    return root


def head_of(folder: Path) -> Head | None:
    found = Repository.above(str(folder))
    return None if found is None else found.head()


def test_branch_and_commit_are_read(tmp_path: Path) -> None:
    root = make(tmp_path)
    (root / "src/deep").mkdir(parents=True)
    found = Repository.above(str(root / "src/deep"))

    assert found is not None
    assert found.root == str(root)
    assert found.head() == Head("fix/login-7", ONE)


def test_a_packed_branch_is_read(tmp_path: Path) -> None:
    packed = f"# pack-refs\n{TWO} refs/heads/x/fix/login-7\n{ONE} refs/heads/fix/login-7\n^{TWO}\n"
    root = make(tmp_path, **{"packed-refs": packed})
    (root / ".git/refs/heads/fix/login-7").unlink()

    assert head_of(root) == Head("fix/login-7", ONE)


def test_a_commit_may_be_checked_out_by_itself(tmp_path: Path) -> None:
    assert head_of(make(tmp_path, head=f"{TWO}\n")) == Head(None, TWO)


def test_there_may_be_no_repository(tmp_path: Path) -> None:
    assert Repository.above(str(tmp_path)) is None


def test_real_repositories_are_read_as_git_reads_them(tmp_path: Path) -> None:
    """A clone, a worktree of it, a submodule, and commits that are made later."""
    main = tmp_path / "main"

    def git(*words: str, at: Path = main) -> str:
        identity = ["-c", "user.name=A", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
        done = subprocess.run(["git", *identity, *words], cwd=at, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    main.mkdir()
    git("init", "-q", "-b", "one-1")
    git("commit", "-q", "--allow-empty", "-m", "a")
    git("worktree", "add", "-q", "-b", "two-2", str(tmp_path / "tree"))
    git("submodule", "--quiet", "add", str(main), "sub")
    for folder, branch in [(main, "one-1"), (tmp_path / "tree", "two-2"), (main / "sub", "one-1")]:
        assert head_of(folder) == Head(branch, git("rev-parse", "HEAD", at=folder)), folder
    found = Repository.above(str(main))
    assert found is not None
    before = found.state()
    assert found.new_commits() == []
    git("commit", "-q", "-m", "b")
    git("commit", "-q", "--allow-empty", "-m", "c")

    assert found.state() != before
    assert found.new_commits() == [git("rev-parse", "HEAD~1"), git("rev-parse", "HEAD")]
    git("pack-refs", "--all")
    assert head_of(main) == Head("one-1", git("rev-parse", "HEAD"))


@pytest.mark.parametrize(
    "head",
    [
        *(
            "",
            "ref: refs/heads/\n",
            "ref: refs/heads/../../x\n",
            "ref: refs/heads/a..b\n",
            "ref: refs/tags/v1\n",
        ),
        *("ref: refs/heads/a b\n", "ref: refs/heads/⟦cwd⟧\n", "ref: refs/heads/a\x1b[0m\n", f"{'1' * 39}\n"),
        *("ref: refs/heads/-x\n", f"ref: refs/heads/{'a' * 300}\n", "x" * 5000, "a\nb\n", "\x00"),
    ],
)
def test_what_is_no_branch_is_none(tmp_path: Path, head: str) -> None:
    assert head_of(make(tmp_path, head=head)) == Head()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = make(tmp_path / "elsewhere")
    linked, in_head, in_refs, in_log = (tmp_path / name for name in ("linked", "head", "refs", "log"))
    linked.mkdir()
    (linked / ".git").symlink_to(elsewhere / ".git")
    make(in_head)
    (in_head / ".git/HEAD").unlink()
    (in_head / ".git/HEAD").symlink_to(elsewhere / ".git/HEAD")
    make(in_refs)
    (in_refs / ".git/refs").rename(in_refs / ".git/other")
    (in_refs / ".git/refs").symlink_to(elsewhere / ".git/refs")
    make(in_log)
    (elsewhere / "log").write_text(f"{ONE} {TWO} A <a> 1 +0000\n")
    (in_log / ".git/logs").mkdir()
    (in_log / ".git/logs/HEAD").symlink_to(elsewhere / "log")

    assert Repository.above(str(linked)) is None
    assert head_of(in_head) == Head()
    assert head_of(in_refs) == Head("fix/login-7", None)
    found = Repository.above(str(in_log))
    assert found is not None
    assert Repository(found.root, found.git, found.common).new_commits() == []


def test_a_git_file_leads_only_to_what_belongs_to_it(tmp_path: Path) -> None:
    """One that names another repository, or any folder, is none."""
    elsewhere = make(tmp_path / "elsewhere")
    for number, target in enumerate(
        [elsewhere / ".git", Path("/etc"), elsewhere / ".git/worktrees/x", Path("..")]
    ):
        root = tmp_path / str(number)
        root.mkdir()
        (root / ".git").write_text(f"gitdir: {target}\n")
        assert Repository.above(str(root)) is None, target


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    root = make(tmp_path)
    (root / ".git/HEAD").unlink()
    os.mkfifo(root / ".git/HEAD")

    assert head_of(root) == Head()
