"""``cortex-replay verify``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortex_replay import Answer
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import (
    at_a_shell,
    at_a_terminal,
    run,
    spoil,
)


def test_verify_is_quiet_when_all_is_well(builder: StoreBuilder) -> None:
    """Nothing on stdout, nothing on stderr, exit 0."""
    result = run("verify", builder.root)

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_verify_prints_every_finding_and_exits_5(builder: StoreBuilder) -> None:
    """Findings are the result, so they stand on stdout; the summary is talk."""
    spoiled = spoil(builder)
    (builder.root / "fixtures/x.json").write_bytes(b"{}")
    result = run("verify", builder.root)

    assert result.exit_code == 5
    assert f"{spoiled}: its bytes differ" in result.stdout
    assert "[unlisted]" in result.stdout
    assert "hint: " in result.stdout
    assert "2 findings" in result.stderr


def test_verify_for_programs(builder: StoreBuilder) -> None:
    """The whole report as one JSON object, good or bad."""
    good = json.loads(run("verify", builder.root, "--json").stdout)
    assert good["ok"]
    assert (good["fixtures"], good["findings"]) == (2, [])

    spoiled = spoil(builder)
    result = run("verify", "--json", "--store", builder.root)
    bad = json.loads(result.stdout)
    assert result.exit_code == 5
    assert not bad["ok"]
    assert ("mismatch", spoiled) == (bad["findings"][0]["code"], bad["findings"][0]["path"])


def test_verify_quick_looks_at_bytes_only(tmp_path: Path) -> None:
    """What the files say is left to the full check."""
    builder = StoreBuilder(tmp_path)
    builder.add_bytes(b"{}", fixture_of(ask("q"), Answer("")).key)
    builder.write()

    assert run("verify", tmp_path).exit_code == 5
    assert run("verify", tmp_path, "--quick").exit_code == 0
    assert run("verify", tmp_path, "--quick", "--staged").exit_code == 2
    (tmp_path / next(iter(builder.files))).write_bytes(b"[]")
    assert run("verify", tmp_path, "--quick").exit_code == 5


def test_verify_strict_refuses_what_cannot_be_checked(tmp_path: Path) -> None:
    """A request with a secret cut out passes and is counted, or is refused when asked."""
    builder = StoreBuilder(tmp_path)
    fixture = fixture_of(ask("q"), Answer("a"), meta={"redactions": [{"kind": "value", "where": "request"}]})
    builder.add_fixture(fixture)
    builder.write()
    result = run("verify", tmp_path)

    assert result.exit_code == 0
    assert "1 stored request cannot be checked" in result.stderr
    assert run("verify", tmp_path, "--strict").exit_code == 5


def test_a_person_is_told_that_all_is_well(builder: StoreBuilder) -> None:
    """At a terminal only."""
    assert "ok: 2 files" in at_a_terminal("verify", builder.root)


def test_a_reader_that_stops_early_does_not_change_the_verdict(builder: StoreBuilder) -> None:
    """``verify | head`` still says 5."""
    spoil(builder)
    done = at_a_shell(f"set -o pipefail; cortex-replay verify {builder.root} | true")

    assert done.returncode == 5
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [["--nonsense"], ["--quick", "--staged"], ["--base"]])
def test_wrong_usage(builder: StoreBuilder, options: list[str]) -> None:
    assert run("verify", builder.root, *options).exit_code == 2
