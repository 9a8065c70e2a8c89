"""A team with git: what a clone gets, what the hook refuses, what a review reads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cortex_replay import Answer, Store
from cortex_replay.store.git.staging import check_staged
from tests.builder import ask, fixture_of
from tests.cli.commands import run
from tests.sharing.team import Team

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"]
TEST = """
import asyncio
import pytest
from cortex_replay import LlmRequest

@pytest.mark.llm_replay
@pytest.mark.parametrize("number", range(3))
def test_answer(llm, number):
    request = {"model": "test-model", "messages": f"Question {number}?", "max_tokens": 16}
    answer = asyncio.run(llm.complete(LlmRequest.from_dict(request)))
    assert answer.text == f"Question {number}? Yes, indeed."
"""


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def moved(team: Team) -> Team:
    """A repository that keeps its recordings in the bucket."""
    git(team.project, "init", "-q")
    team.record(*(f"Question {number}?" for number in range(3)))
    (team.project / "test_agent.py").write_text(TEST)
    assert run("keep", "remote").exit_code == 0
    git(team.project, "add", "-A")
    git(team.project, "commit", "-q", "-m", "moved")
    return team


def test_clone_and_pytest_just_work(moved: Team, pytester: pytest.Pytester) -> None:
    clone = pytester.path / "clone"
    git(moved.place, "clone", "-q", str(moved.project), str(clone))
    assert not list(clone.rglob("fixtures/**/*.json"))

    done = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", str(clone))

    done.assert_outcomes(passed=3)
    assert not list(clone.rglob("fixtures/**/*.json"))


def test_the_hook_lets_pass_what_is_pushed(moved: Team) -> None:
    assert check_staged(moved.store).findings == []
    assert run("verify", "--staged").exit_code == 0


@pytest.mark.parametrize("is_staged", [True, False])
def test_the_hook_refuses_a_row_whose_file_is_neither_staged_nor_pushed(moved: Team, is_staged: bool) -> None:
    moved.record("New?")
    if is_staged:
        git(moved.project, "add", "-A")  # git ignores the file, and takes the index

    (finding,) = check_staged(moved.store).findings

    assert finding.code == "untracked"
    assert "neither staged nor pushed" in finding.reason
    assert finding.hint == "cortex-replay push"
    assert run("push").exit_code == 0
    git(moved.project, "add", "-A")
    assert check_staged(moved.store).findings == []


def test_where_files_are_kept_in_git_they_may_be_staged_instead(moved: Team) -> None:
    assert run("keep", "git").exit_code == 0
    moved.record("New?")

    (finding,) = check_staged(moved.store).findings

    assert finding.hint is not None
    assert finding.hint.startswith("cortex-replay push, or git add llm/fixtures/")
    git(moved.project, "add", "-A")
    assert check_staged(moved.store).findings == []


def test_a_review_reads_what_git_does_not_have(moved: Team) -> None:
    (moved.store / "INDEX.toml").unlink()
    moved.record("Question 1? Really?")
    assert run("push").exit_code == 0

    shown = run("verify", "--base", "HEAD").stdout

    assert '"Question 1? Really?"' in shown
    assert '"Question 1?"' in shown, "what was there is read from the bucket"


def test_a_merge_of_two_branches_that_recorded_needs_none_of_the_files(moved: Team) -> None:
    """Both recorded one question anew: git cannot merge that row, and the files are in the bucket."""
    git(moved.project, "checkout", "-q", "-b", "other")
    for branch, scope in (("other", "theirs"), ("main", "ours")):
        git(moved.project, "checkout", "-q", branch)
        store = Store.open(moved.store, verify="on-read")
        store.replace(fixture_of(ask("Question 1?"), Answer(f"Now {scope}.")))
        store.add(fixture_of(ask(f"New of {scope}?"), Answer("New.")))
        store.commit()
        assert run("push").exit_code == 0
        git(moved.project, "commit", "-q", "-a", "-m", branch)
    merge = subprocess.run(
        ["git", *IDENTITY, "merge", "-q", "other"], cwd=moved.project, check=False, capture_output=True
    )
    assert merge.returncode

    done = run("resolve", "--theirs")

    assert done.exit_code == 0, done.output
    assert run("verify").exit_code == 0
    assert moved.answer("Question 1?") == "Now theirs."
    assert moved.answer("New of ours?") == moved.answer("New of theirs?") == "New."
    assert moved.files() == []


def test_pruning_takes_rows_whose_files_are_in_the_bucket(moved: Team) -> None:
    assert run("prune", "--model", "test-model").exit_code == 0

    assert run("verify").exit_code == 0
    assert len(moved.objects()) == 3, "other branches may name them"
