"""``cortex-replay diff``, in real repositories."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from pathlib import Path

import pytest

from cortex_replay import Answer, Store
from cortex_replay.types import ToolCall
from tests.builder import ask
from tests.cli.commands import run
from tests.cli.repositories import Project

TEST = "tests/test_agent.py::test_a"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.record(ask("Is it raining?"), searching("rain"))
    project.record(ask("Say hello."), Answer("Hello.", finish_reason="stop"))
    project.commit()
    return project


def searching(query: str, name: str = "search") -> Answer:
    return Answer("", finish_reason="tool_calls", tool_calls=(ToolCall(name=name, arguments={"q": query}),))


def test_nothing_changed(project: Project) -> None:
    result = project.diff()

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no recording changed since HEAD\n"


def test_behaviour_first_and_rewordings_in_one_line(project: Project) -> None:
    project.record(ask("Say hello."), Answer("Good day.", finish_reason="stop"))
    project.record(ask("Is it raining?"), searching("snow"))

    result = project.diff()

    assert result.exit_code == 0
    first, second, last = result.stdout.splitlines()
    assert first.startswith('behaviour  changed  test-model  "Is it raining?"  (')
    assert second == '           - search #1 q: "rain" became "snow"'
    assert last == "1 recording only reworded"
    assert "the working tree since HEAD: 0 contract, 1 behaviour, 1 words" in result.stderr


def test_all_lists_rewordings(project: Project) -> None:
    project.record(ask("Say hello."), Answer("Good day.", finish_reason="stop"))

    assert '- text: "Hello." became "Good day."' in project.diff("--all").stdout


@pytest.mark.parametrize(
    ("answer", "fails"),
    [
        (searching("rain", "fetch"), {"contract", "behaviour", "words"}),
        (searching("snow"), {"behaviour", "words"}),
        (Answer("Hm.", finish_reason="tool_calls", tool_calls=searching("rain").tool_calls), {"words"}),
        (searching("rain"), set()),
    ],
)
def test_fail_on_a_tier_or_one_above(project: Project, answer: Answer, fails: set[str]) -> None:
    project.record(ask("Is it raining?"), answer)

    statuses = {
        tier: project.diff("--fail-on", tier).exit_code for tier in ("contract", "behaviour", "words")
    }

    assert statuses == {tier: 4 if tier in fails else 0 for tier in statuses}
    assert project.diff().exit_code == 0


def test_two_commits_in_each_spelling(project: Project) -> None:
    """What stands in the working tree does not count then."""
    project.git("checkout", "-q", "-b", "feature")
    project.record(ask("Is it raining?"), searching("snow"))
    project.commit()
    project.record(ask("Is it raining?"), searching("hail"))

    for arguments in (["main", "feature"], ["main..feature"], ["main...feature"], ["main.."]):
        (item,) = project.document(*arguments)["items"]
        assert item["differences"][0]["after"] == "snow", arguments
    assert project.document("main")["items"][0]["differences"][0]["after"] == "hail"
    assert project.document("feature", "main")["items"][0]["differences"][0]["after"] == "rain"


def test_since_a_branch_left_another(project: Project) -> None:
    """What the other one gained meanwhile is no change of this one."""
    project.git("checkout", "-q", "-b", "feature")
    project.record(ask("Is it raining?"), searching("snow"))
    project.commit()
    project.git("checkout", "-q", "main")
    Store.open(project.root / "llm")
    (project.root / "other").write_text("x")
    project.commit()
    project.store = Store.open(project.root / "llm")
    project.record(ask("Only on main."), "Yes.")
    project.commit()

    assert project.document("main..feature")["counts"]["removed"] == 1
    assert project.document("main...feature")["counts"]["removed"] == 0
    assert project.document("main...feature")["base"] == "feature left main"


def test_no_store_before(project: Project) -> None:
    project.git("checkout", "-q", "--orphan", "empty")
    project.git("rm", "-rq", "--cached", ".")
    project.git("commit", "-q", "--allow-empty", "-m", "x")

    result = project.diff("empty", "main")

    assert result.exit_code == 0
    assert result.stdout == "2 recordings new, with nothing to compare\n"
    assert "there is no store at empty, so everything is new" in result.stderr
    assert project.diff("empty", "main", "--fail-on", "behaviour").exit_code == 0


def test_no_commit_yet(tmp_path: Path) -> None:
    """So that a hook lets the first commit of a repository through."""
    project = Project(tmp_path)
    project.record(ask("Say hello."), Answer("Hello.", finish_reason="stop"))

    result = project.diff("--fail-on", "words")

    assert result.exit_code == 0, result.stderr
    assert result.stdout == "1 recording new, with nothing to compare\n"
    assert "there is no store at HEAD, so everything is new" in result.stderr
    assert project.document()["counts"]["added"] == 1
    assert project.diff("main").exit_code == project.diff("HEAD", "HEAD").exit_code == 1


def test_a_head_that_git_has_lost(project: Project) -> None:
    """It had a store, so that not everything is new."""
    (head,) = project.root.glob(".git/refs/heads/main")
    head.write_text(f"{'1' * 40}\n")

    result = project.diff()

    assert result.exit_code == 1
    assert "git knows no commit HEAD" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["nowhere"], 1, "git knows no commit nowhere"),
        (["main", "nowhere"], 1, "git knows no commit nowhere"),
        (["main...nowhere"], 1, "git knows no commit nowhere"),
        (["main..main", "main"], 2, "names both sides already"),
        (["--", "-x"], 1, "names no commit"),
        (["--json", "--format", "text"], 2, "exclude each other"),
        (["--fail-on", "much"], 2, "much"),
    ],
)
def test_wrong_usage(project: Project, arguments: list[str], status: int, words: str) -> None:
    result = run("diff", "--store", project.root / "llm", *arguments)

    assert result.exit_code == status
    assert words in result.stderr


def test_no_repository(tmp_path: Path) -> None:
    Store.create(tmp_path)

    result = run("diff", "--store", tmp_path)

    assert result.exit_code == 1
    assert "not a git repository" in result.stderr


def test_a_side_that_cannot_be_trusted(project: Project) -> None:
    """What its files say counts for nothing, and the status says so, whatever else changed."""
    project.record(ask("Is it raining?"), searching("snow"))
    path = next(
        item.path for item in project.store.list() if item.prompt_hash == ask("Is it raining?").prompt_hash()
    )
    file = project.root / "llm" / path
    file.write_bytes(file.read_bytes().replace(b"snow", b"lies"))

    result = project.diff("--fail-on", "contract")

    assert result.exit_code == 5
    assert "cannot be trusted" in result.stdout
    assert "[mismatch]" in result.stderr
    assert "lies" not in result.output
    project.commit()
    result = project.diff("HEAD~1", "HEAD")
    assert result.exit_code == 5
    assert "[mismatch]" in result.stderr
    assert "lies" not in result.output
    document = project.document("HEAD~1..HEAD")
    assert [finding["code"] for finding in document["findings"]] == ["mismatch"]


def test_the_document(project: Project) -> None:
    project.record(ask("Is it raining?"), searching("rain", "fetch"))

    document = project.document("main")

    assert document["tier"] == "contract"
    assert (document["base"], document["head"]) == ("main", "the working tree")
    assert document["counts"] == {
        "contract": 1,
        "behaviour": 0,
        "words": 0,
        "same": 0,
        "added": 0,
        "removed": 0,
    }
    (item,) = document["items"]
    assert item["before"][0]["tool_calls"][0]["name"] == "search"
    assert item["after"][0]["tool_calls"][0]["name"] == "fetch"


def test_a_file_instead_of_the_terminal(project: Project, tmp_path: Path) -> None:
    project.record(ask("Is it raining?"), searching("snow"))
    file = tmp_path / "changes.txt"

    result = project.diff("--output", str(file))

    assert result.stdout == ""
    assert "1 behaviour" in result.stderr
    assert 'search #1 q: "rain" became "snow"' in file.read_text()
    (tmp_path / "link").symlink_to(file)
    assert project.diff("--output", str(tmp_path / "link")).exit_code == 1


def test_no_secret_is_shown_and_no_terminal_steered(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even half of a secret, where a line is cut; neither in JSON nor in a file."""
    secret = "canary-9d8c7b6a5"
    project.record(ask("x" * 90 + f" {secret}"), searching("\x1b[31m::error::red"))
    project.commit()
    project.record(ask("x" * 90 + f" {secret}"), searching("y" * 50 + secret + "\u202e\x1b]0;x\x07"))
    monkeypatch.setenv("SOME_API_KEY", secret)
    file = project.root / "out.txt"
    project.diff("--output", str(file))

    shown = project.diff().output + project.diff("--json").output + file.read_text()

    assert "canary" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\n::error" not in shown


def test_the_road_of_a_test(project: Project) -> None:
    project.record(ask("first"), searching("a"), scope=TEST, call=1)
    project.commit()
    project.record(ask("second"), "Done.", scope=TEST, call=2)

    result = project.diff()

    assert f"behaviour  road of {TEST}" in result.stdout
    assert "- 1 turn became 2: search became search, answers" in result.stdout
    assert f"- {TEST} makes a call that it did not make" in result.stdout


def test_what_an_earlier_prompt_left_behind_is_worth_a_hint(project: Project) -> None:
    """Until it is removed, nothing stands in its place; a new test is none of that."""
    asked, again = ask("first"), ask("first", system="Be polite.")
    project.record(asked, searching("a"), scope=TEST, call=1)
    new_test = project.diff().stderr
    project.commit()
    project.record(again, searching("a"), scope=TEST, call=2)
    beside = project.diff().stderr
    project.remove(asked)
    instead = project.diff().stderr

    assert "prune --unused-from" not in new_test
    assert "prune --unused-from" in beside
    assert "prune --unused-from" not in instead


def test_a_comment(project: Project, tmp_path: Path) -> None:
    project.record(ask("Is it raining?"), searching("snow @octocat"))
    file = tmp_path / "comment.md"

    shown = project.diff("--format", "markdown")
    written = project.diff("--format", "markdown", "--output", str(file), "--fail-on", "behaviour")

    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.startswith("<!-- cortex-replay diff -->\n")
    assert '  - `search #1 q: "rain" became "snow @octocat"`\n' in shown.stdout
    assert file.read_text() + "\n" == shown.stdout
    assert written.exit_code == 4
    assert written.stdout == ""


def test_a_page(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in it, tests of the view say. No secret is, and what is in it stays as it was packed."""
    monkeypatch.setenv("WEATHER_API_KEY", "correct-horse-battery-staple")
    project.record(ask("Is it raining?"), searching("correct-horse-battery-staple"))
    file = tmp_path / "change.html"

    result = project.diff("--format", "html", "--output", str(file))

    assert result.exit_code == 0
    packed = re.search(r'id="data:change">([^<]*)<', file.read_text())
    assert packed is not None
    document = gzip.decompress(b64decode(packed[1])).decode()
    assert "correct-horse" not in document
    assert json.loads(document)["items"][0]["title"] == "Is it raining?"
    assert project.diff("--format", "html").stdout.startswith("<!doctype html>")


def test_an_index_with_a_conflict_says_nothing_of_what_is_gone(project: Project) -> None:
    """Nobody knows what it should list."""
    index = project.root / "llm" / "INDEX.toml"
    index.write_bytes(b"<<<<<<< HEAD\n" + index.read_bytes())

    result = project.diff()
    comment = project.diff("--format", "markdown")
    document = json.loads(project.diff("--json").stdout)
    verified = run("verify", "--store", project.root / "llm", "--base", "HEAD")

    assert (result.exit_code, result.stdout) == (5, "")
    assert "cortex-replay resolve" in result.stderr
    assert "changed" not in result.stderr
    assert "no change can be seen" in comment.stdout
    assert (document["items"], document["counts"]["removed"], len(document["findings"])) == ([], 0, 1)
    assert verified.exit_code == 5
    assert "removed" not in verified.output


def test_a_comment_names_what_is_not_trusted(project: Project) -> None:
    fixture = next((project.root / "llm" / "fixtures").rglob("*.json"))
    fixture.write_bytes(fixture.read_bytes() + b" ")

    result = project.diff("--format", "markdown")

    assert result.exit_code == 5
    assert "**1 finding: files that their index does not vouch for are not compared.**" in result.stdout
