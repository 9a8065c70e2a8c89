"""How often git, as a hosted merge runs it, cannot merge what two branches recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.branches import count_conflicts

MERGES = 40


@pytest.mark.parametrize(("size", "added"), [(10, 3), (200, 5), (200, 20)])
def test_conflicts_are_rare(tmp_path: Path, size: int, added: int) -> None:
    """At most 5 % of the merges; every other one gives a sound store with what both sides recorded."""
    assert count_conflicts(tmp_path, size, added, range(MERGES)) <= 0.05 * MERGES
