"""Giving fixtures other keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay import FixtureIntegrityFailed, Store, StreamChunk
from cortex_replay.config.key_rules import KeyRules
from cortex_replay.engine.rule_renewal import RuleRenewal
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.fixture import Answer, TimedChunk
from cortex_replay.store.rekey import plan_rekey
from tests.builder import ask, fixture_of


def test_an_edited_file_that_would_not_be_trusted_is_refused(tmp_path: Path) -> None:
    """Also where changed files are accepted: nothing is written, and nothing is left in staging."""
    store = Store.create(tmp_path)
    path = store.add(fixture_of(ask("q"), Answer("one", stream=(TimedChunk(0, StreamChunk("one", "stop")),))))
    store.commit()
    file, index = tmp_path / path, (tmp_path / "INDEX.toml").read_bytes()
    file.write_bytes(file.read_bytes().replace(b'"text": "one"', b'"text": "two"'))
    source = DirectorySource(tmp_path)
    plan = plan_rekey(source, RuleRenewal(KeyRules()), accept_changed=True)
    assert [item.path for item in plan.moving] == [path]

    with pytest.raises(FixtureIntegrityFailed, match="the deltas of its stream are not its text"):
        plan.apply(source)

    assert (tmp_path / "INDEX.toml").read_bytes() == index
    assert store.abandoned().answers == 0
