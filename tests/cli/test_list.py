"""``cortex-replay list``."""

from __future__ import annotations

import json
from pathlib import Path

from cortex_replay import Answer
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import (
    run,
)


def test_list(builder: StoreBuilder) -> None:
    """Model, hash and file, a line each; or JSON; or those of some models."""
    builder.add_fixture(fixture_of(ask("q", model="other\x1b[31m"), Answer("a")))
    builder.write()
    result = run("list", "--store", builder.root)
    rows = json.loads(run("list", "--json", "--store", builder.root).stdout)

    assert 3 == len(result.stdout.splitlines()) == len(rows)
    assert {"model", "prompt_hash", "path", "blake3"} == set(rows[0])
    assert "\x1b" not in result.stdout
    assert all(row["prompt_hash"][:16] in result.stdout for row in rows)
    assert len(run("list", "--model", "test-*", "--store", builder.root).stdout.splitlines()) == 2
    assert run("list", "--model", "none", "--store", builder.root).stdout == ""


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
