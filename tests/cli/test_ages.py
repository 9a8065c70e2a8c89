"""Old recordings: ``verify`` says so, and nothing else happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortex_replay import Answer, Store
from tests.adapters.fake_provider import FakeProvider
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import run
from tests.cli.programs import TWICE, Shell


@pytest.fixture
def aged(tmp_path: Path, in_a_folder: None) -> StoreBuilder:
    """A store with one recording of each year from 2021, and one that says nothing."""
    builder = StoreBuilder(tmp_path / "llm")
    for year in (2023, 2021, 2022):
        meta: dict[str, object] = {"recorded_at": f"{year}-05-01T00:00:00Z"}
        builder.add_fixture(fixture_of(ask(f"q{year}"), Answer(f"{year}"), meta=meta))
    builder.add("undated", "a")
    builder.write()
    return builder


def test_the_setting_warns_and_the_option_fails(aged: StoreBuilder) -> None:
    """Oldest first; what says no time is counted apart."""
    Path("cortex-replay.toml").write_text('store = "llm"\nmax_age = "90d"\n')
    warned, failed = run("verify"), run("verify", "--max-age")

    assert (warned.exit_code, warned.stdout) == (0, "")
    assert "warning: 3 of 4 recordings older than 90d" in warned.stderr
    days = [line.split()[0] for line in warned.stderr.splitlines() if line.startswith("  20")]
    assert days == ["2021-05-01", "2022-05-01", "2023-05-01"]
    assert "1 recording without a time" in warned.stderr
    assert failed.exit_code == 4
    assert [line.split()[1] for line in failed.stdout.splitlines()] == days
    assert "error: 3 of 4 recordings older than 90d" in failed.stderr


def test_an_age_that_is_given_counts(aged: StoreBuilder) -> None:
    """More than what is configured; a store without old recordings passes."""
    Path("cortex-replay.toml").write_text('store = "llm"\nmax_age = "1h"\n')

    assert run("verify", "--max-age", "5000w").exit_code == 0
    document = json.loads(run("verify", "--max-age", "1w", "--json").stdout)
    assert (document["ok"], document["ages"]["max_age"], document["ages"]["undated"]) == (True, "7d", 1)
    assert document["ages"]["old"][0]["recorded_at"] == "2021-05-01T00:00:00Z"


def test_the_configuration_above_the_store_counts(aged: StoreBuilder) -> None:
    """Not that of the folder in which somebody stands; each store has its own."""
    Path("llm/cortex-replay.toml").write_text('max_age = "90d"\n')

    assert "older than 90d" in run("verify", "llm").stderr
    assert run("verify", "llm", "--quick").stderr == "", "which does not read when they were made"


def test_nothing_is_said_without_a_limit(aged: StoreBuilder) -> None:
    """As before."""
    result = run("verify", "llm")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert json.loads(run("verify", "llm", "--json").stdout)["ages"] is None


def test_a_broken_store_is_worse_than_an_old_one(aged: StoreBuilder) -> None:
    """Both are told."""
    next(aged.root.rglob("*.json")).write_bytes(b"{}")
    result = run("verify", "llm", "--max-age", "90d")

    assert result.exit_code == 5
    assert "old  " in result.stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--max-age"], "say how old: --max-age 90d, or max_age"),
        (["--max-age", "soon"], "an age is a number and h, d or w"),
        (["--max-age", "90d", "--quick"], "--quick does not read"),
        (["--max-age", "90d", "--remote"], "goes with no other check"),
    ],
)
def test_wrong_usage(aged: StoreBuilder, options: list[str], reason: str) -> None:
    """With words."""
    result = run("verify", "--store", "llm", *options)

    assert result.exit_code == 2
    assert reason in result.stderr


def test_an_old_recording_asks_nobody(shell: Shell, provider: FakeProvider, tmp_path: Path) -> None:
    """Neither in replay nor where what is missing is asked."""
    shell.record(TWICE, provider.url)
    for path in (tmp_path / "llm/fixtures").rglob("*.json"):
        document = json.loads(path.read_text())
        document["meta"]["recorded_at"] = "2021-05-01T00:00:00Z"
        path.write_text(json.dumps(document))
    assert shell.run("index", "--store", "llm", "--accept-changed").status == 0
    assert shell.run("verify", "llm", "--max-age", "90d").status == 4
    (tmp_path / "cortex-replay.toml").write_text('max_age = "1h"\n')

    replayed, again = shell.replay(TWICE), shell.record(TWICE, provider.url, "--json")
    assert (replayed.status, again.status) == (0, 0), replayed.talk + again.talk
    assert (again.report["hits"], again.report["live"]) == (2, 0)
    assert len(provider.received) == 2, "as recorded"
    assert len(Store.open(tmp_path / "llm")) == 2


def test_a_new_configuration_mentions_the_setting(in_a_folder: None, tmp_path: Path) -> None:
    """As a comment, which holds once the sign before it goes."""
    assert run("init", "--store", "tests/llm").exit_code == 0
    file = tmp_path / "cortex-replay.toml"
    file.write_text(file.read_text().replace("# max_age", "max_age"))

    assert json.loads(run("config", "--json").stdout)["settings"]["max_age"]["value"] == "90d"
