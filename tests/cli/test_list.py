"""``cortex-replay list``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortex_replay import Answer, Fixture, FixtureKey, LlmMessage, LlmRequest
from cortex_replay.cli.questions import question_of, shorten
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import at_a_terminal, run, spoil


def listed(builder: StoreBuilder, *arguments: str) -> list[str]:
    result = run("list", "--store", builder.write(), *arguments)

    assert result.exit_code == 0
    return result.stdout.splitlines()


def test_list(builder: StoreBuilder) -> None:
    """Hash, model and question, a line each; or JSON; or those of some models."""
    builder.add_fixture(fixture_of(ask("Why?\x1b[31m", model="other\x1b[31m"), Answer("a")))
    lines = listed(builder)
    rows = json.loads("\n".join(listed(builder, "--json")))

    assert 3 == len(lines) == len(rows)
    assert {"model", "prompt_hash", "path", "blake3", "scope", "question"} == set(rows[0])
    assert [line.split()[0] for line in lines] == [row["prompt_hash"][:12] for row in rows]
    assert any(line.endswith(r"other\x1b[31m  Why?\x1b[31m") for line in lines)
    assert {row["question"] for row in rows} >= {"Why?\x1b[31m"}
    assert len(listed(builder, "--model", "test-*")) == 2
    assert listed(builder, "--model", "none") == []


def request_of(*messages: LlmMessage, system: str = "") -> LlmRequest:
    return LlmRequest("m", system, messages, 0.0, 16)


@pytest.mark.parametrize(
    ("request_", "question"),
    [
        (ask("\n  First line. \nSecond line."), "First line."),
        (
            request_of(
                LlmMessage("user", "Old?"), LlmMessage("assistant", "Yes."), LlmMessage("user", "New?")
            ),
            "New?",
        ),
        (
            request_of(
                LlmMessage("user", "Weather?"),
                LlmMessage("assistant", "", tool_calls=[{"id": "1", "name": "look", "arguments": {}}]),
                LlmMessage("tool", "21", tool_call_id="1"),
            ),
            "Weather? (+2 messages)",
        ),
        (request_of(LlmMessage("user", "", parts=[{"type": "image", "data": "AA=="}])), "[image]"),
        (request_of(LlmMessage("assistant", "Go on"), system="Be brief."), "Go on"),
        (request_of(LlmMessage("user", "")), None),
    ],
)
def test_the_question_is_what_the_user_said_last(request_: LlmRequest, question: str | None) -> None:
    assert question_of(request_) == question


def test_a_recording_that_does_not_hold_its_request_says_so(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add_fixture(Fixture(FixtureKey("m", "ab" * 32), (Answer("a"),)))

    assert listed(builder) == ["abababababab  m  (does not say what was asked)"]
    assert json.loads("\n".join(listed(builder, "--json")))[0]["question"] is None


def test_a_question_shows_no_secret_and_not_half_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cut out before the line is shortened; the half that was left would pass for a word."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "lantern-orchard-violet-41-harbour")
    monkeypatch.setattr("cortex_replay.cli.list.terminal_width", lambda: 50)
    builder = StoreBuilder(tmp_path)
    builder.add("Use lantern-orchard-violet-41-harbour.", "Fine.")

    assert "  Use " in listed(builder)[0]
    assert "lantern" not in listed(builder)[0]
    assert "lantern" not in listed(builder, "--json")[5]


def test_at_a_terminal_a_question_is_shortened_to_fit(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add("Tell me " + "more and " * 100 + "more.", "Fine.")
    builder.write()

    assert listed(builder)[0].endswith("and more.")
    (line,) = at_a_terminal("list", "--store", tmp_path, columns=60).splitlines()
    assert "  Tell me more and " in line
    assert line.endswith("…")
    assert len(line) == 60


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("x" * 1_000_000, 3, "xx…"),
    ],
)
def test_shorten(text: str, columns: int, shown: str) -> None:
    assert shorten(text, columns) == shown


def test_a_file_that_was_changed_is_listed_as_such(builder: StoreBuilder) -> None:
    """What it says is not shown; the others are, and the status tells."""
    path = spoil(builder)
    result = run("list", "--store", builder.root)
    as_json = run("list", "--json", "--store", builder.root)

    assert result.exit_code == as_json.exit_code == 5
    assert sorted(line.split("  ")[2] for line in result.stdout.splitlines()) == [
        "(its file is not what the index says)",
        "What is two?",
    ]
    assert f"{path}: its bytes differ" in result.stderr
    assert sorted(str(row["question"]) for row in json.loads(as_json.stdout)) == ["None", "What is two?"]
    assert json.loads(as_json.stderr)["findings"][0]["code"] == "mismatch"


def test_errors_for_programs(tmp_path: Path) -> None:
    """With --json, an error is JSON on stderr and stdout stays empty."""
    result = run("list", "--json", "--store", tmp_path)
    error = json.loads(result.stderr)

    assert result.stdout == ""
    assert error["error"] == "FixtureIntegrityFailed"
    assert error["findings"][0]["code"] == "index-unreadable"


def test_wrong_usage(builder: StoreBuilder) -> None:
    assert run("list", builder.root).exit_code == 2
    assert run("list", "--model").exit_code == 2
