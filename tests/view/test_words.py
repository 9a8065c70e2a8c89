"""Texts compared word by word in the page."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from cortex_replay.view.bundle import asset
from tests.servers.browser import chromium, needs_browser

pytestmark = needs_browser
_COMPARE = "async (pairs) => Promise.all(pairs.map(([before, after]) => comparePieces(before, after)))"
_WORDS = [
    "a",
    "b",
    "the",
    " ",
    " ",
    "\n",
    ".",
    "\U0001f600",
    "\U0001f601",
    "\u65e5\u672c",
    "word",
    "x1",
    "\u0301",
]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser:
        opened = browser.new_page()
        script = asset("words.js").replace("export ", "")
        opened.add_script_tag(
            content=f"{script}\nObject.assign(globalThis, {{ comparePieces, alignLists }});"
        )
        yield opened


def _random_pair(chance: random.Random, length: int) -> list[str]:
    before = chance.choices(_WORDS, k=length)
    after = list(before)
    for _ in range(chance.randrange(6)):
        at = chance.randrange(len(after) + 1)
        after[at : at + chance.randrange(4)] = chance.choices(_WORDS, k=chance.randrange(3))
    return ["".join(before), "".join(after if chance.random() < 0.7 else chance.choices(_WORDS, k=length))]


def test_the_pieces_are_the_texts(page: Page) -> None:
    """Neither side loses a character, whatever stands in it, and none is cut in two."""
    chance = random.Random(23)
    pairs = [_random_pair(chance, chance.randrange(80)) for _ in range(300)]
    pairs += [_random_pair(chance, 20_000) for _ in range(4)]

    for (before, after), pieces in zip(pairs, page.evaluate(_COMPARE, pairs), strict=True):
        assert "".join(text for kind, text in pieces if kind != "added") == before
        assert "".join(text for kind, text in pieces if kind != "removed") == after
        assert not any("\ud800" <= letter <= "\udfff" for _, text in pieces for letter in text)


@pytest.mark.parametrize(
    ("before", "after", "pieces"),
    [
        # Two halves make such a character: these pairs share the first, and the second.
        ("\U0001f600", "\U0001f601", [["removed", "\U0001f600"], ["added", "\U0001f601"]]),
        ("\U0001f600", "\U0001fa00", [["removed", "\U0001f600"], ["added", "\U0001fa00"]]),
        (
            "x" * 300 + "\U0001f600",
            "x" * 300 + "\U0001f601",
            [["same", "x" * 300], ["removed", "\U0001f600"], ["added", "\U0001f601"]],
        ),
        ("", "", []),
        ("same", "same", [["same", "same"]]),
        ("", "new", [["added", "new"]]),
        (
            "The cat sat on the mat.",
            "The dog sat on a mat.",
            [
                ["same", "The "],
                ["removed", "cat"],
                ["added", "dog"],
                ["same", " sat on "],
                ["removed", "the"],
                ["added", "a"],
                ["same", " mat."],
            ],
        ),
        (
            "count 1042 now",
            "count 1043 now",
            [["same", "count "], ["removed", "1042"], ["added", "1043"], ["same", " now"]],
        ),
        (
            "\u6771\u4eac\u3078",
            "\u4eac\u90fd\u3078",
            [["removed", "\u6771"], ["same", "\u4eac"], ["added", "\u90fd"], ["same", "\u3078"]],
        ),
    ],
)
def test_words_are_the_unit(page: Page, before: str, after: str, pieces: list[list[str]]) -> None:
    assert page.evaluate(_COMPARE, [[before, after]]) == [pieces]


def test_another_text_is_replaced_rather_than_shredded(page: Page) -> None:
    before, after = (
        "It will rain in Lisbon all day today",
        "Nobody has asked me about parcels or orders since",
    )

    (pieces,) = page.evaluate(_COMPARE, [[before, after]])

    assert pieces == [["removed", before], ["added", after]]


def test_lists_are_aligned(page: Page) -> None:
    aligned = page.evaluate("() => alignLists(['a', 'b', 'c'], ['a', 'c', 'd'])")

    assert aligned == [["same", 0, 0], ["removed", 1, -1], ["same", 2, 1], ["added", -1, 2]]


def test_two_texts_of_5_mb_leave_the_page_usable(page: Page) -> None:
    """Work is done in slices: the page gets turns, and two words are found in 60,000 lines."""
    pieces, turns = page.evaluate("""async () => {
      const lines = Array.from({ length: 60000 }, (_, at) => `line ${at} ${"with some words ".repeat(5)}`);
      const before = lines.join("\\n");
      const after = before.replace("line 400 ", "line CHANGED ").replace("line 59000 ", "line also here ");
      let turns = 0;
      const watch = setInterval(() => turns++, 1);
      const pieces = await comparePieces(before, after);
      clearInterval(watch);
      return [pieces.filter(([kind]) => kind !== "same"), turns];
    }""")

    assert pieces == [["removed", "400"], ["added", "CHANGED"], ["removed", "59000"], ["added", "also here"]]
    assert turns > 3
