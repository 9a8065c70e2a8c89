"""The page as one file."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

from cortex_replay.view.bundle import STYLES, asset, modules
from cortex_replay.view.page import file_page, served_page
from tests.servers.browser import chromium, needs_browser

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u202e"
)
_STATEMENT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_KNOWN = re.compile(
    r"""import \{[^}]*\} from "\./\w+\.js";|export (?:async )?(?:function\*?|const|class) \w+.*"""
)


def test_modules_use_no_import_and_no_export_that_a_file_would_lose() -> None:
    assert [
        statement
        for module in modules()
        for statement in _STATEMENT.findall(asset(module))
        if not _KNOWN.fullmatch(statement)
    ] == []


def test_both_pages_allow_their_own_scripts_and_nothing_else() -> None:
    """A text that became markup by a mistake of ours could then neither run nor send anything."""
    for page, own in ((served_page("t"), "'self'"), ("".join(file_page("t", [])), r"'sha256-[\w+/]{43}='")):
        found = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
        assert found is not None
        assert page.index(found[0]) < min(page.index("<script"), page.index("<title"))
        policy = dict(rule.split(" ", 1) for rule in found[1].split("; "))
        scripts, styles = policy.pop("script-src"), policy.pop("style-src")
        assert re.fullmatch(own, scripts)
        assert re.fullmatch(own, styles)
        assert policy.pop("connect-src", "'self'") == "'self'"
        assert policy == {
            "default-src": "'none'",
            "base-uri": "'none'",
            "form-action": "'none'",
            "require-trusted-types-for": "'script'",
            "trusted-types": "'none'",
        }
    assert "connect-src" not in "".join(file_page("t", [])), "a file asks nobody"


def test_all_that_ships_of_the_page_is_small() -> None:
    sizes = {name: len(asset(name).encode()) for name in (*modules(), *STYLES)}

    assert sum(sizes.values()) < 300_000, sizes


def test_no_style_of_one_screen_reaches_another() -> None:
    """A rule that begins with a class concerns every element with that class, whatever screen it is on."""
    screens = [name for name in STYLES if name != "page.css"]
    found = {name: _classes(asset(name)) for name in screens}

    assert {
        (one, other, shared)
        for one, other in permutations(screens, 2)
        for shared in found[one][0] & found[other][1]
    } == set()
    assert _classes("a.x > .y, @media (z) { .z b { c: d }")[0] == {"x", "z"}


def _classes(text: str) -> tuple[set[str], set[str]]:
    """The classes that rules begin with, and all of which there are rules."""
    rules = re.findall(r"([^{};]+)\{", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
    selectors = [selector for rule in rules for selector in rule.split(",")]
    first = {begin[1] for one in selectors if (begin := re.match(r"\s*[a-z0-9]*\.([\w-]+)", one))}
    return first, {name for one in selectors for name in re.findall(r"\.([A-Za-z][\w-]*)", one)}


@needs_browser
def test_what_was_recorded_is_text_to_a_browser(tmp_path: Path) -> None:
    page = {"title": HOSTILE, "version": "0", "made_at": "", "screens": [], "is_file": True}
    file = tmp_path / "page.html"
    file.write_text("".join(file_page("Recordings", [("page", page)])))
    with chromium() as browser:
        shown = browser.new_page()
        shown.goto(file.as_uri())
        shown.wait_for_selector("h1")

        assert shown.title() == HOSTILE
        assert shown.locator("img").count() == 0
        assert "\u202e" not in shown.locator("h1").inner_text()
