"""Branches, merges and reviews, in real git repositories."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from cortex_replay import Store
from cortex_replay.cli.main import main
from cortex_replay.store.fixture import Answer
from tests.builder import StoreBuilder, ask, fixture_of

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"]


class Project:
    """A repository with a store, and the merge driver as ``init`` installs it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q")
        assert CliRunner().invoke(main, ["init", "--store", str(root)]).exit_code == 0
        self.commit("base")

    def git(self, *arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            ["git", *IDENTITY, *arguments], cwd=self.root, capture_output=True, text=True, check=False
        )
        assert fails == (done.returncode != 0), done.stdout + done.stderr
        return done.stdout + done.stderr

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def record(self, question: str, text: str) -> None:
        store = Store.open(self.root)
        store.replace(fixture_of(ask(question), Answer(text)))
        store.commit()
        self.commit(f"{question} {text}")

    def remove(self, question: str) -> None:
        store = Store.open(self.root)
        store.remove(*store.key(ask(question)))
        store.commit()
        self.commit(f"remove {question}")

    def answers(self) -> set[str]:
        store = Store.open(self.root)
        return {store.get(item.model, item.prompt_hash).answers[0].text for item in store.list()}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.record("shared", "before")
    made.git("checkout", "-q", "-b", "other")
    return made


def test_two_branches_that_add_fixtures_merge(project: Project) -> None:
    """Without a conflict, and the store is sound."""
    for i in range(5):
        project.record(f"theirs {i}", f"theirs {i}")
    project.git("checkout", "-q", "main")
    for i in range(5):
        project.record(f"ours {i}", f"ours {i}")
    project.git("merge", "-q", "other")

    assert {f"ours {i}" for i in range(5)} | {f"theirs {i}" for i in range(5)} <= project.answers()
    assert StoreBuilder(project.root).findings() == []


def test_one_side_replaces_and_the_other_removes_something_else(project: Project) -> None:
    """Each change is taken."""
    project.record("shared", "after")
    project.git("checkout", "-q", "main")
    project.record("mine", "mine")
    project.git("merge", "-q", "other")
    assert project.answers() == {"after", "mine"}

    project.git("checkout", "-q", "-b", "third")
    project.remove("shared")
    project.git("checkout", "-q", "main")
    project.record("more", "more")
    project.git("merge", "-q", "third")
    assert project.answers() == {"mine", "more"}


def test_both_sides_record_the_same_answer(project: Project) -> None:
    """The same bytes are no conflict."""
    project.record("new", "same")
    project.git("checkout", "-q", "main")
    project.record("new", "same")
    project.record("another", "x")
    project.git("merge", "-q", "other")

    assert project.answers() == {"before", "same", "x"}


def test_the_same_key_with_different_answers_is_a_conflict(project: Project) -> None:
    """Both are shown; verify refuses until a person has chosen."""
    project.record("shared", "theirs")
    project.git("checkout", "-q", "main")
    project.record("shared", "ours")
    said = project.git("merge", "other", fails=True)
    assert "different answers" in said
    paths = [line.split()[1] for line in said.splitlines() if line.split()[:1] in (["ours:"], ["theirs:"])]
    assert len(paths) == 2
    findings = StoreBuilder(project.root).findings()
    assert any("resolve" in (finding.hint or "") for finding in findings)

    chosen = CliRunner().invoke(main, ["resolve", "--take", paths[1], "--store", str(project.root)])
    assert chosen.exit_code == 0, chosen.output
    project.commit("merged")
    assert project.answers() == {"theirs"}


def test_what_changed_since_a_commit(project: Project) -> None:
    """For a review: what was asked, what it replaces, how the answer changed; as lines and as JSON."""
    project.git("checkout", "-q", "main")
    project.record("gone", "gone")
    project.git("checkout", "-q", "-B", "other")
    project.record("Say hello to everybody!", "added")
    project.record("shared", "after")
    store = Store.open(project.root)
    store.remove(*store.key(ask("gone")))
    store.commit()
    project.commit("remove one")
    lines = CliRunner().invoke(main, ["verify", "--base", "main", "--store", str(project.root)])
    report = CliRunner().invoke(main, ["verify", "--base", "main", "--json", "--store", str(project.root)])
    since = json.loads(report.stdout)["since"]

    assert lines.exit_code == report.exit_code == 0
    words = [line.split("  (")[0] for line in lines.stdout.splitlines()]
    assert words == [
        'added    test-model  "Say hello to everybody!"',
        'changed  test-model  "shared"',
        '         was "before"',
        '         now "after"',
        'removed  test-model  "gone"',
    ]
    assert "since main: 1 added, 1 changed, 1 removed" in lines.stderr
    assert (len(since["added"]), len(since["changed"]), len(since["removed"])) == (1, 1, 1)
    assert since["added"][0]["question"] == "Say hello to everybody!"
    assert since["changed"][0]["before"]["answer"] == "before"
    assert (
        CliRunner().invoke(main, ["verify", "--base", "nowhere", "--store", str(project.root)]).exit_code == 1
    )


def test_a_base_without_a_store(tmp_path: Path) -> None:
    """Everything is new."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(
        ["git", *IDENTITY, "commit", "-q", "--allow-empty", "-m", "empty"], cwd=tmp_path, check=True
    )
    assert CliRunner().invoke(main, ["init", "--store", str(tmp_path)]).exit_code == 0
    store = Store.open(tmp_path)
    store.add(fixture_of(ask("one"), Answer("One.")))
    store.commit()
    result = CliRunner().invoke(main, ["verify", "--base", "HEAD", "--store", str(tmp_path)])

    assert result.exit_code == 0
    assert result.stdout.startswith("added")


def test_checking_out_another_commit_is_followed(project: Project) -> None:
    """The journal of a commit that git has undone excuses nothing and deletes nothing."""
    project.record("shared", "after")
    project.git("checkout", "-q", "main")
    assert project.answers() == {"before"}
    project.record("more", "more")
    assert project.answers() == {"before", "more"}
    project.git("checkout", "-q", "other")
    assert project.answers() == {"after"}
