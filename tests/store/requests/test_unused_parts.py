"""Parts go only if every fixture says that it does not need them; one that cannot be read says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex_replay.errors import FixtureIntegrityFailed
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.requests.unused_parts import drop_unused_parts, parts_named_in
from cortex_replay.store.trust import Layout, Untrusted, trust_fixture
from tests.linked import make_short, write_whole
from tests.store.conversations import index_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_short(write_whole(tmp_path / "whole"), tmp_path / "short")


def drop(root: Path) -> list[str]:
    return [row.path for row in drop_unused_parts(DirectorySource(root), Layout.NESTED)]


def test_parts_that_are_named_stay(root: Path) -> None:
    before = index_of(root).parts

    assert drop(root) == []
    assert index_of(root).parts == before
    named = [parts_named_in(row.path, (root / row.path).read_bytes()) for row in index_of(root).fixtures]
    assert set().union(*named) == {row.blake3 for row in before}


@pytest.mark.parametrize("how", ["missing", "no fixture", "no index"])
def test_what_cannot_be_read_keeps_every_part(root: Path, how: str) -> None:
    path = root / next(row for row in index_of(root).fixtures if row.continues is None).path
    if how == "missing":
        path.unlink()
    elif how == "no fixture":
        path.write_bytes(b'{"request": {"parts": {}}')
    else:
        (root / "INDEX.toml").write_text("nonsense\n")
    files = sorted(root.rglob("parts/*"))

    with pytest.raises(FixtureIntegrityFailed):
        drop(root)
    assert sorted(root.rglob("parts/*")) == files


def test_a_request_that_nobody_can_put_together_is_not_trusted(root: Path) -> None:
    row = next(row for row in index_of(root).fixtures if row.continues is not None)

    with pytest.raises(Untrusted) as refused:
        trust_fixture(row, (root / row.path).read_bytes())
    assert refused.value.finding.code == "link-broken"
