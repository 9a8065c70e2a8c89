"""A real Chromium, for tests of the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

__all__ = ["chromium", "needs_browser"]

_FOUND = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(_FOUND is None, reason="no Chromium is installed")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of its own, without a window. As root it has no sandbox, which only tests do."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=_FOUND, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
