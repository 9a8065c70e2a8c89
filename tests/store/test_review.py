"""What changed in a store, for a reviewer."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.cli.main import main
from cortex_replay.engine.http.opaque import opaque_exchange, opaque_key
from cortex_replay.errors import Finding
from cortex_replay.mcp.questions import question_of
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.index.index import FixtureRow, Index
from cortex_replay.store.pairing import pair_questions
from cortex_replay.store.review import Recording, read_kept, review_changes
from tests.builder import ask
from tests.growth import grows_linearly
from tests.store.conversations import index_of

IDENTITY = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


class Project:
    """A repository whose first commit is the base."""

    def __init__(self, root: Path) -> None:
        self.root = root
        subprocess.run(["git", "init", "-q", "-b", "main", root], check=True)
        self.store = Store.create(root / "llm")

    def record(self, request: LlmRequest, text: str = "Fine.", **meta: Any) -> None:
        self.store.replace(Fixture.of(request, Answer(text, finish_reason="stop"), meta=meta or None))
        self.store.commit()

    def remove(self, request: LlmRequest) -> None:
        self.store.remove(*self.store.key(request))
        self.store.commit()

    def commit(self) -> None:
        for command in (["add", "-A"], ["commit", "-q", "-m", "x"]):
            subprocess.run(["git", *IDENTITY, *command], cwd=self.root, check=True)

    def review(self, *options: str) -> Result:
        return CliRunner().invoke(
            main, ["verify", "--store", str(self.root / "llm"), "--base", "main", *options]
        )

    def added(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.review("--json").stdout)["since"]["added"]
        return found


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (ask("Say hello."), ask("Say hello.", system="Be brief."), "the same question, asked otherwise"),
        (ask("Say hello.", model="old"), ask("Say hello.", model="new"), "the same question to old"),
        (ask("Is it raining in Paris?"), ask("Is it raining in Rome?"), "a question much like it"),
        (ask("Say hello."), ask("What is two and two?"), None),
    ],
)
def test_a_new_question_says_which_one_it_replaces(
    project: Project, before: LlmRequest, after: LlmRequest, why: str | None
) -> None:
    project.record(before)
    project.record(ask("Another one, which stays."))
    project.commit()
    project.remove(before)
    project.record(after)

    (addition,) = project.added()
    text = project.review().stdout

    assert addition["question"] == after.messages[0].content
    if why is None:
        assert addition["replaces"] is None
        assert f'removed  {before.model}  "{before.messages[0].content}"' in text
    else:
        assert addition["replaces"]["why"] == why
        assert f'replaces {before.model}  "{before.messages[0].content}"' in text
        assert "removed " not in text
    assert "fixtures/" not in text


def test_recordings_of_one_test_are_paired_whatever_they_ask(project: Project) -> None:
    project.record(ask("Say hello."), tests=["test_a"])
    project.record(ask("Tell me of cats."), tests=["test_b"])
    project.commit()
    for question in ("Say hello.", "Tell me of cats."):
        project.remove(ask(question))
    project.record(ask("1 + 1 = ?"), tests=["test_b"])

    (addition,) = project.added()

    assert addition["replaces"]["question"] == "Tell me of cats."
    assert addition["replaces"]["why"] == "recorded by the same test"


def test_one_recording_is_replaced_by_one(project: Project) -> None:
    """The likest."""
    project.record(ask("Is it raining in Paris?"))
    project.commit()
    project.remove(ask("Is it raining in Paris?"))
    project.record(ask("Is it raining in Rome today?"))
    project.record(ask("Is it raining in Pavia?"))

    replaced = {one["question"]: one["replaces"] is not None for one in project.added()}

    assert replaced == {"Is it raining in Pavia?": True, "Is it raining in Rome today?": False}


def test_a_file_that_says_the_same_answer_is_told_from_a_changed_one(project: Project) -> None:
    project.record(ask("q"), "Fine.", note="then")
    project.commit()
    project.remove(ask("q"))
    project.record(ask("q"), "Fine.", note="now")

    assert "the answer is the same" in project.review().stdout


def test_nothing_changed(project: Project) -> None:
    project.record(ask("q"))
    project.commit()
    result = project.review()

    assert (result.output, result.exit_code) == ("", 0)


def test_a_recording_that_cannot_be_trusted_is_named_by_its_file(project: Project) -> None:
    """What it says counts for nothing."""
    project.record(ask("base"))
    project.commit()
    project.record(ask("q"))
    path = next(item.path for item in project.store.list() if item.prompt_hash == ask("q").prompt_hash())
    file = project.root / "llm" / path
    file.write_bytes(file.read_bytes().replace(b'"q"', b'"lies"'))

    result = project.review()

    assert result.exit_code == 5
    assert f"added    test-model {path}" in result.stdout
    assert "lies" not in result.stdout


def test_a_question_shows_no_secret_and_steers_no_terminal(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even half of a secret, where a long line is cut; in JSON neither."""
    project.record(ask("base"))
    project.commit()
    project.record(ask("x" * 88 + " canary-9d8c7b6a5"))
    project.record(ask("\x1b[31m::error::red"))
    monkeypatch.setenv("SOME_API_KEY", "canary-9d8c7b6a5")

    shown = project.review().output + project.review("--json").output

    assert "canary" not in shown
    assert "\x1b" not in shown
    assert "…" in shown


def test_a_change_of_behaviour_is_told_in_short(project: Project) -> None:
    """As ``diff`` judges it; a rewording has no such line."""
    project.record(ask("q"), "Fine.")
    project.record(ask("r"), "Fine.")
    project.commit()
    project.store.replace(Fixture.of(ask("q"), Answer("No.", finish_reason="refusal")))
    project.record(ask("r"), "Good.")

    text = project.review().stdout
    changed = json.loads(project.review("--json").stdout)["since"]["changed"]

    assert text.count("         contract: the model refuses to answer\n") == 1
    assert "words:" not in text
    assert sorted(one["tier"] for one in changed) == ["contract", "words"]


def questions(count: int, system: str) -> list[Recording]:
    """Long questions that are much like each other, as of one template."""
    recordings = []
    for at in range(count):
        request = ask(
            f"Into which category does ticket {at} fall? {'It says nothing new. ' * 12}{at}", system=system
        )
        row = FixtureRow(f"fixtures/{system}{at}.json", "0" * 64, request.model, request.prompt_hash())
        recordings.append(Recording(row, request.model, request, asked=request.messages[0].content))
    return recordings


@pytest.mark.parametrize("is_same", [True, False])
def test_many_like_questions_are_paired_in_linear_time(is_same: bool) -> None:
    """A system prompt was edited, or every question as well."""

    def pair(count: int) -> int:
        old, new = questions(count, "a"), questions(count, "b")
        new = new if is_same else [replace(one, asked=f"Please: {one.asked}") for one in new]
        return len(pair_questions(new, old))

    assert pair(12) == 12
    assert grows_linearly(lambda: pair(12), lambda: pair(24))


def test_calls_and_errors_are_reviewed_beside_answers(tmp_path: Path) -> None:
    """Each in words: what was asked, and what came of it."""
    store = Store.create(tmp_path / "store")
    question = question_of("shop", "tools/call", {"name": "buy", "arguments": {"what": "tea"}})
    listing: dict[str, Any] = {"upstream": "openai", "method": "GET", "path": "/v1/models"}
    listing |= {"query": [], "body": None}
    wire: dict[str, Any] = {"status": 503, "headers": {}, "body": "{}"}
    said: dict[str, Any] = {
        "messages": [{"at_ms": 0, "result": {"content": [{"type": "text", "text": "Sold."}]}}]
    }
    key = store.key(ask("Say hello."))
    store.add_exchange(Exchange(said, key=opaque_key(question), request=question))
    store.add_exchange(opaque_exchange(listing, wire))
    store.add_exchange(Exchange.failure(key, 1, wire))
    store.commit()
    after = index_of(store.root)

    review = review_changes(Index(), after, (), ((row.path, store.listed_content(row)) for row in after.rows))

    found = {one.recording.exchange: one.recording.answer for one in review.added}
    assert found == {
        'tool buy of server shop {"what":"tea"}': "Sold.",
        "GET /v1/models of openai": "status 503",
        "an error as answer 1": "status 503",
    }
    kept = read_kept(after.rows, ((row.path, store.listed_content(row)) for row in after.rows))
    assert {one.exchange for one in kept} == found.keys()
    assert not review.is_empty
    assert review_changes(after, after, (), ()).is_empty


def test_a_file_that_cannot_be_had_is_told_and_its_row_is_there_still(tmp_path: Path) -> None:
    row = FixtureRow("fixtures/a.json", "0" * 64, "m", "1" * 64)
    missing = Finding("missing", row.path, "is not there")

    review = review_changes(Index(), Index([row]), (), [(row.path, missing)])

    assert review.findings == [missing]
    assert [one.recording.said for one in review.added] == [None]
