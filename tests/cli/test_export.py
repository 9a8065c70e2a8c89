"""``cortex-replay export``."""

from __future__ import annotations

import json
from pathlib import Path

from cortex_replay import Store
from tests.builder import StoreBuilder
from tests.cli.commands import (
    key_of,
    run,
)


def test_export(builder: StoreBuilder, tmp_path: Path) -> None:
    """A flat store with the same answers; never into a folder that has something in it."""
    builder.add("Roll a die.", "one", "two")
    builder.write()
    target = tmp_path / "out/crtx"
    result = run("export", "--crtx", target, "--store", builder.root)

    assert result.exit_code == 0
    assert "1 of them crtx-llm gives the first answer only" in result.stderr
    exported = Store.open(target)
    assert exported.layout == "flat"
    assert {item[:2] for item in exported.list()} == {item[:2] for item in builder.open().list()}
    assert exported.get(*key_of("What is one?")) == builder.open().get(*key_of("What is one?"))
    assert "model = " not in (target / "INDEX.toml").read_text()
    assert run("export", "--crtx", target, "--store", builder.root).exit_code == 1
    assert run("export", "--crtx", builder.root / "fixtures/out", "--store", builder.root).exit_code == 1
    assert builder.findings() == []
    empty = tmp_path / "empty"
    empty.mkdir()
    counts = json.loads(run("export", "--crtx", empty, "--json", "--store", builder.root).stdout)
    assert (counts["fixtures"], counts["with_more_answers"]) == (3, 1)


def test_wrong_usage(builder: StoreBuilder) -> None:
    assert run("export", "--store", builder.root).exit_code == 2
