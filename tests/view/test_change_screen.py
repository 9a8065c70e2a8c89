"""The Change screen, in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from cortex_replay.view.change_page import MOST_BYTES, change_page
from cortex_replay.view.page import file_page
from cortex_replay.view.shapes import ChangeDocument
from tests.servers.browser import chromium, needs_browser
from tests.view.changes import answer, call, change, difference, item, large_change, sample_change

Show = Callable[[ChangeDocument], Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("large") / "change.html"
    file.write_text("".join(change_page(large_change(500), "0")))
    return file


def test_500_changes_are_one_page_below_1_mb(large_page: Path) -> None:
    assert large_page.stat().st_size < MOST_BYTES


@needs_browser
def test_500_changes_open_within_a_second(browser: Browser, large_page: Path) -> None:
    """Counted is the time that the page itself takes, from navigation until the first change can be seen: a
    machine with other work to do is no fault of it."""
    page = browser.new_page()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    page.goto(large_page.as_uri(), wait_until="commit")
    page.locator("article.change").first.wait_for()
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    page.close()

    assert metrics["TaskDuration"] < 1


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Open a change in a page, which must say no error."""
    shown = browser.new_page()
    problems: list[str] = []
    shown.on("console", lambda message: problems.append(message.text))
    shown.on("pageerror", lambda error: problems.append(str(error)))

    def open_page(document: ChangeDocument) -> Page:
        file = tmp_path / "change.html"
        file.write_text("".join(change_page(document, "0")))
        shown.goto(file.as_uri())
        shown.wait_for_selector("h2")
        return shown

    yield open_page
    shown.close()
    assert problems == []


@needs_browser
def test_what_a_reviewer_must_see_stands_first(show: Show) -> None:
    page = show(sample_change())

    titles = page.locator("article.change h4").all_inner_texts()
    assert titles[:3] == [
        "Refund order 1042, please",
        "Classify this ticket as JSON",
        "Where is my parcel? (+2 messages)",
    ]
    assert page.locator(".counts").inner_text().split("\n") == [
        "2 may break code",
        "4 act differently",
        "2 only reworded",
        "1 added",
        "1 removed",
    ]
    first = page.locator("article.change").first
    assert first.locator(".differences li").all_inner_texts() == [
        "find_order is no longer called",
        "issue_refund is called, and was not before",
        "finish reason: tool_use became length",
    ]
    second = page.locator("[data-item=triage] .differences li")
    assert second.all_inner_texts() == [
        'the output breaks its schema: priority is a text: 2 → "high"',
        'acts differently tags: 2 items became 1: ["late","angry"] → ["late"]',
    ]
    assert first.locator(".differences del, .differences ins").all_inner_texts() == ["tool_use", "length"]
    assert page.locator("details.fold-section").get_attribute("open") is None
    assert page.locator("details.fold-section summary").inner_text() == "2 recordings only reworded"


@needs_browser
def test_both_sides_mark_what_differs_and_nothing_else(show: Show) -> None:
    page = show(sample_change())
    page.get_by_role("button", name="Expand all").click()

    words = page.locator("[data-item=hello]")
    assert words.locator("del").all_inner_texts() == ["Hello"]
    assert words.locator("ins").all_inner_texts() == ["Hi", " you today"]
    fields = page.locator("[data-item=triage] table", has_text="priority").first
    assert fields.locator("tr.differs").all_inner_texts() == [
        '  "priority": 2,\t  "priority": "high",',
        '    "angry"\t',
    ]
    road = page.locator("[data-item=road] table")
    assert road.locator("tr.differs").all_inner_texts() == ["\t2. issue_refund"]
    assert road.locator("tr").last.inner_text() == "3. answers\t4. answers"
    assert page.locator("[data-item=gone] th").all_text_contents() == ["Before"]
    page.get_by_role("button", name="Collapse all").click()
    page.locator("details[open]").first.wait_for(state="detached")


@needs_browser
def test_a_sentence_marks_both_values_or_none(show: Show) -> None:
    long = "weather " * 40
    cut = f'q: "rain" became "{long[:60]}…"'
    told = [
        difference("behaviour", "argument", cut, "rain", long),
        difference("behaviour", "argument", 'n: "1" became "12"', "1", "12"),
        difference("behaviour", "argument", 'city is new: "Rome"', None, "Rome"),
        difference("behaviour", "argument", 'amount: "39.00" is not of type "number"', 39, "39.00"),
    ]

    lines = show(change(item("a", "behaviour", differences=told))).locator(".differences > li")

    assert [line.locator(".sentence :is(del, ins)").all_inner_texts() for line in lines.all()] == [
        [],
        ['"1"', '"12"'],
        ['"Rome"'],
        [],
    ]
    assert lines.last.inner_text() == 'amount: "39.00" is not of type "number": 39 → "39.00"'
    assert lines.first.locator("table :is(del, ins)").all_inner_texts() == ["rain", long]


@needs_browser
def test_an_output_that_breaks_its_schema_is_compared_with_the_one_that_kept_it(show: Show) -> None:
    before, after = answer('{"n": 2}', parsed={"n": 2}), answer('{"n": "two"}')
    page = show(change(item("a", "contract", before=[before], after=[after])))
    page.get_by_role("button", name="Expand all").click()

    table = page.locator("[data-item=a] table")
    assert table.get_attribute("aria-label") == "Structured output"
    assert table.locator("tr.differs").all_inner_texts() == ['  "n": 2\t  "n": "two"']


@needs_browser
def test_what_is_left_out_is_counted_where_it_belongs(show: Show) -> None:
    document = change(*(item(f"item-{at}", "words" if at < 5 else "same") for at in range(9)))
    document["items"] = document["items"][:2]
    document["left_out"] = 7

    page = show(document)
    page.locator("details.fold-section summary").click()

    section = page.locator("details.fold-section")
    assert section.locator("h3").all_inner_texts() == ["5 recordings only reworded"]
    assert section.locator("p").all_inner_texts() == ["and 3 more that this page leaves out"]
    assert page.get_by_text("4 more recordings with nothing to compare").count() == 1


@needs_browser
def test_keys_lead_from_change_to_change(show: Show) -> None:
    page = show(sample_change())

    def current() -> str | None:
        return page.locator(":focus").text_content()

    page.keyboard.press("n")
    assert current() == "Refund order 1042, please"
    page.keyboard.press("n")
    assert current() == "Classify this ticket as JSON"
    page.keyboard.press("p")
    assert current() == "Refund order 1042, please"
    page.keyboard.press("Enter")
    page.locator("[data-item=refund] table").first.wait_for()
    page.keyboard.press("x")
    assert page.get_by_role("checkbox", name="reviewed: Refund order 1042, please").is_checked()
    assert page.locator(".progress").inner_text() == "1 of 6 reviewed"
    page.reload()
    page.wait_for_selector("article.change")
    assert page.locator(".progress").inner_text() == "1 of 6 reviewed"
    assert page.locator("[data-item=refund] input").is_checked()
    page.keyboard.press("e")
    page.locator("[data-item=hello] table").wait_for()
    page.keyboard.press("c")
    page.locator("[data-item=hello] table").wait_for(state="hidden")


@needs_browser
def test_a_tick_is_for_what_was_looked_at(show: Show) -> None:
    page = show(sample_change())
    page.locator("[data-item=search] input").check()
    other = sample_change()
    other["items"][2]["after"][0]["tool_calls"][0]["arguments"]["limit"] = 6

    show(other)

    assert page.locator(".progress").inner_text() == "0 of 6 reviewed"


@needs_browser
def test_an_address_leads_to_one_change(show: Show) -> None:
    page = show(large_change(60))

    page.evaluate("location.hash = '#/change/item-57'")

    page.locator("[data-item=item-57] h4:focus").wait_for()


@needs_browser
def test_what_was_recorded_is_text(show: Show) -> None:
    hostile = "</table><img src=x onerror=alert(1)><script>alert(1)</script>\u202e\x1b[31m"
    one = {
        "title": hostile,
        "who": hostile,
        "why": hostile,
        "scopes": [hostile],
        "differences": [difference("behaviour", hostile, hostile, {hostile: hostile * 9}, [hostile])],
        "before": [answer(hostile, reasoning=hostile, tool_calls=[call(hostile, **{hostile: hostile})])],
        "after": [answer(f"{hostile} and", parsed={"__proto__": hostile})],
    }
    items = item(hostile, "contract", **one), item("b", "words", **one)
    page = show(change(*items, base=hostile, head=hostile))
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.get_by_role("button", name="Expand all").click()
    page.locator("[data-item=b] table").last.wait_for()

    assert page.locator("img").count() == 0
    assert page.locator("#page script").count() == 0
    shown = page.locator("main").text_content() or ""
    assert "\u202e" not in shown
    assert "⟨202E⟩␛[31m" in shown
    assert '"__proto__"' in shown


@needs_browser
def test_a_phone_has_both_sides_below_each_other(show: Show) -> None:
    page = show(sample_change())
    page.get_by_role("button", name="Expand all").click()
    page.set_viewport_size({"width": 360, "height": 780})
    row = page.locator("[data-item=refund] tr.differs").first
    row.wait_for()

    old, new = (row.locator(side).bounding_box() for side in ("td.old", "td.new"))

    assert old is not None
    assert new is not None
    assert new["y"] >= old["y"] + old["height"]
    assert page.evaluate("document.documentElement.scrollWidth") == 360


@needs_browser
def test_a_change_leads_to_the_conversation(browser: Browser, tmp_path: Path) -> None:
    """Where the page has it; and an address opens what is folded."""
    scope = "tests/test_agent.py::test_refund"
    run = {"id": "t-1", "name": scope}
    store = {"runs": [], "tests": [run]}
    page = {
        "title": "x",
        "version": "",
        "made_at": "",
        "screens": ["change", "store", "conversation"],
        "is_file": True,
    }
    file = tmp_path / "page.html"
    file.write_text("".join(file_page("x", [("page", page), ("change", sample_change()), ("store", store)])))
    shown = browser.new_page()
    shown.goto(f"{file.as_uri()}#/change/hello")

    shown.locator("[data-item=hello] > summary:focus").wait_for()
    link = shown.locator("[data-item=refund] a.scope")

    assert link.get_attribute("href") == "#/conversation/t-1"
    assert link.text_content() == scope
    assert shown.locator("[data-item=search] a").count() == 0
    shown.close()
