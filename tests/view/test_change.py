"""A change as a document."""

from __future__ import annotations

import json
import re

from cortex_replay.cli.change_markdown import markdown_of
from cortex_replay.redact.redactor import Redactor
from cortex_replay.view.bundle import asset
from cortex_replay.view.change_page import fit_change
from cortex_replay.view.documents.change import clean_change, shorten_change
from tests.view.changes import answer, call, change, difference, item

SECRET = "correct-horse-battery-staple"


def test_no_secret_reaches_a_document_not_even_half_of_one() -> None:
    text = f"{'x ' * 50}{SECRET}{' y' * 50}"
    one = item(
        "a",
        "contract",
        title=f"is it {SECRET}?",
        why=SECRET,
        scopes=[SECRET],
        differences=[difference("contract", "argument", f"now {SECRET}", SECRET, {SECRET: [SECRET]})],
        before=[answer(text, reasoning=SECRET, parsed={"a": SECRET})],
        after=[answer(text, tool_calls=[call(SECRET, password=SECRET)])],
    )

    made = clean_change(change(one), Redactor([SECRET]), longest=28)

    assert "correct-" not in json.dumps(made)
    assert "staple" not in json.dumps(made)


def test_what_is_the_same_is_left_out_before_what_differs() -> None:
    same = "word " * 1000
    one = item("a", before=[answer(f"{same}left{same}")], after=[answer(f"{same}right{same}")])

    (short,) = shorten_change(change(one), 1000)["items"]

    before, after = short["before"][0], short["after"][0]
    assert "left" in before["text"]
    assert "right" in after["text"]
    assert len(before["text"]) == len(after["text"]) == 1000
    ahead, behind = before["left_out"]
    assert f"{same}left{same}"[ahead : ahead + 1000] == before["text"]
    assert ahead + 1000 + behind == len(f"{same}left{same}")
    assert after["left_out"] == (ahead, behind + 1)


def test_a_text_is_cut_in_front_only_where_both_sides_are_the_same() -> None:
    one = item("a", "words", before=[answer("a" * 9000)], after=[answer("b" * 9000)])

    (short,) = shorten_change(change(one), 100)["items"]

    assert short["before"][0]["left_out"] == (0, 8900)


def test_texts_may_be_shortened_again() -> None:
    same = "word " * 1000
    one = change(item("a", before=[answer(f"{same}left{same}")], after=[answer(f"{same}right{same}")]))

    twice = shorten_change(shorten_change(one, 2000), 500)["items"][0]["before"][0]

    ahead, behind = twice["left_out"]
    assert ahead + len(twice["text"]) + behind == len(f"{same}left{same}")
    assert f"{same}left{same}"[ahead:].startswith(twice["text"])


def test_what_behaves_otherwise_keeps_more() -> None:
    both = {"before": [answer("a" * 9000)], "after": [answer("b" * 9000)]}

    words, contract = shorten_change(change(item("a", "words", **both), item("b", "contract", **both)), 100)[
        "items"
    ]

    assert len(words["after"][0]["text"]) == 100
    assert len(contract["after"][0]["text"]) == 400


def test_values_calls_and_differences_have_an_end() -> None:
    large = {"text": "x" * 5000, "items": list(range(5000))}
    one = item(
        "a",
        differences=[difference("behaviour", "argument", "y" * 5000, large, "z" * 5000)] * 1000,
        before=[answer(parsed=large, tool_calls=[call("search", query="q" * 5000)] * 1000)],
    )

    (short,) = shorten_change(change(one), 300)["items"]

    assert len(json.dumps(short)) < 300_000
    assert short["before"][0]["tool_calls"][-1]["name"] == "… and 950 more calls"
    assert short["differences"][-1]["text"] == "and 800 more differences, none of a higher tier"


def test_the_more_items_the_shorter_their_texts() -> None:
    sides = {"before": [answer("x" * 70_000)], "after": [answer("y" * 70_000)]}
    large, small = item("a", **sides), item("b")

    for number, length in ((1, 65_536), (1024, 8_192), (8_192, 2_048)):
        (first, *_) = clean_change(change(large, *[small] * (number - 1)), Redactor())["items"]
        assert len(first["before"][0]["text"]) == length


def test_rewordings_are_counted_where_they_do_not_fit() -> None:
    many = change(*(item(f"item-{at}", "words" if at else "contract") for at in range(400)))

    less = fit_change(many, 2500)

    assert less["items"][0]["tier"] == "contract"
    assert 1 < len(less["items"]) < 400
    assert less["left_out"] == 400 - len(less["items"])


def test_a_comment_and_the_page_say_the_same_of_a_tier() -> None:
    """Who reads one and then the other must find the same things under the same names."""
    said = {
        name: (title, many)
        for name, title, many in re.findall(
            r'(\w+): \{ title: "(.*?)", one: ".*?", many: "(.*?)"', asset("tiers.js")
        )
    }
    text = markdown_of(change(item("a", "contract"), item("b", "behaviour"), item("c", "words")))

    for tier in ("contract", "behaviour"):
        assert f"#### {said[tier][0]}\n" in text
    assert f": {', '.join(f'**1** {said[tier][1]}' for tier in ('contract', 'behaviour', 'words'))}\n" in text
