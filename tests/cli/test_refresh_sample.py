"""``cortex-replay refresh --sample``: a part of the recordings, within a budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay import Answer, Fixture, Store
from tests.builder import ask
from tests.cli.commands import record_answers, run

COUNT = 6


@pytest.fixture(autouse=True)
def recordings(in_a_folder: None) -> None:
    """What says the same today; the first was recorded first."""
    store = Store.create(".")
    for number in range(COUNT):
        answer = Answer(f"q{number}", finish_reason="stop")
        meta = {"adapter": "echo", "recorded_at": f"2026-0{number + 1}-01T00:00:00Z"}
        store.add(
            Fixture.of(ask(f"q{number}"), answer, meta={**meta, "tests": [f"t{n}" for n in range(number)]})
        )
    store.commit()


def check(*arguments: str | Path) -> Result:
    return run("refresh", "--check", *arguments)


def left_out(result: Result) -> set[str]:
    hashes = {ask(f"q{number}").prompt_hash(): f"q{number}" for number in range(COUNT)}
    sample = json.loads(result.stdout)["sample"]
    return {hashes[one["prompt_hash"]] for one in sample["not_chosen"]}


def test_a_sample_takes_the_oldest_and_says_so() -> None:
    shown = check("--sample", "2")

    assert shown.exit_code == 0, shown.output
    assert shown.stderr == "chosen: 2 of 6 recordings, the oldest first\n"
    assert "2 asked again, 0 differ" in shown.stdout
    assert left_out(check("--sample", "2", "--json")) == {"q2", "q3", "q4", "q5"}


def test_a_sample_by_use_counts_tests_and_reports() -> None:
    assert left_out(check("--sample", "50%", "--by", "use", "--json")) == {"q0", "q1", "q2"}

    used = {"model": "test-model", "prompt_hash": ask("q0").prompt_hash()}
    for name in "abcdefgh":
        Path(name).write_text(json.dumps({"used": [used, used], "unused": []}))
    reports = [argument for name in "abcdefgh" for argument in ("--used-from", name)]
    assert left_out(check("--sample", "1", "--by", "use", *reports, "--json")) == {
        f"q{n}" for n in range(1, 6)
    }


def test_a_random_sample_can_be_had_again_by_its_seed() -> None:
    first = check("--sample", "3", "--by", "random", "--json")
    seed = str(json.loads(first.stdout)["sample"]["seed"])

    again = check("--sample", "3", "--by", "random", "--seed", seed, "--json")

    assert left_out(again) == left_out(first)
    assert f"at random (--seed {seed})" in check("--sample", "3", "--by", "random", "--seed", seed).stderr


def test_a_sample_by_money_names_the_models_without_a_price() -> None:
    shown = check("--sample", "1", "--by", "money")

    assert "chosen: 1 of 6 recordings, the most expensive first\n" in shown.stderr
    assert "no price for test-model" in shown.stderr


def test_what_a_budget_leaves_out_of_a_sample_is_no_failure() -> None:
    """Whoever says what comes first has said what may be left."""
    shown = check("--by", "age", "--budget-calls", "2", "--jobs", "1")
    report = json.loads(check("--by", "age", "--budget-calls", "2", "--jobs", "1", "--json").stdout)

    assert shown.exit_code == 0, shown.output
    assert "2 asked again, 0 differ, 0 failed, 0 not asked, 4 beyond the budget" in shown.stdout
    assert (report["asked"], len(report["beyond_budget"]), report["failed"]) == (2, 4, [])
    assert {one["prompt_hash"] for one in report["beyond_budget"]} == {
        ask(f"q{number}").prompt_hash() for number in range(2, COUNT)
    }


def test_a_budget_that_lets_nothing_be_asked_has_checked_nothing() -> None:
    shown = check("--sample", "3", "--budget-calls", "0")

    assert shown.exit_code == 1
    assert "error: the budget is too small for a single recording; nothing was checked" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--sample", "none"], "20, 10%"),
        (["--sample", "0"], "20, 10%"),
        (["--by", "beauty"], "is not one of"),
        (["--seed", "1"], "--seed goes with --by random"),
        (["--sample", "2", "--used-from", "report.json"], "--used-from goes with --by use"),
        (["--by", "use", "--used-from", "report.json"], "expected an object"),
        (["--by", "use", "--used-from", "nothing.json"], "does not exist"),
    ],
)
def test_wrong_usage_says_what_is_wrong(arguments: list[str], reason: str) -> None:
    Path("report.json").write_text("[]")

    shown = check(*arguments)

    assert shown.exit_code == 2
    assert reason in shown.stderr


def test_a_sample_can_be_written_too() -> None:
    record_answers((ask("other"), "Then."), adapter="echo")

    assert "1 asked again, 1 replaced" in run("refresh", "--sample", "1").stdout
