"""The shell of the page, the Store and the Run, in a browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from cortex_replay.view.bundle import asset
from cortex_replay.view.page import served_page
from tests.servers.browser import chromium, needs_browser
from tests.view.pages import (
    HOSTILE,
    call_row,
    drift_report,
    page_document,
    run_report,
    store_document,
    sweep_report,
    write_page,
)

pytestmark = needs_browser
ROWS = 3000
HERE = "http://127.0.0.1:9/t-token/"
Open = Callable[..., Page]
PHONE = {"width": 360, "height": 700}
NAMELESS = """() => [...document.querySelectorAll("a, button, input, select, summary, dialog, [role=region]")]
    .filter((one) => !(one.getAttribute("aria-label") || one.getAttribute("aria-labelledby")
        || one.innerText?.trim() || one.labels?.length))
    .map((one) => one.outerHTML)"""
HEADINGS = "() => [...document.querySelectorAll('h1, h2, h3, h4')].map((one) => Number(one.tagName[1]))"
DOUBLE_IDS = """() => [...document.querySelectorAll("[id]")].map((one) => one.id)
    .filter((id, at, all) => all.indexOf(id) !== at)"""

REFUSED = """async () => {
    const { el } = await import("./assets/dom.js");
    const isRefused = (options) => { try { el("a", options); return false; } catch { return true; } };
    return [
        ...["#/store", "javascript:alert(1)", "//example.com", "data/raw/1"]
            .filter((href) => isRefused({ href })),
        ...["title", "style", "srcdoc"].filter((name) => isRefused({ [name]: "x" })),
    ];
}"""
"""What no element gets, of some that it may have."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def store_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    calls = [call_row(number) for number in range(ROWS)]
    calls[5] = call_row(
        5, question=HOSTILE, who="gpt-6-luna", is_unused=True, scopes=["tests/test_agent.py::test_1"]
    )
    calls[7] = call_row(7, kind="mcp", who="files", is_old=True, spent=None)
    texts = [
        {"where": "system", "text": f"You are careful. {'x' * 90} Zanzibar [a.b] here", "ids": ["call-8"]},
        {"where": "answer", "text": "ZANZIBAR\nagain", "ids": ["call-8", "call-5"]},
    ]
    return write_page(
        tmp_path_factory.mktemp("page"),
        "store",
        page=page_document("store", "conversation", "run"),
        store=store_document(calls, tests=30),
        texts={"texts": texts, "left_out": 2},
        report=run_report(),
    )


@pytest.fixture
def sweep_page(tmp_path: Path) -> str:
    return write_page(tmp_path, "sweep", page=page_document("run"), report=sweep_report())


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens pages that fail a test by what they throw, and by what they ask of anybody but themselves."""
    problems: list[str] = []
    opened: list[Page] = []

    def note_request(request: Request) -> None:
        if not request.url.startswith(("file:", HERE)):
            problems.append(request.url)

    def open_one(address: str, **options: Any) -> Page:
        page = browser.new_page(**options)
        opened.append(page)
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", note_request)
        if address:
            page.goto(address)
            page.wait_for_selector("h2")
        return page

    yield open_one
    for page in opened:
        page.close()
    assert problems == []


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.closest('li, button, input, h2')?.innerText ?? ''"))


def test_the_store_is_searched_sorted_and_walked_through_by_keyboard(
    open_page: Open, store_page: str
) -> None:
    page = open_page(store_page)
    rows, count = page.locator("li.row:not(.probe)"), page.locator(".count")

    # Totals, marks in words, and nothing recorded that is more than text.
    assert page.title() == "Store · agent/fixtures"
    assert page.locator(".figures").inner_text().split("\n")[:2] == ["Recordings", "3,000"]
    assert "1.25 USD" in page.locator(".figures").inner_text()
    assert "1 file is not shown" in page.locator("[role=alert]").inner_text()
    assert page.locator("img").count() == 0

    # Of 3,000 rows those in sight exist, and each says which one it is.
    expect(count).to_have_text("3,000 recordings")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert focused(page).startswith("Question 0")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert focused(page).startswith("Question 1")
    assert rows.count() < 60
    page.keyboard.press("End")
    assert focused(page).startswith("Question 2999")
    last = page.locator("li:focus-within")
    assert (last.get_attribute("aria-posinset"), last.get_attribute("aria-setsize")) == ("3000", "3000")
    assert page.evaluate("document.activeElement.getBoundingClientRect().bottom <= innerHeight + 1")
    assert rows.count() < 60
    page.keyboard.press("Home")
    assert focused(page).startswith("Question 0")
    bottoms = rows.evaluate_all("rows => rows.map((row) => row.getBoundingClientRect().bottom)")
    assert max(bottoms) >= page.evaluate("innerHeight"), "the window is full"

    # A row leads to its run or test, and back is where one was.
    links = [row.get_attribute("href") for row in page.locator("a.line").all()]
    assert links[4:6] == ["#/conversation/run-1/call-4", "#/conversation/test-1/call-5"]
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    page.evaluate("scrollBy(0, 200)")
    place, number = page.evaluate("scrollY"), last.get_attribute("aria-posinset")
    page.keyboard.press("Enter")
    expect(page.locator("h2")).to_be_focused()
    assert page.evaluate("scrollY") == 0
    page.keyboard.press("Escape")
    expect(last).to_have_attribute("aria-posinset", str(number))
    assert page.evaluate("scrollY") == place

    # A search is no pattern, and finds what rows and texts say.
    field = page.locator("input[type=search]")
    field.fill("zanzibar")
    expect(count).to_have_text(
        "2 of 3,000 recordings This file has only the start of 2 long texts; the rest is not searched."
    )
    assert page.locator("mark").all_inner_texts() == ["ZANZIBAR", "Zanzibar"]
    assert "and 1 more" in rows.nth(1).inner_text()
    assert rows.first.inner_text().startswith(HOSTILE.replace("\u202e", "⟨202E⟩"))
    assert "unused" in rows.first.inner_text()
    field.fill("[a.b]  here")
    expect(count).to_contain_text("1 of 3,000 recordings")
    field.fill("question 29")
    expect(count).to_contain_text("111 of 3,000 recordings")
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    assert focused(page).startswith("Question 290")
    page.keyboard.press("Enter")
    expect(page.locator("h2")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("li:focus-within")).to_contain_text("Question 290")
    expect(count).to_contain_text("111 of 3,000 recordings")
    field.fill("a.a")
    expect(page.locator(".empty")).to_contain_text("No recording fits")
    field.fill("")
    expect(count).to_have_text("3,000 recordings")

    # Filters, which leave the keys alone.
    page.get_by_label("Old").check()
    expect(count).to_have_text("1 of 3,000 recordings")
    page.keyboard.press("j")
    assert focused(page).startswith("Question 7")
    assert "old" in rows.first.inner_text()
    page.get_by_label("Old").uncheck()
    page.get_by_label("Sort").select_option("oldest")
    expect(rows.first).to_contain_text("Question 2999")
    page.get_by_role("button", name="gpt-6-luna").click()
    expect(count).to_have_text("1 of 3,000 recordings")

    # Elsewhere and back: what was chosen is still so.
    page.locator("h3").first.click()
    page.get_by_role("link", name="Run", exact=True).click()
    page.wait_for_selector("h2:text('Run')")
    assert page.evaluate("document.activeElement.tagName") == "H2"
    page.keyboard.press("Escape")
    expect(count).to_have_text("1 of 3,000 recordings")


def test_a_page_can_be_used_without_seeing_it_and_on_a_phone(open_page: Open, store_page: str) -> None:
    page = open_page(store_page, viewport=PHONE, color_scheme="dark")

    for screen in ("store", "run"):
        page.goto(f"{store_page}#/{screen}")
        page.wait_for_selector(f"nav a[data-screen={screen}][aria-current=page]")
        page.wait_for_selector(".figures")
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate(DOUBLE_IDS) == []
        levels = page.evaluate(HEADINGS)
        assert levels[:2] == [1, 2]
        assert all(after <= before + 1 for before, after in pairwise(levels))
        assert page.locator("th:not([scope])").count() == 0
        assert page.locator("main, header.top, nav, footer").count() == 4
    assert "2 calls found no recording." in page.locator("main").inner_text()
    assert "nearest: b" in page.locator("details[open] pre").inner_text()
    assert page.locator("img").count() == 0
    assert page.title() == "Run · agent/fixtures"

    # The theme follows the system, then the reader, and is kept.
    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))

    dark = background()
    page.keyboard.press("t")
    assert background() != dark
    page.reload()
    page.wait_for_selector("h2")
    assert page.get_by_role("button", name="Theme: Light").count() == 1
    page.keyboard.press("t")
    assert background() == dark

    page.keyboard.press("?")
    assert "next, previous" in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0
    page.keyboard.press("1")
    expect(page.locator("nav a").first).to_have_attribute("aria-current", "page")


def test_a_sweep_is_a_matrix_with_a_log_for_each_cell(open_page: Open, sweep_page: str) -> None:
    page = open_page(f"{sweep_page}#/run/0", viewport=PHONE)
    panel = page.locator("section[aria-live]")

    assert "survived 3 of 5 faults, over 2 calls" in page.locator(".verdict").inner_text()
    assert page.locator("nav").count() == 0, "there is one screen only"
    assert panel.locator("h3").inner_text() == "Call 1, 429: failed"
    assert panel.locator("pre").all_inner_texts() == [
        "line of 0\n" + HOSTILE.replace("\u202e", "⟨202E⟩"),
        "cortex-replay replay --fault 0",
    ]
    page.keyboard.press("j")
    expect(panel.locator("h3")).to_have_text("Call 1, malformed-json: hung")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(panel.locator("h3")).to_have_text("Call 2, malformed-tool: survived")
    assert (
        page.locator("[aria-pressed=true]").get_attribute("aria-label") == "Call 2, malformed-tool: survived"
    )
    page.keyboard.press("k")
    expect(panel.locator("h3")).to_have_text("Call 1, malformed-json: hung")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert page.evaluate(NAMELESS) == []
    page.goto(f"{sweep_page}#/run/99")
    expect(panel).to_contain_text("Choose a cell")


def test_a_watch_on_drift_has_what_matters_first(open_page: Open, tmp_path: Path) -> None:
    address = write_page(tmp_path, "drift", page=page_document("run"), report=drift_report())
    page = open_page(address, viewport=PHONE)

    assert "does not do what you recorded any more" in page.locator(".verdict").inner_text()
    assert page.locator("h3").all_inner_texts() == ["May break code (1)", "Only reworded (2)", "Failed"]
    assert HOSTILE.replace("\u202e", "⟨202E⟩") in page.locator("article").inner_text()
    page.get_by_text("Question 2").click()
    expect(page.get_by_text("The sun shines.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


def test_a_live_page_asks_its_server_and_says_when_that_is_gone(open_page: Open) -> None:
    store = store_document([call_row(number) for number in range(3)])
    documents: dict[str, Any] = {"page": page_document("store", "run") | {"is_file": False}, "store": store}
    asked: list[str] = []

    def serve(route: Route) -> None:
        url = urlsplit(route.request.url)
        folder, _, name = url.path.removeprefix("/t-token/").partition("/")
        if not folder:
            route.fulfill(body=served_page("Recordings"), content_type="text/html")
        elif folder == "assets":
            kind = "text/css" if name.endswith(".css") else "text/javascript"
            route.fulfill(body=asset(name), content_type=kind)
        elif name == "search":
            asked.append(parse_qs(url.query)["q"][0])
            hit = {"id": "call-1", "where": "system", "before": "a ", "match": asked[-1], "after": " b"}
            route.fulfill(body=json.dumps({"found": [hit], "is_cut": True}))
        elif name in documents:
            route.fulfill(body=json.dumps(documents[name]))
        else:
            route.fulfill(status=404) if folder == "data" and name != "report" else route.abort()

    page = open_page("")
    page.route("**/*", serve)
    page.goto(HERE)
    page.locator("input[type=search]").fill("50% & more")
    expect(page.locator(".count")).to_contain_text("1 of 3 recordings There is more than this.")
    assert asked == ["50% & more"]
    assert page.locator("mark").inner_text() == "50% & more"
    assert page.evaluate(REFUSED) == ["javascript:alert(1)", "//example.com", "style", "srcdoc"]
    page.goto(f"{HERE}#/run/%")
    expect(page.locator("[role=alert]")).to_contain_text("Is cortex-replay view still running?")
