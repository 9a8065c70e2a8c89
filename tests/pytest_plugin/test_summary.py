"""The end of a run: what it says, how often, and what it exits with."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest

from cortex_replay import Store
from cortex_replay.engine.mcp.counts import ServerCounts
from cortex_replay.pytest_plugin.summary import MissOfTest, Summary
from cortex_replay.pytest_plugin.summary_text import group_misses, print_summary
from cortex_replay.store.tool_calls import StoredCall
from tests.pytest_plugin.conftest import record, run_in_process

TESTS = """
import openai, pytest
pytestmark = pytest.mark.llm_replay

@pytest.mark.parametrize("n", range(3))
def test_ask(n):
    with openai.OpenAI(max_retries=0) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "one"}])
"""


@pytest.mark.parametrize("has_other_tests", [False, True])
def test_the_first_run_of_all_says_once_what_to_do(project: pytest.Pytester, has_other_tests: bool) -> None:
    shutil.rmtree(project.path / "llm")
    (project.path / "llm").mkdir()
    project.makepyfile(TESTS + ("\n@pytest.mark.llm_replay(False)\ndef test_other(): pass" * has_other_tests))
    result = run_in_process(project)

    result.assert_outcomes(errors=3, passed=int(has_other_tests))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = result.stdout.str()
    assert said.count("there is no store at llm") == 1
    assert said.count("pytest --llm-mode once") == 1
    assert "INDEX.toml" not in said


def test_a_store_that_cannot_be_trusted_is_told_once(project: pytest.Pytester) -> None:
    """It is not taken for one that is not there, and nobody is told to record over it."""
    (project.path / "llm/INDEX.toml").write_text("nonsense")
    project.makepyfile(TESTS)
    result = run_in_process(project)

    result.assert_outcomes(errors=3)
    said = result.stdout.str()
    assert said.count("INDEX.toml") == 1
    assert "--llm-mode once" not in said


def test_unused_fixtures_fail_with_a_reason_that_can_be_followed(project: pytest.Pytester) -> None:
    record(project.path / "llm", "one", "two", "three")
    project.makepyfile(TESTS)
    result = run_in_process(project, "--llm-fail-unused", "--llm-report", "used.json")

    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "unused: fixtures/m/*",
            "unused: fixtures/m/*",
            "error: 2 fixtures are unused:*--llm-fail-unused*",
            "*cortex-replay prune --store llm --unused-from used.json",
            "*leave out --llm-fail-unused*",
        ]
    )
    assert "2 fixtures" in json.loads((project.path / "used.json").read_text())["errors"][0]
    assert run_in_process(project).ret == pytest.ExitCode.OK
    without = run_in_process(project, "--llm-fail-unused")
    without.stdout.fnmatch_lines(["*pytest --llm-report used.json; cortex-replay prune --store llm*"])


def test_equal_misses_are_told_once(project: pytest.Pytester) -> None:
    project.makepyfile(TESTS)
    result = run_in_process(project, "--tb=no", "--show-capture=no")

    result.assert_outcomes(failed=3)
    said = result.stdout.str().partition("model calls")[2]
    assert said.count("nothing is recorded for m") == 1
    assert "3 misses" in said
    assert "test_ask[0] and 2 more tests" in said
    assert "To record it: pytest --llm-mode once\n" in said


def test_misses_are_grouped_by_what_they_say() -> None:
    told = [
        MissOfTest("a", "nothing for x. pytest --llm-mode once 'a'"),
        MissOfTest("b", "nothing for x. pytest --llm-mode once 'b'"),
        MissOfTest("c", "nothing for y. pytest --llm-mode once 'c'"),
        MissOfTest("b", "nothing for x. pytest --llm-mode once 'b'"),
    ]
    assert group_misses(told) == [
        ("a and 1 more test", "nothing for x. pytest --llm-mode once"),
        ("c", "nothing for y. pytest --llm-mode once 'c'"),
    ]


def test_a_github_job_gets_a_table(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    file = project.path / "summary.md"
    file.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    record(project.path / "llm", "two")
    project.makepyfile(TESTS)
    run_in_process(project, "--llm-fail-unused", "-p", "no:terminal")

    text = file.read_text()
    assert text.startswith("before\n### cortex-replay (pytest)\n")
    assert "| misses | 3 |" in text
    assert "| failed tests | 3 |" in text
    assert text.count("nothing is recorded for m") == 1
    assert text.count("### ") == 1


def test_a_summary_never_follows_a_link(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    target = project.path / "target.md"
    target.write_text("")
    (project.path / "summary.md").symlink_to(target)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    record(project.path / "llm", "one")
    project.makepyfile(TESTS)
    run_in_process(project).assert_outcomes(passed=3)

    assert target.read_text() == ""
    assert len(Store.open(project.path / "llm")) == 1


def test_servers_of_mcp_are_told_apart() -> None:
    counts = dict.fromkeys(("hits", "missed", "recorded", "live"), 1)
    summary = Summary(
        "replay",
        counts,
        [],
        [],
        Counter(),
        servers={"files": ServerCounts(hits=1), "memory": ServerCounts(missed=2)},
        remarks=Counter({"files: its tools have changed": 2}),
        unused_calls=[StoredCall("files", "read()", "k", "exchanges/mcp/files/x.json")],
    )
    reporter = _Reporter()
    print_summary(reporter, summary)

    assert reporter.lines[2:] == [
        "MCP server files: 1 hit",
        "MCP server memory: 2 misses",
        "unused: exchanges/mcp/files/x.json, files read()",
        "note: files: its tools have changed (2 times)",
    ]


class _Reporter:
    """Keeps what a terminal of pytest would print."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str, **_: str) -> None:
        self.lines.append(title)

    def line(self, text: str) -> None:
        self.lines.append(text)
