"""``cortex-replay comment``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import run
from tests.servers.forge import READER, WRITER, Forge, forge_server

SECRET = "sk-proj-Zx81mQpL2vTn6Rb3Yc9Wd4Kf7Hg5Js0A"


@pytest.fixture
def forge() -> Iterator[Forge]:
    with forge_server() as serving:
        yield serving


@pytest.fixture
def github(forge: Forge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A job for a pull request; gives the file with its event."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 3}}))
    _leave(monkeypatch)
    for name, value in {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_REPOSITORY": "owner/name",
        "GITHUB_GRAPHQL_URL": forge.graphql,
        "GITHUB_TOKEN": WRITER,
    }.items():
        monkeypatch.setenv(name, value)
    return event


@pytest.fixture
def gitlab(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    _leave(monkeypatch)
    for name, value in {
        "GITLAB_CI": "true",
        "CI_MERGE_REQUEST_IID": "3",
        "CI_MERGE_REQUEST_PROJECT_ID": "7",
        "CI_API_V4_URL": forge.gitlab,
        "GITLAB_TOKEN": WRITER,
    }.items():
        monkeypatch.setenv(name, value)


def _leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job that these tests may run in is another one."""
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("github")
def test_a_comment_on_github_is_posted_and_then_updated(forge: Forge, tmp_path: Path) -> None:
    (tmp_path / "review.md").write_text("One.\n")
    first = run("comment", tmp_path / "review.md", "--name", "tests/llm")
    second = run("comment", "--name", "tests/llm", "--json", text="Two.\n")

    assert first.exit_code == 0, first.output
    assert f"posted the comment {forge.url}/c/" in first.stderr
    assert json.loads(second.stdout)["outcome"] == "updated"
    assert [note.body for note in forge.notes] == ["<!-- cortex-replay tests/llm -->\nTwo.\n"]


@pytest.mark.usefixtures("gitlab")
def test_a_note_on_gitlab_is_posted_and_then_updated(forge: Forge) -> None:
    assert run("comment", text="One.\n").exit_code == 0
    assert "updated" in run("comment", text="Two.\n").stderr
    assert [note.body for note in forge.notes] == ["<!-- cortex-replay comment -->\nTwo.\n"]


@pytest.mark.usefixtures("github")
def test_a_fork_goes_on_without_a_comment(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", READER)
    done = run("comment", text="One.\n")
    assert (done.exit_code, forge.notes) == (0, [])
    assert done.stderr == "no comment was posted: Resource not accessible by integration\n"

    monkeypatch.delenv("GITHUB_TOKEN")
    done = run("comment", "--json", text="One.\n")
    assert (done.exit_code, json.loads(done.stdout)["reason"]) == (0, "this job has no token in GITHUB_TOKEN")


def test_a_job_for_no_request_has_nowhere_to_post(github: Path, forge: Forge) -> None:
    github.write_text('{"ref": "refs/heads/main"}')
    done = run("comment", text="One.\n")

    assert (done.exit_code, forge.asked) == (0, [])
    assert "for no pull request" in done.stderr


@pytest.mark.usefixtures("github")
def test_secrets_are_cut_out(forge: Forge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that look like one, and the token itself."""
    assert run("comment", text=f"{SECRET} and {WRITER}\n").exit_code == 0

    assert SECRET not in forge.notes[0].body
    assert WRITER not in forge.notes[0].body


@pytest.mark.usefixtures("github")
@pytest.mark.parametrize(
    ("variable", "value", "status"),
    [
        ("GITHUB_ACTIONS", "", 2),
        ("GITHUB_EVENT_PATH", "/nothing/there", 2),
        ("GITHUB_REPOSITORY", "nonsense", 2),
        ("GITHUB_GRAPHQL_URL", "http://github.example/graphql", 2),
        ("GITHUB_GRAPHQL_URL", "http://127.0.0.1:1/", 1),
        ("GITHUB_TOKEN", "wrong", 1),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_posted(
    forge: Forge, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, status: int
) -> None:
    monkeypatch.setenv(variable, value)
    done = run("comment", text="One.\n")

    assert (done.exit_code, forge.notes) == (status, []), done.output
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.output


@pytest.mark.usefixtures("github")
@pytest.mark.parametrize("arguments", [("--name", ""), ("nothing.md",)])
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run("comment", *arguments, text="One.\n").exit_code == 2
    assert run("comment", text=b"\xff").exit_code == 2
    assert run("comment", text=" \n").exit_code == 2
