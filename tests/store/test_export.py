"""An export that cannot be finished leaves nothing that could be taken for a store."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from cortex_replay import StoreIo
from cortex_replay.disk import Folder
from cortex_replay.store.export import export_crtx
from tests.builder import StoreBuilder


@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("name", ["create", "replace"])
def test_a_full_disk_leaves_no_half_of_an_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, was_there: bool
) -> None:
    """Whether it fills up at the second file, or at the index."""
    builder, target = StoreBuilder(tmp_path / "store"), tmp_path / "out"
    for question in ("one", "two"):
        builder.add(question, "an answer")
    builder.write()
    store = builder.open()
    if was_there:
        target.mkdir()
    original = getattr(Folder, name)
    calls = []

    def fill(folder: Folder, *arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) == (2 if name == "create" else 1):
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(folder, *arguments, **options)

    monkeypatch.setattr(Folder, name, fill)
    with pytest.raises(StoreIo, match="the export cannot be written: No space left"):
        export_crtx(store, target)

    assert target.exists() == was_there
    assert not was_there or list(target.iterdir()) == []
    monkeypatch.undo()
    assert export_crtx(store, target).fixtures == 2
