"""A team whose machine has a cache of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sharing.team import Team


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    return Team.make(tmp_path, monkeypatch)
