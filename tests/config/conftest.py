"""No setting of whoever runs the tests gets into them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cortex_replay.config import Configuration, load_settings
from cortex_replay.config.load import VARIABLES


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name in VARIABLES or name == "CI" or name.endswith("_API_KEY"):
            monkeypatch.delenv(name)


class Project:
    """A git repository with a configuration, in which the test stands."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, text: str, name: str = "cortex-replay.toml") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def load(
        self, below: str = ".", environment: dict[str, str] | None = None, **flags: object
    ) -> Configuration:
        return load_settings(self.root / below, environment or {}, flags)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    monkeypatch.chdir(root)
    return Project(root)
