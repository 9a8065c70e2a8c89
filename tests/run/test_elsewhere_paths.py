"""The paths of another place are of another length: what a program counts differs there, too."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from cortex_replay.run import elsewhere as module
from cortex_replay.run.elsewhere import elsewhere


@pytest.mark.parametrize("length", [12, 18, 25, 32, 50, 60])
def test_another_place_is_of_another_length(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / ("d" * length)
    here.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "find_top", lambda _: None)

    with elsewhere(here, {"HOME": str(here)}) as there:
        assert abs(len(str(there.cwd)) - len(str(here))) >= 16
        assert abs(len(there.changes["HOME"]) - len(str(here))) >= 16
