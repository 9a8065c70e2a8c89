"""``cortex-replay prune``."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from click.testing import Result

from cortex_replay import Answer, Store
from tests.builder import StoreBuilder, ask, fixture_of
from tests.cli.commands import (
    first_file,
    run,
)


def prune(builder: StoreBuilder, *options: str | Path) -> Result:
    return run("prune", "--store", builder.root, *options)


def test_prune_wants_a_criterion(builder: StoreBuilder) -> None:
    """Nothing at all would be everything."""
    assert prune(builder).exit_code == 2
    assert prune(builder, "--older-than", "soon").exit_code == 2


def test_prune_prints_the_plan_then_acts(builder: StoreBuilder) -> None:
    """Dry and real run print the same; the store is sound afterwards."""
    pattern = f"*{next(iter(builder.files)).rpartition('/')[2]}"
    dry = prune(builder, "--path", pattern, "--dry-run")
    assert len(Store.open(builder.root)) == 2
    real = prune(builder, "--path", pattern)

    assert dry.stdout == real.stdout == f"remove  {next(iter(builder.files))}\n"
    assert "1 fixture" in real.stderr
    assert "1 stay" in real.stderr
    assert builder.findings() == []
    assert len(Store.open(builder.root)) == 1
    assert not first_file(builder).exists()


def test_prune_by_model_and_for_programs(builder: StoreBuilder) -> None:
    """Counts and bytes."""
    builder.add_fixture(fixture_of(ask("q", model="other"), Answer("a")))
    builder.write()
    plan = json.loads(prune(builder, "--model", "test-*", "--json").stdout)

    assert (len(plan["removed"]), plan["staying"]) == (2, 1)
    assert plan["removed_bytes"] > 100
    assert [item.model for item in Store.open(builder.root).list()] == ["other"]


def test_prune_by_age(tmp_path: Path) -> None:
    """What has no date stays, and is counted."""
    builder = StoreBuilder(tmp_path)
    now = datetime.now(UTC)
    for question, recorded in (
        ("old", (now - timedelta(days=40)).isoformat()),
        ("new", now.strftime("%Y-%m-%dT%H:%M:%SZ")),
        ("odd", "some time ago"),
        ("none", None),
    ):
        builder.add_fixture(fixture_of(ask(question), Answer("a"), meta={"recorded_at": recorded}))
    builder.write()
    result = prune(builder, "--older-than", "30d")

    assert result.exit_code == 0
    assert "2 of them because nobody knows" in result.stderr
    assert len(Store.open(tmp_path)) == 3


def test_prune_by_reports_of_unused_fixtures(builder: StoreBuilder, tmp_path: Path) -> None:
    """Several are merged: what one run used is used."""
    keys = [{"model": item.model, "prompt_hash": item.prompt_hash} for item in builder.open().list()]
    one, two, bad = (tmp_path / name for name in ("one.json", "two.json", "bad.json"))
    one.write_text(json.dumps({"used": [], "unused": keys}))
    two.write_text(json.dumps({"used": keys[:1], "unused": keys[1:]}))
    for text in ("{", "[]", '{"unused": [5]}', '{"unused": {}}', '{"used": 1, "unused": []}'):
        bad.write_text(text)
        assert prune(builder, "--unused-from", bad).exit_code == 2
    assert len(Store.open(builder.root)) == 2

    prune(builder, "--unused-from", one, "--unused-from", two)
    assert [item.prompt_hash for item in Store.open(builder.root).list()] == [keys[0]["prompt_hash"]]


def test_prune_leaves_a_broken_store_alone(builder: StoreBuilder) -> None:
    """It is refused, and nothing goes."""
    (builder.root / "fixtures/x.json").write_bytes(b"{}")
    before = builder.index_text()

    assert prune(builder, "--model", "*").exit_code == 5
    assert builder.index_text() == before
