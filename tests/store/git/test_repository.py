"""A store as it was at another commit, and commits in which it is not whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cortex_replay import StoreIo
from cortex_replay.store.git import repository as module
from cortex_replay.store.git.repository import Repository, StoreAtCommit
from cortex_replay.store.index.index import FixtureRow
from cortex_replay.store.trust import Untrusted
from tests.builder import StoreBuilder
from tests.store.conversations import index_of


class Project:
    """A repository with a store of two answers, committed as ``HEAD``."""

    def __init__(self, root: Path, git: Callable[..., str]) -> None:
        self.store = root / "llm"
        self._root, self._git = root, git
        self.git("init", "-q", "-b", "main")
        builder = StoreBuilder(self.store)
        for question in ("one", "two"):
            builder.add(question, "an answer")
        builder.write()
        self.commit()

    def git(self, *arguments: str) -> str:
        return self._git(self._root, *arguments)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    from tests.reviews import git  # noqa: PLC0415 - it reads a page of the project

    return Project(tmp_path, git)


def test_files_of_a_commit_are_read_one_by_one_and_together(project: Project) -> None:
    rows = index_of(project.store).rows
    before = {row.path: (project.store / row.path).read_bytes() for row in rows}
    for row in rows:
        (project.store / row.path).unlink()

    with StoreAtCommit(project.store, "HEAD") as then:
        assert then.index().rows == rows
        assert dict(then.read_many(rows)) == before
        assert list(then.read_many([])) == []
        assert {row.path: then.read(row) for row in rows} == before


def test_what_a_commit_has_not_is_missing(project: Project) -> None:
    gone = FixtureRow("fixtures/m/gone.json", "0" * 64, "m", "1" * 64)

    with StoreAtCommit(project.store, "HEAD") as then:
        assert list(then.read_many([gone])) == []
        with pytest.raises(Untrusted) as missing:
            then.read(gone)
        assert (missing.value.finding.code, missing.value.finding.reason) == ("missing", "is not in HEAD")


def test_an_index_that_is_none_or_too_large_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_INDEX_BYTES", 10)
    with pytest.raises(StoreIo, match=r"INDEX\.toml at HEAD is larger than 10 bytes"):
        StoreAtCommit(project.store, "HEAD").index()
    monkeypatch.undo()

    (project.store / "INDEX.toml").write_text("nonsense\n")
    project.commit()
    with pytest.raises(StoreIo, match=r"INDEX\.toml at HEAD: "):
        StoreAtCommit(project.store, "HEAD").index()


def test_a_store_that_was_not_there_yet_is_empty(project: Project) -> None:
    assert StoreAtCommit(project.store.parent / "other", "HEAD").index().rows == []


def test_files_that_git_has_or_would_take(project: Project) -> None:
    (project.store.parent / ".gitignore").write_text("ignored\n")
    for name in ("ignored", "new"):
        (project.store.parent / name).touch()

    found = Repository(project.store).files()

    assert {".gitignore", "new", "llm/INDEX.toml"} <= set(found)
    assert "ignored" not in found


def test_branches_without_a_common_commit_have_none(project: Project) -> None:
    project.git("checkout", "-q", "--orphan", "other")
    (project.store.parent / "another").touch()
    project.commit()

    with pytest.raises(StoreIo, match="no commit in common"):
        module.find_merge_base(project.store, "main", "other")
    assert module.find_merge_base(project.store, "main", "main") == project.git("rev-parse", "main")


def test_a_store_elsewhere_is_in_no_repository_of_a_hook(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(project.store.parent / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(project.store.parent))

    with pytest.raises(StoreIo, match="is not in the git repository"):
        Repository(tmp_path_factory.mktemp("elsewhere"))
