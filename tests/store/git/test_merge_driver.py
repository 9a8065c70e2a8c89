"""The line that git is given, by itself; what it runs in a stranger's work tree is in ``tests/security``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cortex_replay import StoreIo
from cortex_replay.store.git import merge_driver
from cortex_replay.store.git.merge_driver import _Start, install_driver, mend_driver
from cortex_replay.store.git.repository import Repository

DRIVER = "merge.cortex-replay.driver"
OLD = "python -m cortex_replay merge-driver %O %A %B"
WHO = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *WHO, *arguments], cwd=folder, check=False, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main", "clone")
    return tmp_path / "clone"


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _Start:
    """A Python that lies beside the clone; nothing of it is run here."""
    start = _Start(("/py", "-I", "main.py"), (tmp_path / "environment",))
    monkeypatch.setattr(merge_driver, "_find_start", lambda: start)
    return start


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, root: Path) -> _Start:
    start = _Start(("/py", "-I", "main.py"), (root / ".venv/bin", root / ".venv/lib"))
    monkeypatch.setattr(merge_driver, "_find_start", lambda: start)
    for place in start.places:
        place.mkdir(parents=True)
        (place / "a").touch()
    return start


def test_python_beside_the_clone_is_run_as_it_is(root: Path, outside: _Start) -> None:
    install_driver(root)

    assert git(root, "config", DRIVER) == "/py -I main.py merge-driver -- %O %A %B %P"
    assert git(root, "config", "merge.cortex-replay.name") == "cortex-replay index"


def test_python_in_the_clone_is_run_only_if_git_tracks_nothing_there(root: Path, inside: _Start) -> None:
    install_driver(root)
    line = git(root, "config", DRIVER)
    assert line.startswith("unset GIT_DIR ")

    def asked() -> int:
        """Whether the line would go on to Python, which is put in the place of a program that ends well."""
        return subprocess.run(
            line.replace("/py -I main.py", "true"), shell=True, cwd=root, check=False, capture_output=True
        ).returncode

    assert asked() == 0
    git(root, "add", "-f", ".venv/lib/a")
    assert asked() == 1
    git(root, "rm", "-q", "--cached", ".venv/lib/a")
    (root / ".venv").rename(root / "elsewhere")
    (root / ".venv").symlink_to("elsewhere")
    assert asked() == 1


def test_python_that_git_tracks_is_refused_and_an_old_line_goes(root: Path, inside: _Start) -> None:
    git(root, "add", "-f", ".venv/bin/a")
    with pytest.raises(StoreIo, match=r"git tracks .*\.venv/bin"):
        install_driver(root)

    git(root, "config", DRIVER, OLD)
    assert "it was removed, since io: git tracks" in (mend_driver(root) or "")
    assert git(root, "config", DRIVER) == ""


@pytest.mark.parametrize(
    ("line", "is_mended"),
    [
        (OLD, True),
        ("'/a b/python' -m cortex_replay merge-driver", True),
        ("python -m cortex_replay 'unbalanced", True),
        ("python -I -m cortex_replay merge-driver", False),
        ("/py -I main.py merge-driver", False),
        ("another-driver %O", False),
    ],
)
def test_a_line_that_runs_modules_of_the_work_tree_is_mended(
    root: Path, outside: _Start, line: str, is_mended: bool
) -> None:
    git(root, "config", DRIVER, line)

    said = mend_driver(root)

    assert (said is not None) == is_mended
    assert (git(root, "config", DRIVER) == line) != is_mended


def test_without_a_repository_there_is_nothing_to_mend(tmp_path: Path) -> None:
    assert mend_driver(tmp_path) is None


def test_a_configuration_behind_a_link_is_left_alone(root: Path, outside: _Start) -> None:
    git(root, "config", DRIVER, OLD)
    (root / ".git/config").rename(root / "config")
    (root / ".git/config").symlink_to("../config")

    assert "cannot be changed" in (mend_driver(root) or "")
    with pytest.raises(StoreIo, match="is a link; git would write to where it leads"):
        install_driver(root)


def test_a_worktree_of_the_clone_may_change_it_and_another_clone_may_not(
    root: Path, outside: _Start, tmp_path: Path
) -> None:
    git(root, "commit", "-q", "--allow-empty", "-m", "x")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"))
    install_driver(tmp_path / "tree")
    assert git(root, "config", DRIVER).startswith("/py")

    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / ".git").write_text(f"gitdir: {root / '.git'}\n")
    with pytest.raises(StoreIo, match="belongs to another work tree"):
        install_driver(planted)
    (planted / ".git").write_text(f"gitdir: {root / '.git/worktrees/tree'}\n")
    with pytest.raises(StoreIo, match="belongs to another work tree"):
        install_driver(planted)


def test_who_names_a_repository_means_it(
    root: Path, outside: _Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(root / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(root))
    install_driver(root)

    assert git(root, "config", DRIVER).startswith("/py")


@pytest.fixture
def unknown() -> Iterator[None]:
    """Nobody has looked for Python yet."""
    merge_driver._find_start.cache_clear()
    yield
    merge_driver._find_start.cache_clear()


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize(
    ("program", "reason"),
    [("", "the path of Python is not known"), ("/nowhere/python", "does not find this cortex-replay")],
)
def test_a_python_that_does_not_start_is_not_told_to_git(
    root: Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)

    with pytest.raises(StoreIo, match=reason):
        install_driver(root)
    assert git(root, "config", DRIVER) == ""


def test_work_trees_are_told_apart(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", "other")
    repository = Repository(root)

    assert merge_driver._work_tree_of(root / "a", repository) == root
    assert merge_driver._work_tree_of(other / "a", repository) is None
    (other / ".git").rename(other / "moved")
    (other / ".git").write_text("nonsense\n")
    assert merge_driver._work_tree_of(other / "a", repository) is None
