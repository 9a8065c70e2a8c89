"""A shop to look at, and a browser; each once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

# Its assertions should show what they compared, as those of a test module do.
pytest.register_assert_rewrite("integration.view.looking")

from integration.view.looking import Looker, looker  # noqa: E402
from integration.view.project import Project, record_shop  # noqa: E402
from tests.servers.browser import chromium  # noqa: E402


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Recorded, changed and reported on by the program itself."""
    if made := os.environ.get("CORTEX_REPLAY_SHOP"):  # by an earlier run
        return Project(Path(made))
    return record_shop(tmp_path_factory.mktemp("look") / "shop")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def look(browser: Browser) -> Iterator[Looker]:
    with looker(browser) as looking:
        yield looking
