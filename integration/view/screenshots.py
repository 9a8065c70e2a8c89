"""Screenshots of every screen for the documentation: ``python -m integration.view.screenshots``.

They show a shop that is recorded with the program itself, as a page of its server.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from playwright.sync_api import Browser, Page

from integration.view.project import Project, record_shop
from tests.servers.browser import chromium

__all__ = ["IMAGES", "SHOTS", "take_all"]

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
_TEST: Final = "tests/test_shop.py::test_refund_of_a_broken_lamp"


def _scroll_to(page: Page, selector: str) -> None:
    page.locator(selector).first.evaluate("one => one.scrollIntoView({ block: 'start' })")


def _open_refund(page: Page) -> None:
    page.get_by_role("link", name=_TEST).first.click()
    page.locator(".step .reply").first.wait_for()


def _open_break(page: Page) -> None:
    _open_refund(page)
    page.locator(".broke").first.scroll_into_view_if_needed()
    _scroll_to(page, ".step:has(.broke)")


def _open_stream(page: Page) -> None:
    _open_refund(page)
    stream = page.locator("details.streamed").first
    stream.locator("summary").first.click()
    stream.locator(".bars").wait_for()
    _scroll_to(page, ".step:has(.bars)")


def _search(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("berlin")
    page.locator("li.row mark").first.wait_for()
    _scroll_to(page, "#recordings")


def _open_first_change(page: Page) -> None:
    page.locator("article.change").first.wait_for()


def _open_sides(page: Page) -> None:
    item = page.locator("article.change", has_text="waiting for two weeks").first
    item.locator("summary").first.click()
    item.locator("table.compared").first.wait_for()
    item.scroll_into_view_if_needed()


def _wait_for_report(page: Page) -> None:
    page.locator(".verdict, .figures").first.wait_for()


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: what is opened, and what is done before it is taken."""

    name: str
    screen: str
    prepare: Callable[[Page], None]
    report: str = "run.json"
    theme: str = "light"
    viewport: tuple[int, int] = (1000, 640)


SHOTS: Final = (
    Shot("view-store", "store", _search, viewport=(1000, 520)),
    Shot("view-store-dark", "store", lambda page: page.locator("a.line").first.wait_for(), theme="dark"),
    Shot("view-conversation", "store", _open_stream, viewport=(1000, 760)),
    Shot("view-conversation-dark", "store", _open_break, theme="dark"),
    Shot("view-conversation-phone", "store", _open_refund, viewport=(360, 720)),
    Shot("view-change", "change", _open_first_change, viewport=(1000, 760)),
    Shot("view-change-dark", "change", _open_sides, theme="dark"),
    Shot("view-run", "run", _wait_for_report),
    Shot("view-run-dark", "run", _wait_for_report, theme="dark"),
    Shot("view-sweep", "run", _wait_for_report, report="sweep.json", viewport=(1000, 400)),
    Shot("view-drift", "run", _wait_for_report, report="drift.json"),
)


def take_all(shop: Project, folder: Path, *names: str) -> list[Path]:
    """Take these pictures, or all; gives their files."""
    wanted = [shot for shot in SHOTS if not names or shot.name in names]
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with chromium() as browser:
        for report in dict.fromkeys(shot.report for shot in wanted):
            with shop.serve("--base", "main", "--report", str(shop.folder / report)) as address:
                files += [_take(browser, address, shot, folder) for shot in wanted if shot.report == report]
    return files


def _take(browser: Browser, address: str, shot: Shot, folder: Path) -> Path:
    width, height = shot.viewport
    options: dict[str, Any] = {"viewport": {"width": width, "height": height}, "color_scheme": shot.theme}
    page = browser.new_page(**options, reduced_motion="reduce")
    page.set_default_timeout(10_000)
    # What was recorded a moment ago is two days old to who looks at it.
    page.clock.set_fixed_time(datetime.now(UTC) + timedelta(days=2))
    page.goto(f"{address}#/{shot.screen}")
    page.wait_for_selector("h2")
    shot.prepare(page)
    file = folder / f"{shot.name}.png"
    page.screenshot(path=file, animations="disabled", caret="hide")
    page.close()
    return file


def main() -> None:
    with TemporaryDirectory() as made:
        for file in take_all(record_shop(Path(made) / "shop"), IMAGES):
            sys.stdout.write(f"{file.name}: {file.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main()
