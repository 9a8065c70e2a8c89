"""What every road starts with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from integration.install import completed
from tests.servers.llamacpp import is_available

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout, built as it is published."""
    if not is_available():
        pytest.skip("xllamacpp has no wheel for this platform, so there is no model to record")
    folder = tmp_path_factory.mktemp("wheel")
    completed([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT])
    (built,) = folder.glob("*.whl")
    return built
