"""A model, a client and a repository that want to be more than text, on every screen and in a review."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from cortex_replay.types import LlmRequest, LlmResponse, ToolCall
from integration.view.looking import PHONE, Looker, check_layout, go_to, longest_task
from integration.view.project import Project
from integration.view.upstream import last_text, reply
from tests.servers.browser import needs_browser

pytestmark = needs_browser
OWNED = "window.owned = true"
MARKUP = (
    f'</script></style></textarea><script>{OWNED}</script><img src="x" onerror="{OWNED}">'
    f'<svg onload="{OWNED}"><a href="javascript:{OWNED}">x</a> javascript:{OWNED} '
    f"[x](javascript:{OWNED}) ${{{OWNED}}}"
)
SIGNS = "\x1b[31mred\x1b]0;owned\x07 \u202ebidi\u2066 zero\u200bwidth"
HOSTILE = f"{MARKUP} {SIGNS}"
KEYS: Any = {"__proto__": {"owned": True}, "constructor": {"prototype": {"owned": True}}, "toString": MARKUP}
DEEP = "[" * 100_000
LARGE = 10_000_000
SUITE = f"""
import openai, pytest
pytestmark = pytest.mark.llm_replay
TOOLS = [{{"type": "function", "function": {{"name": name, "parameters": {{"type": "object"}}}}}}
         for name in ("__proto__", "constructor")]

def ask(question, model="gpt-6-luna", stream=False, **more):
    client = openai.OpenAI(max_retries=0)
    said = client.chat.completions.create(
        model=model, messages=[{{"role": "user", "content": question}}], stream=stream, **more)
    if stream:
        list(said)

@pytest.mark.parametrize("name", ["a/b%2f..%2fc", "#/store", "__proto__", {MARKUP!r}, "..", "%"])
def test_name(name):
    ask("name " + name)

def test_words():
    ask({MARKUP!r} + " words")
    ask({MARKUP!r} + " streamed", stream=True)

def test_tools():
    ask("tools", tools=TOOLS)
    ask("tools, streamed", tools=TOOLS, stream=True)

@pytest.mark.parametrize("model", ["__proto__", "constructor", {MARKUP!r}])
def test_model(model):
    ask("model", model)

def test_end():
    ask("end")

def test_lone_surrogate():
    ask("lone")

def test_deep():
    ask("deep")

def test_large():
    ask("large")
"""


def hostile_model(said: str) -> Callable[[LlmRequest], LlmResponse]:
    """A model whose answers have something of their own in them."""

    def speak(request: LlmRequest) -> LlmResponse:
        match last_text(request).split(" ")[0].rstrip(","):
            case "tools":
                names = ["__proto__", "constructor", MARKUP[:60]]
                calls = [
                    ToolCall(id=f"c{at}", name=name, arguments=KEYS | {"n": said})
                    for at, name in enumerate(names)
                ]
                return reply(request, f"{HOSTILE} {said}", *calls)
            case "end":
                return reply(request, said, reason="constructor" if said == "one" else "__proto__")
            case "lone":  # no JSON text may have it, so it is recorded as a failure
                return reply(request, f"{MARKUP} \ud800 {said}")
            case "deep":
                return reply(request, f"{DEEP} {said}")
            case "large":
                line = f"{HOSTILE} {said}\n"
                return reply(request, line * (LARGE // len(line)))
            case _:
                return reply(request, f"{HOSTILE} {said}")

    return speak


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project.create(tmp_path_factory.mktemp("hostile") / "project")
    (project.folder / "test_hostile.py").write_text(SUITE, encoding="utf-8")
    (project.folder / ".gitignore").write_text("/*.html\n/*.json\n")
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_hostile.py"]
    project.record(hostile_model("one"), suite)
    project.commit("One")
    project.record(hostile_model("two"), suite)
    project.run("replay", "--store", "llm", "--report", "run.json", "--", *suite, "-k", "name or model")
    return project


def check_text(page: Page) -> None:
    """Nothing of it ran, and nothing of it is more than text."""
    assert page.evaluate("window.owned ?? ({}).owned ?? null") is None
    assert (
        page.locator("img, svg, iframe, object, embed, form[action], base, main script, main style").count()
        == 0
    )
    odd = """all => all.flatMap((one) => [...one.attributes])
        .filter(({ name, value }) => name.startsWith("on") || name === "style" && /url|expression/.test(value)
            || ["href", "src", "action"].includes(name) && !value.startsWith("#/") && value !== "#main")
        .map(({ name, value }) => `${name}=${value}`)"""
    assert page.locator("#page *").evaluate_all(odd) == []
    text = page.evaluate("document.querySelector('main').textContent")
    assert not {*"\x1b\x07\u202e\u2066\u200b"} & {*text}


@pytest.mark.parametrize("kind", ["served", "file"])
def test_every_screen_shows_it_as_text(hostile: Project, look: Looker, kind: str) -> None:
    options = ["--base", "main", "--report", str(hostile.folder / "run.json")]
    if kind == "file":
        walk_through(look, hostile.export(*options, "--all"))
        return
    with hostile.serve(*options) as address:
        walk_through(look, address)


def walk_through(look: Looker, address: str) -> None:
    page = look.open(address, viewport=PHONE)
    for screen in ("change", "run", "store"):
        go_to(page, screen)
        if screen == "change":
            page.locator("article.change").first.wait_for()
            page.keyboard.press("e")
            page.locator("table.compared").first.wait_for()
        if screen == "store":
            page.locator("a.line").first.wait_for()
            page.get_by_role("button", name="Show all").first.click()
        check_text(page)
        check_layout(page)
    links = page.locator("main table a").evaluate_all("all => all.map((one) => [one.hash, one.textContent])")
    assert any("a/b%2f..%2fc" in name for _, name in links)
    for link, name in links:
        page.goto(f"{address}{link}")
        page.locator(".step .reply").first.wait_for()
        shown = page.locator("h2").inner_text()
        assert "::" not in name or shown.startswith("test_hostile.py::"), shown
        page.locator(".step").first.focus()
        page.keyboard.press("Enter")
        page.locator(".step details").first.wait_for()
        check_text(page)
        check_layout(page)
    assert page.get_by_text("<script>").count() + page.get_by_text("two").count() > 0

    # It is still a page that can be used.
    go_to(page, "store")
    page.keyboard.press("/")
    page.keyboard.type("<script>")
    expect(page.locator("li.row mark").first).to_have_text("<script>")
    assert longest_task(page) < 5000


def test_a_review_shows_it_as_text(hostile: Project, look: Looker) -> None:
    comment = hostile.run("diff", "main", "--format", "markdown", "--all")
    assert not {*"\x1b\x07\u202e\u2066\u200b"} & {*comment}
    assert len(comment.encode()) < 60_000

    hostile.run("diff", "main", "--format", "html", "--output", "change.html")
    page = look.open((hostile.folder / "change.html").as_uri(), viewport=PHONE)
    page.keyboard.press("e")
    page.locator("table.compared").first.wait_for()
    check_text(page)
    check_layout(page)
    assert Path(hostile.folder / "change.html").stat().st_size < 1_000_000
    text = hostile.run("diff", "main")
    assert not {*"\x1b\x07\u202e\u2066\u200b"} & {*text}
