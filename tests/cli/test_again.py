"""Runs that are not the same: ``cortex-replay record`` twice, and ``record --again``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import Result

from cortex_replay import Store
from tests.adapters.fake_provider import FakeProvider
from tests.cli.commands import run
from tests.cli.programs import ASK
from tests.gateway.upstream import REAL_KEY

MAP = """
import pathlib
cache = pathlib.Path("cache")
what = "the map of the repository: one.py, two.py" if cache.exists() else "no map of the repository so far"
cache.touch()
ask("Hello."), ask("You are given " + what + ", which is to be read."), ask("Bye.")
"""
WARM = ASK + MAP
"""Asks otherwise once its cache is warm."""
NOISE = ASK + "import os; ask('Hello.'); ask(f'The tests took {os.getpid()} ms.')"
IN_SCOPE = ("Content-Type:", r"X-Cortex-Replay-Scope: a\r\nContent-Type:")
SCOPED_NOISE = NOISE.replace(*IN_SCOPE)
SOMETIMES = """
import pathlib
cache = pathlib.Path("cache")
ask(f"The tests took {12 if cache.exists() else 7} ms.")
cache.touch()
"""
MORE = ASK + MAP.replace('ask("Bye.")', 'ask("Bye.") if cache.read_text() else cache.write_text("x")')
"""Makes a call more once its cache is warm."""
SCOPED = WARM.replace(*IN_SCOPE)
HISTORY = WARM.replace(
    '[{"role": "user", "content": text}]', '[{"role": "user", "content": part} for part in text.split("|")]'
).replace('ask("Bye.")', 'ask("You are given " + what + ", which is to be read.|Go on.")')
"""Asks otherwise, and then goes on from there."""


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch, provider: FakeProvider, in_a_folder: None) -> FakeProvider:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", REAL_KEY)
    return provider


def record(program: str, *options: str) -> Result:
    return run("record", "--store", "llm", *options, "--", sys.executable, "-c", program)


def replay(program: str) -> Result:
    return run("replay", "--store", "llm", "--fail-on", "miss", "--", sys.executable, "-c", program)


@pytest.mark.parametrize("again", [True, False])
def test_both_roads_are_kept_and_replay_follows_the_one_that_matches(
    server: FakeProvider, *, again: bool
) -> None:
    if again:
        assert record(WARM, "--again", "2").exit_code == 0
    else:
        assert record(WARM).exit_code == record(WARM).exit_code == 0
    assert len(server.received) == 4, "what is recorded is not asked again"

    for is_warm in (True, False, True):
        Path("cache").touch() if is_warm else Path("cache").unlink()
        done = replay(WARM)
        assert done.exit_code == 0, done.stderr
        assert "3 hits, 0 misses" in done.stderr
    assert len(server.received) == 4


def test_it_says_which_calls_vary_and_in_what() -> None:
    done = record(WARM, "--again", "3")

    assert done.exit_code == 0, done.stderr
    said = done.stderr.splitlines()
    at = said.index("call 2 is asked otherwise in runs 2, 3:")
    assert said[at + 1].startswith(
        "  message 1 (user): You are given [-no-]{+the+} map of the repository[- so"
    )
    assert said[at + 2] == "cortex-replay: 1 call varies between 3 runs; replay follows what matches"


def test_programs_get_it_as_json_and_the_report_prunes_neither_road(tmp_path: Path) -> None:
    done = record(WARM, "--again", "2", "--json", "--report", "used.json")
    document = json.loads(done.stdout)

    assert [one["recorded"] for one in document["runs"]] == [3, 1]
    (varying,) = document["varying"]
    assert (varying["call"], varying["call_in_first_run"], varying["runs"]) == (2, 2, [2])
    assert varying["is_noise"] is False
    assert varying["differences"][0]["part"] == "message 1 (user)"
    assert "{+the+} map" in varying["differences"][0]["difference"]
    assert json.loads((tmp_path / "used.json").read_text()) == document
    assert run("prune", "--store", "llm", "--unused-from", "used.json").exit_code == 0
    assert len(Store.open("llm")) == 4


@pytest.mark.parametrize("program", [NOISE, SCOPED_NOISE], ids=["shared", "in a scope"])
def test_noise_is_told_from_another_road_and_learn_binds_it(program: str, server: FakeProvider) -> None:
    """It is not kept: no run asks it again, and with a rule it would be the first one once more."""
    done = record(program, "--again", "3", "--json")
    said = done.stderr.splitlines()
    assert said.count("  That is noise, which cortex-replay learn would bind. It is not kept.") == 2
    assert said[-2].startswith("To bind what is noise: cortex-replay learn --store llm -- ")
    assert said[-1] == "cortex-replay: 1 call varies between 3 runs; replay follows what matches"
    assert [one["is_noise"] for one in json.loads(done.stdout)["varying"]] == [True, True]
    assert len(Store.open("llm").list(scoped=True)) == 2

    assert "1 miss" in replay(program).stderr
    assert run("learn", "--store", "llm", "--", sys.executable, "-c", program).exit_code == 0
    assert replay(program).exit_code == 0
    assert len(server.received) == 4


def test_what_was_recorded_before_stays_whatever_it_is() -> None:
    record(ASK + "ask('The tests took 12 ms.')")
    record(ASK + SOMETIMES, "--again", "2")

    questions = [one["question"] for one in json.loads(run("list", "--store", "llm", "--json").stdout)]
    assert sorted(questions) == ["The tests took 12 ms.", "The tests took 7 ms."]


def test_a_call_that_only_one_run_makes_is_named() -> None:
    done = record(MORE, "--again", "2")

    assert "call 3 was made in run 2 and not in run 1: Bye." in done.stderr
    assert "2 calls vary between 2 runs" in done.stderr


def test_calls_that_go_on_from_another_differ_as_it_does() -> None:
    """Once said is enough."""
    said = record(HISTORY, "--again", "2").stderr.splitlines()

    at = said.index("call 2 is asked otherwise in run 2:")
    assert said[at + 2] == "call 3 is asked otherwise in run 2, as in call 2"
    assert said[at + 3] == "cortex-replay: 2 calls vary between 2 runs; replay follows what matches"


def test_runs_that_ask_the_same_are_said_to() -> None:
    done = record(ASK + "ask('Hello.'), ask('Hello.'), ask('Bye.')", "--again", "2", "--json")

    assert "cortex-replay: 2 runs asked the same" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["varying"] == []


def test_a_scope_is_named_and_has_its_own_roads(server: FakeProvider) -> None:
    done = record(SCOPED, "--again", "2")

    assert done.exit_code == 0, done.stderr
    assert "call 2 of a is asked otherwise in run 2:" in done.stderr
    for _ in range(2):
        assert replay(SCOPED).exit_code == 0
        Path("cache").unlink(missing_ok=True)
    assert len(server.received) == 4


def test_a_run_that_fails_is_the_last(server: FakeProvider) -> None:
    done = record(ASK + "ask('Hello.'); raise SystemExit(7)", "--again", "3")

    assert done.exit_code == 7
    assert "error: run 1 failed, so there was no other" in done.stderr
    assert len(server.received) == 1


def test_one_budget_holds_for_all_runs(server: FakeProvider) -> None:
    done = record(NOISE, "--again", "3", "--budget-calls", "3")

    assert done.exit_code != 0
    assert "run 3 failed" in done.stderr
    assert len(server.received) == 3


def test_the_first_run_asks_everything_anew_where_that_is_the_mode(server: FakeProvider) -> None:
    record(ASK + "ask('Hello.')")
    record(ASK + "ask('Hello.')", "--again", "2", "--mode", "record")

    assert len(server.received) == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--again", "2", "--prompt", "Hi."], "--again goes with a command behind --"),
        (["--again", "1", "--", "true"], "1 is not in the range 2<=x<=100"),
        (["--again", "2", "--fail-on", "live", "--", "true"], "--fail-on does not go with --again"),
    ],
)
def test_wrong_usage(arguments: list[str], reason: str) -> None:
    done = run("record", *arguments)

    assert done.exit_code == 2
    assert reason in done.stderr


def test_a_mode_that_records_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, server: FakeProvider
) -> None:
    monkeypatch.setenv("CORTEX_REPLAY_MODE", "live")
    done = record(WARM, "--again", "2")

    assert done.exit_code == 2
    assert "which records nothing: give --mode once or --mode record with --again" in done.stderr
    assert server.received == []
