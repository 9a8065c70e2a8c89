"""The page of a recorded shop in a real browser: live and as a file, by keyboard, on a phone, in the dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
from playwright.sync_api import Page, expect

from integration.view.looking import PHONE, Looker, check_layout, check_names, go_to, tab_through
from integration.view.project import Project
from tests.servers.browser import needs_browser

pytestmark = needs_browser
KINDS = ["served", "file"]
REFUND = "tests/test_shop.py::test_refund_of_a_broken_lamp"
SCREENS = ("store", "conversation", "change", "run")


@contextmanager
def page_of(shop: Project, kind: str, report: str = "run.json") -> Iterator[str]:
    """The address of the page with everything in it."""
    options = ["--base", "main", "--report", str(shop.folder / report)]
    name = f"{report.removesuffix('.json')}.html"
    with (
        shop.serve(*options) if kind == "served" else nullcontext(shop.export(*options, name=name)) as address
    ):
        yield address


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_gets_everywhere_without_a_mouse(shop: Project, look: Looker, kind: str) -> None:
    with page_of(shop, kind) as address:
        page = look.open(address)
        read_changes(page)
        read_report(page)
        search_store(page)
        read_conversation(page)

        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("next, previous step")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.keyboard.press("Escape")
        expect(page.locator("input[type=search]")).to_have_value("berlin")
        expect(page.locator("li:focus-within")).to_have_count(1)


def read_changes(page: Page) -> None:
    go_to(page, "change")
    expect(page.locator(".counts")).to_contain_text("3 may break code")
    page.keyboard.press("n")
    first = page.locator("article.change:focus-within")
    expect(first).to_have_count(1)
    expect(first).to_contain_text("refuses to answer")
    page.keyboard.press("Enter")
    expect(first.locator("table.compared").first).to_be_visible()
    expect(first).to_contain_text("LAMP-90-TODAY")
    page.keyboard.press("x")
    expect(page.locator(".progress")).to_have_text("1 of 5 reviewed")
    page.keyboard.press("n")
    expect(page.locator("article.change:focus-within")).not_to_contain_text("refuses to answer")
    page.keyboard.press("p")
    page.keyboard.press("e")
    output = page.locator("article.change", has_text="waiting for two weeks").locator(
        "table", has_text="priority"
    )
    expect(output.locator("tr.differs")).to_have_count(2)
    assert output.locator("tr.differs").all_inner_texts() == [
        '  "priority": 1,\t  "priority": "high",',
        '    "angry"\t',
    ]
    expect(
        page.locator("article.change", has_text="refund #1 amount").locator(".sentence").first
    ).to_have_text('refund #1 amount: "39.00" is not of type "number"')
    page.keyboard.press("c")


def read_report(page: Page) -> None:
    go_to(page, "run")
    expect(page.locator(".verdict")).to_have_text("1 call found no recording.")
    expect(page.locator("details[open] pre")).to_contain_text("'When are you open on Sundays?'")


def search_store(page: Page) -> None:
    go_to(page, "store")
    count = page.locator(".count")
    page.keyboard.press("/")
    page.keyboard.type("berlin", delay=20)
    expect(count).to_contain_text(" of ")
    expect(count).not_to_contain_text("so far")
    expect(page.locator("li.row mark").first).to_have_text("Berlin")
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    page.keyboard.press("k")
    while "My lamp arrived" not in (page.locator("li:focus-within").inner_text()):
        before = page.locator("li:focus-within").get_attribute("aria-posinset")
        page.keyboard.press("j")
        assert page.locator("li:focus-within").get_attribute("aria-posinset") != before
    page.keyboard.press("Enter")


def read_conversation(page: Page) -> None:
    expect(page.locator("h2")).to_have_text(REFUND)
    step = page.locator(".step:focus")
    expect(step).to_contain_text("claude-haiku-5-5")
    for _ in range(30):
        page.keyboard.press("k")
    expect(step).to_contain_text("initialize")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(step.locator(".message.user")).to_contain_text("My lamp arrived broken.")
    expect(step.locator(".toolcard")).to_contain_text("find_order")
    expect(step.locator(".toolcard .result")).to_contain_text("Desk lamp, brass")
    page.keyboard.press("Enter")
    expect(step.locator("details.system .text")).to_contain_text("small shop that sells lamps")
    page.keyboard.press("p")
    expect(step.locator(".tail")).to_contain_text("sorry")
    page.keyboard.press("r")
    expect(page.get_by_text('"recorded_at"').first).to_be_attached()
    for _ in range(20):
        page.keyboard.press("j")
    expect(page.locator(".broke").first).to_contain_text("find_order")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("report", ["run.json", "sweep.json", "drift.json"])
def test_every_screen_can_be_read_on_a_phone_and_by_a_screen_reader(
    shop: Project, look: Looker, report: str, theme: str
) -> None:
    """Live in the dark, and as a file by light; all that folds is open."""
    with page_of(shop, "served" if theme == "dark" else "file", report) as address:
        page = look.open(address, viewport=PHONE, color_scheme=theme)
        for screen in SCREENS if report == "run.json" else ("run",):
            go_to(page, screen)
            open_all(page, screen)
            check_layout(page)
            check_names(page)


def open_all(page: Page, screen: str) -> None:
    match screen:
        case "conversation":
            page.get_by_role("link", name=REFUND).first.press("Enter")
            page.locator(".step .reply").first.wait_for()
            for _ in range(20):
                page.keyboard.press("j")
            page.locator(".broke").first.wait_for()
        case "change":
            page.keyboard.press("e")
            page.locator("table.compared").first.wait_for()
        case "run":
            page.locator(".verdict").first.wait_for()
    page.locator("main details:not([open]) > summary").evaluate_all(
        "all => all.forEach((one) => one.click())"
    )
    cell = page.locator("td button").first
    if screen == "run" and cell.count():
        cell.press("Enter")


@pytest.mark.parametrize("screen", SCREENS)
def test_the_keyboard_is_seen_and_never_trapped(shop: Project, look: Looker, screen: str) -> None:
    with page_of(shop, "file") as address:
        page = look.open(address)
        go_to(page, screen)
        open_all(page, screen)
        assert tab_through(page) > 5
