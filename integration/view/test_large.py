"""Large things in a real browser: what it takes, printed (``pytest -s``) and kept below generous bounds."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from cortex_replay import Answer, Store
from cortex_replay.store.fixture import TimedChunk
from cortex_replay.types import LlmMessage, StreamChunk
from integration.view.looking import Looker, longest_task
from integration.view.project import Project
from tests.servers.browser import needs_browser
from tests.view.conversations import STORY, write_store
from tests.view.stores import fixture_of

pytestmark = needs_browser
RECORDINGS, TURNS, EVENTS, ANSWER, CHANGES = 10_000, 500, 20_000, 5_000_000, 500
LONGEST_TASK_MS = 3000
"""Of a machine with other work to do; where it has none, a tenth of that."""
FIRST_ITEM_MS = 5000


def tell(what: str, figure: float, unit: str) -> None:
    sys.stdout.write(f"{what}: {figure:,.0f} {unit}\n")


def test_a_task_that_is_too_long_is_noticed(tmp_path: Path, look: Looker) -> None:
    project = Project.create(tmp_path / "one")
    store = Store.create(project.folder / "llm")
    store.add(fixture_of("One?"))
    store.commit()
    page = look.open(project.export())
    busy = f"const begun = performance.now(); while (performance.now() - begun < {LONGEST_TASK_MS});"
    page.evaluate(f"setTimeout(() => {{ {busy} }})")
    assert longest_task(page) >= LONGEST_TASK_MS


def test_ten_thousand_recordings_are_searched_while_typing(tmp_path: Path, look: Looker) -> None:
    project = Project.create(tmp_path / "many")
    store = Store.create(project.folder / "llm")
    for number in range(RECORDINGS):
        store.add(fixture_of(f"Question {number}: where is parcel {number * 7919 % RECORDINGS}?"))
    store.commit()
    with project.serve() as address:
        page = look.open(address)
        expect(page.locator(".count")).to_have_text(f"{RECORDINGS:,} recordings", timeout=60_000)
        page.keyboard.press("/")
        page.evaluate("window.longest = 0")
        page.keyboard.type("parcel 7919?")
        expect(page.locator(".count")).to_have_text(f"1 of {RECORDINGS:,} recordings", timeout=30_000)
        longest = longest_task(page)
    tell("search in 10,000 recordings, longest task", longest, "ms")
    assert longest < LONGEST_TASK_MS


def test_500_turns_an_answer_of_5_mb_and_20_000_events_stay_fluid(tmp_path: Path, look: Looker) -> None:
    project = Project.create(tmp_path / "long")
    word = "lamp "
    events = tuple(TimedChunk(at, StreamChunk(word)) for at in range(EVENTS))
    events += (TimedChunk(EVENTS, StreamChunk("", "stop")),)
    turns = [([LlmMessage("user", f"Turn {number}")], Answer(f"Answer {number}")) for number in range(TURNS)]
    turns[0] = (turns[0][0], Answer(word * EVENTS, finish_reason="stop", stream=events))
    turns[-1] = (turns[-1][0], Answer("x" * 79 + "\n" + ("a line of words " * 5 + "\n") * (ANSWER // 81)))
    shutil.rmtree(project.folder / "llm", ignore_errors=True)
    write_store(project.folder / "llm", turns)
    with project.serve() as address:
        page = look.open(f"{address}#/conversation/{STORY}")
        expect(page.locator(".step")).to_have_count(TURNS, timeout=60_000)
        tell("500 turns, longest task", longest_task(page), "ms")
        first = page.locator("#step-1")
        first.locator("details.streamed > summary").click()
        first.locator(".bars").wait_for()
        page.keyboard.press("p")
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        expect(page.locator(f"#step-{TURNS} .reply .text").first).to_contain_text("a line of words")
        longest = longest_task(page)
    tell("with the stream and the long answer, longest task", longest, "ms")
    assert longest < LONGEST_TASK_MS


@pytest.mark.parametrize("number", [CHANGES])
def test_a_change_of_500_recordings_is_a_small_page_that_opens_at_once(
    tmp_path: Path, look: Looker, number: int
) -> None:
    project = Project.create(tmp_path / "changed")
    chance = random.Random(23)
    words = ["".join(chance.choices("abcdefghijklmnoprstuvw", k=7)) for _ in range(4000)]
    for message in ("before", "after"):
        shutil.rmtree(project.folder / "llm", ignore_errors=True)
        store = Store.create(project.folder / "llm")
        for at in range(number):
            reason = "length" if message == "after" and at % 3 == 0 else "stop"
            text = " ".join(chance.choices(words, k=500))
            store.add(fixture_of(f"Question {at}", Answer(text, finish_reason=reason)))
        store.commit()
        if message == "before":
            project.commit(message)
    project.run("diff", "main", "--format", "html", "--output", "change.html")
    file = project.folder / "change.html"
    tell("a page of 500 changes", file.stat().st_size / 1000, "kB")
    assert file.stat().st_size < 1_000_000

    page = look.open(file.as_uri())
    page.locator("article.change").first.wait_for()
    shown = page.evaluate("performance.now()")
    tell("its first change", shown, "ms")
    assert shown < FIRST_ITEM_MS
    assert page.locator("nav").count() == 0
    expect(page.locator(".counts")).to_contain_text("may break code")
