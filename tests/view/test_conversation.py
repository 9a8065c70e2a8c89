"""The screen of conversations, in a browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from cortex_replay.canonical import JsonValue
from cortex_replay.store import Answer, Fixture, Store
from cortex_replay.types import LlmMessage, LlmRequest, ToolCall
from tests.engine.mcp import scenario
from tests.servers.browser import chromium, needs_browser
from tests.view.conversations import STORY, documents_of, streamed, write_page, write_store
from tests.view.stores import MODEL, RUN, make_store

pytestmark = needs_browser

FIND = ToolCall(id="call_1", name="find_order", arguments={"order": "A-1042", "why": "It broke.\nSoon."})
HOSTILE = "</div><img src=x onerror=\"document.title='owned'\">\u202ereverse\x1b[31m"
SYSTEM = "You are a careful agent. " * 60


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a model and an MCP server."""
    made = tmp_path_factory.mktemp("agent")
    asyncio.run(scenario.record(made))
    return made


@pytest.fixture(scope="module")
def browser(agent: Path) -> Iterator[Browser]:  # which is made first: a browser has a loop running
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def shop(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """An agent that calls a tool, fails, refuses, and streams; opened once for the tests that look at it."""
    root = tmp_path_factory.mktemp("shop")
    answers = [
        (
            [LlmMessage("user", f"Where is my order? {HOSTILE}")],
            streamed("Let me look.", "Orders are in the table.", [FIND], "tool_calls"),
        ),
        (
            [LlmMessage("tool", '{"state": "lost"}', tool_call_id="call_1", is_error=True)],
            streamed("It is lost."),
        ),
        ([LlmMessage("user", "Whose fault is that?")], Answer("I cannot say.", finish_reason="refusal")),
    ]
    write_store(root, answers, SYSTEM, failed=[1])
    address = write_page(root / "page.html", documents_of(root))
    page = browser.new_page(viewport={"width": 1280, "height": 2400})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: errors.append(request.url) if request.url.startswith("http") else None)
    page.goto(f"{address}#/conversation/{STORY}")
    expect(page.locator("#step-3 .reply")).to_be_visible()
    yield page
    assert errors == []
    assert page.title() != "owned"


def test_only_what_is_new_is_shown_and_the_rest_is_a_click_away(shop: Page) -> None:
    last = shop.locator("#step-3")

    expect(last.locator(".message.user")).to_have_count(1)
    expect(last.locator(".message.user")).to_contain_text("Whose fault is that?")
    before = last.locator("details", has_text="4 messages before").first
    before.locator("summary").first.click()
    expect(before.locator(".before .message")).to_have_count(4)
    expect(before.locator(".before .message").first).to_contain_text("Where is my order?")


def test_a_long_system_prompt_is_folded_and_stands_once(shop: Page) -> None:
    system = shop.locator("details.system")

    expect(system).to_have_count(1)
    expect(system.locator(".text")).to_have_count(0)
    system.locator("summary").click()
    expect(system.locator(".text")).to_contain_text("You are a careful agent.")


def test_a_tool_call_stands_beside_its_result(shop: Page) -> None:
    card = shop.locator("#step-1 .toolcard")

    expect(card.locator(".side").first).to_contain_text("find_order")
    expect(card.locator(".side").first.locator("dd").nth(1)).to_have_text("It broke.\nSoon.")
    expect(card.locator(".result")).to_contain_text('{"state": "lost"}')
    expect(card.locator(".result .bad")).to_have_text("error")
    left, right = (card.locator(".side").nth(at).bounding_box() for at in (0, 1))
    assert left is not None
    assert right is not None
    assert abs(left["y"] - right["y"]) < 2
    assert left["x"] + left["width"] <= right["x"] + 1
    expect(shop.locator("#step-2 .message.tool")).to_have_count(0)


def test_refusals_and_failures_are_plain_to_see(shop: Page) -> None:
    expect(shop.locator("#step-3 header .bad").first).to_have_text("refused: refusal")
    expect(shop.locator("#step-1 .failure")).to_contain_text("Failed with 529")
    expect(shop.locator("#step-1 .failure")).to_contain_text("Overloaded")


def test_what_was_recorded_is_text(shop: Page) -> None:
    words = shop.locator("#step-1 .message.user").inner_text()

    assert "<img src=x" in words
    assert "⟨202E⟩reverse␛[31m" in words
    assert shop.locator("main img").count() == 0


def test_the_key_the_index_line_and_the_bytes_are_there(shop: Page) -> None:
    vouch = shop.locator("#step-2 details.vouch")
    vouch.locator("summary").first.click()
    expect(vouch).to_contain_text('path = "fixtures/')
    vouch.locator("details.raw summary").click()
    expect(vouch.locator("details.raw .text")).to_contain_text('"request_match"')


def test_a_stream_is_scrubbed_by_the_keyboard(shop: Page) -> None:
    stream = shop.locator("#step-1 details.streamed")
    expect(stream.locator("summary")).to_contain_text("first after 400 ms · 5 pieces in 500 ms")
    stream.locator("summary").click()
    expect(stream.locator(".tail")).to_have_text(
        'Orders are in the table.Let me look. find_order{"order": "A-1042", "why": "It broke.\\nSoon."}'
    )
    slider = stream.get_by_role("slider")
    slider.focus()
    slider.press("Home")
    expect(stream.locator(".tail")).to_have_text("")
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    expect(stream.locator(".tail")).to_have_text("Orders are in the table.Let ")
    expect(stream.locator("output")).to_contain_text("420 ms of 500 ms · 2 of 6 events")
    slider.press("ArrowLeft")
    expect(stream.locator(".tail")).to_have_text("Orders are in the table.")
    stream.get_by_role("button", name="Play").click()
    expect(stream.locator("output")).to_contain_text("500 ms of 500 ms")
    expect(stream.get_by_role("button", name="Play")).to_be_visible()


def test_keys_go_from_step_to_step(shop: Page) -> None:
    shop.locator("h2").click()
    for key, step in (("j", 1), ("j", 2), ("j", 3), ("j", 3), ("k", 2)):
        shop.keyboard.press(key)
        expect(shop.locator(f"#step-{step}")).to_be_focused()
        assert shop.url.endswith(f"#/conversation/{STORY}/{step}")
    shop.keyboard.press("Enter")
    expect(shop.locator("#step-2 details.streamed")).to_have_attribute("open", "")
    shop.keyboard.press("Enter")
    expect(shop.locator("#step-2 details.streamed")).not_to_have_attribute("open", "")


def test_every_step_is_an_article_with_a_heading(shop: Page) -> None:
    articles = shop.get_by_role("article")

    assert articles.count() == 3
    assert shop.get_by_role("heading", level=3).count() == 3
    assert articles.first.get_attribute("aria-labelledby") == "step-1-title"


def test_a_copy_is_what_was_recorded(shop: Page) -> None:
    """Also where a page may not ask the clipboard: then what is selected is copied."""
    shop.evaluate("document.addEventListener('copy', () => { window.copied = document.activeElement.value })")
    shop.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    shop.get_by_role("button", name="Copy the answer").nth(2).click()
    shop.wait_for_function("window.copied !== undefined")

    assert shop.evaluate("window.copied") == "I cannot say."


def test_calls_of_servers_stand_with_the_model_that_caused_them(browser: Browser, agent: Path) -> None:
    address = write_page(agent / "page.html", documents_of(agent))
    page = browser.new_page(viewport={"width": 360, "height": 1800}, reduced_motion="reduce")
    page.goto(f"{address}#/conversation")
    page.get_by_role("row", name="3 + 2 MCP").get_by_role("link").last.click()
    read = page.locator("#step-2 .toolcard").first
    expect(read.locator(".result")).to_contain_text("a greeting")
    expect(page.locator("#step-3")).to_contain_text("Called by the model in step 2")
    expect(page.locator("#step-4")).to_contain_text("A server asks this model, in step 3")
    assert page.evaluate("document.documentElement.scrollWidth") == 360

    read.get_by_role("link", name="step 3").click()
    expect(page.locator("#step-3")).to_be_focused()
    page.locator("#step-3 summary", has_text="tools/call").click()
    expect(page.locator("#step-3 .script li")).to_have_count(4)
    page.close()


def test_the_cache_says_where_it_broke(browser: Browser, tmp_path: Path) -> None:
    documents = documents_of(write_store(tmp_path, [([LlmMessage("user", "a")], Answer("b"))]))
    block = {"name": "block 'clock'", "tokens": 10, "place": "system", "state": "written", "mark": ""}
    documents[f"stories/{STORY}"]["steps"][0]["cache"] = {
        "read": 0,
        "written": 4000,
        "tokens": 4010,
        "share": 0.0,
        "is_reported": True,
        "broke_at": "block 'clock'",
        "why": ["block 'clock' changed: 3,990 tokens are paid again"],
        "lost": 3990,
        "blocks": [block, {**block, "name": "turn 1 (user)", "tokens": 4000, "state": "fresh", "mark": "5m"}],
    }
    page = browser.new_page()
    page.goto(f"{write_page(tmp_path / 'page.html', documents)}#/conversation/{STORY}/1")
    expect(page.locator(".broke")).to_contain_text("Block 'clock' changed: 3,990 tokens")
    expect(page.locator(".bar .broken")).to_have_attribute("title", re.compile("^block 'clock': 10 tokens"))
    bars = page.locator(".bar span")
    widths = [box["width"] for at in range(2) if (box := bars.nth(at).bounding_box()) is not None]
    assert widths[1] > 20 * widths[0]
    page.close()


def test_a_system_prompt_that_changed_shows_where(browser: Browser, tmp_path: Path) -> None:
    turns = [([LlmMessage("user", f"Question {n}?")], Answer("Yes.")) for n in range(3)]
    systems = [f"{'Be brief. ' * 50}\nIt is {time} now.\n{'Be kind. ' * 50}" for time in ("9:00", "9:05")]
    address = write_page(tmp_path / "page.html", documents_of(write_store(tmp_path, turns, *systems)))
    page = browser.new_page(viewport={"width": 1000, "height": 1600})
    page.goto(f"{address}#/conversation/{STORY}")
    expect(page.locator("#step-3 .reply")).to_be_visible()

    expect(page.locator(".changed")).to_have_count(1)
    expect(page.locator("#step-2 .changed del .text")).to_have_text("It is 9:00 now.")
    expect(page.locator("#step-2 .changed ins .text")).to_have_text("It is 9:05 now.")
    page.close()


def test_a_conversation_that_goes_back_says_from_where(browser: Browser, tmp_path: Path) -> None:
    ways = [["One?", "Yes.", "Two?"], ["One?", "Yes.", "Three?"]]
    store = Store.create(tmp_path)
    for number, texts in enumerate(ways, start=1):
        messages = [
            LlmMessage(role, text) for role, text in zip(("user", "assistant", "user"), texts, strict=True)
        ]
        meta: dict[str, JsonValue] = {"run": RUN, "asked_at": f"2026-11-16T06:00:0{number}Z"}
        store.add(Fixture.of(LlmRequest(MODEL, "", messages), "So it is.", meta=meta))
    store.commit()
    page = browser.new_page()
    page.goto(f"{write_page(tmp_path / 'page.html', documents_of(tmp_path))}#/conversation/{STORY}/2")
    before = page.locator("#step-2 details", has_text="2 messages before")
    expect(before).to_contain_text("the start of step 1, which went on otherwise")
    before.locator("summary").click()
    expect(before.locator(".before .message")).to_have_text([re.compile("One"), re.compile("Yes")])
    page.close()


def test_one_recording_alone_has_all_its_answers(browser: Browser, tmp_path: Path) -> None:
    documents = documents_of(make_store(tmp_path))
    calls = {name: one for name, one in documents.items() if name.startswith("calls/")}
    (counted,) = (name for name, one in calls.items() if len(one["answers"]) == 3)
    (opaque,) = (name for name, one in calls.items() if one["who"] == "openai")
    page = browser.new_page()
    address = write_page(tmp_path / "page.html", documents)
    page.goto(f"{address}#/conversation/call/{counted.removeprefix('calls/')}")
    expect(page.locator(".reply, .failure")).to_have_text(
        [re.compile("One"), re.compile("429"), re.compile("Two")]
    )
    expect(page.locator("details", has_text="System prompt")).to_contain_text("Be kind.")
    page.goto(f"{address}#/conversation/call/{opaque.removeprefix('calls/')}")
    expect(page.locator(".step")).to_contain_text("fjord")
    page.close()


def test_large_things_come_in_pieces(browser: Browser, tmp_path: Path) -> None:
    """A long answer, and more turns than fit: only what is near is loaded."""
    words = "".join(f"line {number}\n" for number in range(20_000))
    last = 40
    turns = [
        ([LlmMessage("user", "A question?\n" * 30)], Answer(words if n == last else f"Answer {n}."))
        for n in range(1, last + 1)
    ]
    address = write_page(tmp_path / "page.html", documents_of(write_store(tmp_path / "store", turns)))
    page = browser.new_page(viewport={"width": 1000, "height": 600})
    page.goto(f"{address}#/conversation/{STORY}/25")
    expect(page.locator("#step-25 .reply")).to_be_attached()
    page.wait_for_function("document.querySelector('#step-24 .reply') !== null")
    # It stays where it is while what stands above it grows.
    page.wait_for_function(
        "Math.abs(document.querySelector('#step-25').getBoundingClientRect().top - 70) < 40"
    )
    assert 3 <= page.locator(".step .reply").count() < last - 10
    page.goto(f"{address}#/conversation/{STORY}/{last}")
    answer = page.locator(f"#step-{last} .reply > .text")
    expect(answer).to_contain_text("line 0")
    assert len(answer.text_content() or "") < 10_000
    answer.locator(".more").click()
    assert 60_000 < len(answer.text_content() or "") < 80_000
    page.close()


def test_a_prompt_of_many_messages_shows_the_last_ones(browser: Browser, tmp_path: Path) -> None:
    """A call alone may bring a whole history with it."""
    calls = [
        ToolCall(id=f"c{n}", name="look", arguments={f"field {n}": n for n in range(60)}) for n in range(90)
    ]
    messages = [LlmMessage("user", f"Message {n}.") for n in range(1, 101)]
    turns = [(messages, Answer("", tool_calls=tuple(calls)))]
    page = browser.new_page()
    page.goto(
        f"{write_page(tmp_path / 'p.html', documents_of(write_store(tmp_path, turns)))}#/conversation/{STORY}"
    )
    said = page.locator(".message.user")
    expect(said).to_have_count(40)
    expect(said.last).to_contain_text("Message 100.")
    page.get_by_role("button", name="Show 40 of 60 messages before").click()
    expect(said.first).to_contain_text("Message 21.")
    page.get_by_role("button", name="Show 20 messages before").click()
    expect(said).to_have_text([re.compile(f"Message {n}\\.") for n in range(1, 101)])
    expect(page.locator(".toolcard")).to_have_count(40)
    page.get_by_role("button", name="Show 40 of 50 more calls").click()
    expect(page.locator(".toolcard")).to_have_count(80)
    page.locator(".toolcard").first.get_by_role("button", name="Show 20 more fields").click()
    expect(page.locator(".toolcard").first.locator("dt")).to_have_count(60)
    page.close()


def test_thousands_of_steps_are_drawn_when_they_are_asked_for(browser: Browser, tmp_path: Path) -> None:
    documents = documents_of(write_store(tmp_path, [([LlmMessage("user", "a")], Answer("b"))]))
    story = documents[f"stories/{STORY}"]
    story["steps"] = [{**story["steps"][0], "number": number} for number in range(1, 1501)]
    page = browser.new_page()
    address = write_page(tmp_path / "page.html", documents)
    page.goto(f"{address}#/conversation/{STORY}")
    expect(page.locator(".step")).to_have_count(1000)
    page.goto(f"{address}#/conversation/{STORY}/1200")
    expect(page.locator("#step-1200 .reply")).to_be_in_viewport()
    page.get_by_role("button", name="Show more of 1,500 steps").click()
    expect(page.locator(".step")).to_have_count(1500)
    expect(page.get_by_role("button", name="Show more of")).to_have_count(0)
    page.close()
