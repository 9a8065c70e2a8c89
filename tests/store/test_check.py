"""What a check hands out, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from cortex_replay.errors import Finding
from cortex_replay.store import check
from cortex_replay.store.directory import DirectorySource
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Fixture
from cortex_replay.store.index.index import FixtureRow, Index
from cortex_replay.store.index.named_file import File
from cortex_replay.store.trust import Layout, layout_of
from tests.builder import StoreBuilder


class ShortReads(DirectorySource):
    """A folder on a file system that gives half of a file at first."""

    def read_many(self, files: Iterable[File], max_bytes: int) -> Iterator[tuple[File, bytes | Finding]]:
        for file, data in super().read_many(files, max_bytes):
            yield file, data[: len(data) // 2] if isinstance(data, bytes) else data


@pytest.mark.parametrize("fewest", [0, 300])
def test_what_is_kept_is_what_was_judged(
    builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch, fewest: int
) -> None:
    """A file that has to be read again is kept as it was then, and that is what a store serves."""
    monkeypatch.setattr(check, "_FEWEST_FOR_GLANCE", fewest)

    report = check.check_store(ShortReads(builder.root), keep=True)

    assert report.findings == []
    assert report.contents == builder.files


def test_a_note_gets_every_recording(builder: StoreBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a store that is large enough to be glanced at."""
    monkeypatch.setattr(check, "_FEWEST_FOR_GLANCE", 0)
    noted: dict[str, Fixture | Exchange] = {}

    report = check.check_store(DirectorySource(builder.root), note=noted.__setitem__)

    assert report.is_trusted
    assert noted.keys() == builder.files.keys()


def test_a_file_too_many_is_found(builder: StoreBuilder) -> None:
    """Where all that is listed is there, too."""
    (builder.root / "fixtures/more.json").write_bytes(b"{}")

    assert builder.codes() == ["unlisted"]


@pytest.mark.parametrize(
    ("paths", "layout"),
    [
        (["fixtures/a.json", "fixtures/z.json"], Layout.NESTED),
        (["fixtures/a.json", "z.json"], Layout.FLAT),
        (["a.json", "fixtures/z.json"], Layout.FLAT),
        (["fixtures.json", "fixturesz.json"], Layout.FLAT),
    ],
)
def test_the_layout_is_that_of_all_rows(paths: list[str], layout: Layout) -> None:
    """One file beside the index, and all stand beside it."""
    assert layout_of(Index([FixtureRow(path, "") for path in paths]), has_nested_folder=True) is layout


def test_a_place_without_a_store_has_nothing_listed(tmp_path: Path) -> None:
    """What stands below fixtures/ would have to be listed in a new store."""
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures/a.json").write_bytes(b"{}")

    report = check.check_place_of_new(DirectorySource(tmp_path))

    assert [finding.code for finding in report.findings] == ["unlisted"]
