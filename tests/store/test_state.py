"""The state folder of a store: what is in its place stops writers, and readers say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay import StoreIo
from cortex_replay.errors import Finding, FixtureIntegrityFailed
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.journal import STATE_FOLDER
from cortex_replay.store.staging import find_abandoned
from cortex_replay.store.state import open_state, refusal_of, state_problem
from tests.builder import StoreBuilder


@pytest.mark.parametrize("kind", ["a link", "a file"])
def test_what_is_no_folder_of_ours_is_named_and_left_alone(
    builder: StoreBuilder, tmp_path: Path, kind: str
) -> None:
    place = builder.root / STATE_FOLDER
    if kind == "a link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.touch()
    source = DirectorySource(builder.root)

    assert "is a link or no folder" in (state_problem(source) or "")
    assert find_abandoned(source).unmarked == 1
    with pytest.raises(StoreIo, match="is a link or no folder"), open_state(source):
        pass
    assert builder.findings() == [], "it can be read still"


def test_a_store_without_state_has_no_problem(builder: StoreBuilder) -> None:
    assert state_problem(DirectorySource(builder.root)) is None
    gone = DirectorySource(builder.root)
    builder.root.rename(builder.root.with_name("moved"))
    assert state_problem(gone) is None


def test_a_disk_that_fails_is_no_sign_of_a_changed_store() -> None:
    assert isinstance(refusal_of(Finding("unreadable", "a", "Input/output error")), StoreIo)
    assert isinstance(refusal_of(Finding("mismatch", "a", "differs")), FixtureIntegrityFailed)
