"""A browser that notes all that a page must not do, and checks what a reader needs of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from playwright.sync_api import Browser, ConsoleMessage, Page, Request

__all__ = [
    "LAPTOP",
    "PHONE",
    "Looker",
    "check_layout",
    "check_names",
    "go_to",
    "longest_task",
    "looker",
    "tab_through",
]

LAPTOP: Final = {"width": 1120, "height": 800}
PHONE: Final = {"width": 360, "height": 720}
_NOTE_VIOLATIONS: Final = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
    window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
});
window.longest = 0;
new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
}).observe({ type: "longtask", buffered: true });
"""
_NAMELESS: Final = """() => [...document.querySelectorAll(
        "a, button, input, select, summary, dialog, [role=region], [tabindex='0'], table")]
    .filter((one) => !(one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.caption
        || one.textContent.trim() || one.labels?.length))
    .map((one) => one.outerHTML.slice(0, 200))"""
_HEADINGS: Final = """() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
    .map((one) => Number(one.tagName[1]))"""
_DOUBLE_IDS: Final = """() => [...document.querySelectorAll("[id]")].map((one) => one.id)
    .filter((id, at, all) => all.indexOf(id) !== at)"""
_FAINT: Final = """() => {
    const channels = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([red, green, blue]) => [red, green, blue].map((one) => one / 255)
        .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
        .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (one) => {
        for (let at = one; at !== null; at = at.parentElement) {
            const found = channels(getComputedStyle(at).backgroundColor);
            if (found.length === 3 || found[3] === 1) return found;
        }
        return [255, 255, 255];
    };
    const faint = new Set();
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const one = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || one.closest(".unseen, script, option")) continue;
        if (!one.checkVisibility()) continue;
        const style = getComputedStyle(one);
        const size = parseFloat(style.fontSize);
        const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        const [bright, dark] = [light(channels(style.color)), light(behind(one))].sort((a, b) => b - a);
        const ratio = (bright + 0.05) / (dark + 0.05);
        if (ratio < (isLarge ? 3 : 4.5)) faint.add(`${one.tagName}.${one.className} ${ratio.toFixed(2)}`);
    }
    return [...faint];
}"""
_FOCUS: Final = """() => {
    const one = document.activeElement;
    if (one === document.body || one === null) return null;
    const isMarked = (at) => at !== null && (getComputedStyle(at).outlineStyle !== "none"
        || getComputedStyle(at).boxShadow !== "none");
    const place = [...document.querySelectorAll("*")].indexOf(one);
    return [place, isMarked(one) || isMarked(one.closest("article, .step")), one.outerHTML.slice(0, 160)];
}"""
_MOST_STOPS: Final = 400


@dataclass
class Looker:
    """Opens pages, and notes what none of them may do."""

    browser: Browser
    problems: list[str] = field(default_factory=list)
    _opened: list[Page] = field(default_factory=list)

    def open(self, address: str, **options: Any) -> Page:
        """Open a page.

        Args:
            address: Of a server or a file. Whatever else is asked for is a problem.
            options: Of the browser's page.
        """
        start = address.partition("#")[0]
        is_file = start.startswith("file:")
        page = self.browser.new_page(**({"viewport": LAPTOP} | options))
        page.set_default_timeout(30_000)
        page.add_init_script(_NOTE_VIOLATIONS)

        def note_request(request: Request) -> None:
            url = request.url.partition("#")[0]
            if url != start and (is_file or not url.startswith(start)):
                self.problems.append(f"asked for {request.url}")

        def note_message(message: ConsoleMessage) -> None:
            self.problems.append(f"console: {message.type} {message.text}")

        page.on("request", note_request)
        page.on("console", note_message)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        page.on("popup", lambda other: self.problems.append(f"popup: {other.url}"))
        self._opened.append(page)
        page.goto(address)
        page.wait_for_selector("h2")
        return page

    def end(self) -> None:
        """Close all pages; fail if one did something that it must not."""
        for page in self._opened:
            self.problems += page.evaluate("window.violations")
            page.close()
        assert self.problems == []


@contextmanager
def looker(browser: Browser) -> Iterator[Looker]:
    looking = Looker(browser)
    yield looking
    looking.end()


def go_to(page: Page, screen: str) -> None:
    """Go to a screen by the key of its tab."""
    names = page.locator("nav a").evaluate_all("all => all.map((one) => one.dataset.screen)")
    page.keyboard.press(str(names.index(screen) + 1))
    page.wait_for_selector(f"nav a[data-screen={screen}][aria-current=page]")
    page.wait_for_selector(f"main.on-{screen} h2, .on-{screen} h2")


def longest_task(page: Page) -> float:
    """The longest time, in ms, in which the page could not answer its reader; below 50 none is noted."""
    return float(page.evaluate("() => new Promise((tell) => setTimeout(() => tell(window.longest), 100))"))


def check_names(page: Page) -> None:
    """All that a screen reader says has a name, headings have an order, words a contrast."""
    assert page.evaluate(_NAMELESS) == []
    assert page.evaluate(_DOUBLE_IDS) == []
    levels = page.evaluate(_HEADINGS)
    assert levels[:2] == [1, 2]
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
    assert page.evaluate(_FAINT) == []


def check_layout(page: Page) -> None:
    """Nothing is wider than the window."""
    width = page.evaluate("innerWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def tab_through(page: Page) -> int:
    """Go through a page with the Tab key until its end; each stop can be seen. Gives their number."""
    page.locator(".skip").focus()
    page.keyboard.press("Tab")
    stops, found = 0, page.evaluate(_FOCUS)
    while found is not None and stops < _MOST_STOPS:
        assert found[1], f"no focus to see: {found[2]}"
        stops += 1
        page.keyboard.press("Tab")
        found = page.evaluate(_FOCUS)
    assert stops < _MOST_STOPS, "the keyboard is trapped, or the page has no end"
    return stops
