"""What a watch on drift tells: text, JSON, a page, the summary of a GitHub job."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from click.testing import Result

from cortex_replay.view.shapes import AnswerDocument, ChangeDocument, DriftDocument, DriftItem
from tests.cli.commands import run
from tests.cli.drifting import Model, calls, drifting_model, says

SECRET = "canary-9d8c7b6a5"
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e\n::error::planted ``` @all"


@pytest.fixture
def model(in_a_folder: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    """One that calls a tool with a hostile argument where it said a word, and rewords the rest.

    What it recorded holds a secret that was not known for one then.
    """
    with drifting_model(monkeypatch) as serving:
        for name in ("tool", "one", "two"):
            serving.learn(name, says("Yes." if name == "one" else f"Yes, {SECRET}."))
        serving.record(
            [{"model": "m", "messages": [{"role": "user", "content": n}]} for n in serving.scripts]
        )
        monkeypatch.setenv("SOME_API_KEY", SECRET)
        serving.learn("tool", calls(("search", {"query": f"{HOSTILE} {SECRET}"}), text=HOSTILE))
        serving.learn("one", says("Yes, yes."))
        serving.learn("two", says(f"No: {HOSTILE} {SECRET}"))
        yield serving


def check(*arguments: str | Path) -> Result:
    return run("refresh", "--check", *arguments)


def document(page: Path, name: str) -> Any:
    """A document out of a page."""
    (packed,) = re.findall(rf'id="data:{name}">([^<]*)</script>', page.read_text())
    return json.loads(gzip.decompress(b64decode(packed)))


@pytest.mark.usefixtures("model")
def test_what_matters_comes_first_and_rewordings_are_one_line() -> None:
    lines = check().stdout.splitlines()

    assert lines[0].startswith('contract   m  "tool"  (')
    assert lines[1].strip() == "search is called, and was not offered (in 5 of 5 samples)"
    assert lines[2:4] == [
        "words      2 recordings only reworded (--words shows them)",
        "drift: 1 broken contract, 2 only reworded",
    ]
    assert lines[4].startswith("3 asked again, 3 differ, 0 failed, 0 not asked")
    assert len(lines) == 5


@pytest.mark.usefixtures("model")
def test_rewordings_are_shown_to_who_asks() -> None:
    shown = check("--words").stdout

    assert "| -Yes.\n| +Yes, yes.\n" in shown
    assert "--words shows them" not in shown


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("options", [["--words"], ["--json"], ["--samples", "2", "--write"]], ids=str)
def test_what_a_model_says_does_nothing_to_a_terminal_and_shows_no_secret(options: list[str]) -> None:
    shown = check(*options).output

    assert SECRET not in shown
    assert not re.search("[\x1b\u202e]", shown)
    assert not any(line.lstrip().startswith("::") for line in shown.splitlines())


@pytest.mark.usefixtures("model")
def test_the_json_has_the_shape_that_is_agreed() -> None:
    report = json.loads(check("--json", "--sample", "100%").stdout)

    assert report.keys() == get_type_hints(DriftDocument).keys()
    for one in report["changed"]:
        assert one.keys() == get_type_hints(DriftItem).keys()
        for answer in (*one["before"], *one["after"]):
            assert answer.keys() == get_type_hints(AnswerDocument).keys() - {"left_out"}
    assert report["tiers"] == {"contract": 1, "behaviour": 0, "words": 2, "same": 0}
    assert [one["id"] for one in report["changed"]] == ["drift-1", "drift-2", "drift-3"]


@pytest.mark.usefixtures("model")
def test_the_page_has_the_change_and_no_secret() -> None:
    shown = check("--page", "drift.html")

    assert shown.exit_code == 4
    page = Path("drift.html")
    assert "<script>alert" not in page.read_text()
    change = document(page, "change")
    assert change.keys() == get_type_hints(ChangeDocument).keys() - {"findings"}
    assert [one["tier"] for one in change["items"]] == ["contract", "words", "words"]
    assert HOSTILE in change["items"][0]["after"][0]["text"]
    assert SECRET not in json.dumps(change)
    about = document(page, "page")
    assert (about["title"], about["screens"]) == ("cortex-replay refresh", ["change"])


@pytest.mark.usefixtures("model")
def test_a_page_that_cannot_be_written_costs_nothing_or_is_told() -> None:
    missing = check("--page", "no/such/folder.html")
    assert missing.exit_code == 2
    assert "there is no folder" in missing.stderr

    Path("target").write_text("kept")
    Path("link.html").symlink_to("target")
    linked = check("--page", "link.html")
    assert "error: the page cannot be written" in linked.stderr
    assert (linked.exit_code, Path("target").read_text()) == (4, "kept")
    assert check("--page", "link.html", "--model", "m", "--fail-on", "contract").exit_code == 4


def test_a_quiet_check_whose_page_cannot_be_written_fails(model: Model) -> None:
    for name in ("tool", "one", "two"):
        model.learn(name, says("Yes."))
    run("refresh")
    Path("link.html").symlink_to("target")

    assert (check().exit_code, check("--page", "link.html").exit_code) == (0, 1)


@pytest.mark.usefixtures("model")
def test_the_summary_of_a_job_has_a_table_and_what_drifted(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = Path("summary.md").absolute()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    check()

    text = summary.read_text()
    assert "### cortex-replay refresh" in text
    assert "| broken contracts | 1 |" in text
    assert "| only reworded | 2 |" in text
    assert "search is called, and was not offered" in text
    assert SECRET not in text
    assert text.count("```") == 2, "one block, whatever the model says"


def test_of_many_differences_the_first_are_told(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(Path("summary.md").absolute()))
    model.learn("tool", calls(*((f"tool-{number}", {}) for number in range(100))))

    shown = check()

    assert shown.stdout.count("is called, and was not offered") == 20
    assert "           and 80 more; --json lists them\n" in shown.stdout
    assert Path("summary.md").read_text().count("is called") == 20


@pytest.mark.parametrize("length", range(30, 64, 4))
def test_a_sentence_shows_no_half_of_a_secret(
    in_a_folder: None, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """It is cut short, wherever in the argument the secret stands."""
    tool = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    asked = {"model": "m", "messages": [{"role": "user", "content": "q"}], "tools": [tool]}
    with drifting_model(monkeypatch) as serving:
        serving.learn("q", calls(("search", {"query": f"{'x' * length}{SECRET}{'y' * 80}"})))
        serving.record([asked])
        monkeypatch.setenv("SOME_API_KEY", SECRET)
        serving.learn("q", calls(("search", {"query": "z"})))

        shown = check().stdout + check("--json").stdout

    assert "search #1 query" in shown
    assert SECRET[:6] not in shown
