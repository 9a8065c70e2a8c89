"""Searching in prompts and answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cortex_replay import Answer, Fixture, LlmRequest, Store
from cortex_replay.view.documents import search
from cortex_replay.view.documents.search import Haystack
from tests import linked
from tests.view.stores import MODEL, SECRET, fixture_of, library_of


@pytest.fixture
def haystack(tmp_path: Path) -> Haystack:
    store = Store.create(tmp_path)
    store.add(
        fixture_of(
            "Where is the\n  Fjord of Straße?", Answer("In the NORTH, İstanbul."), system="Shared words"
        )
    )
    store.add(fixture_of("Another question", Answer("No.", reasoning="because"), system="Shared words"))
    store.commit()
    return Haystack(library_of(tmp_path).read())


def hits(haystack: Haystack, words: str) -> list[tuple[str, str]]:
    return [(hit["where"], hit["match"]) for hit in haystack.find(words)["found"]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fjord", [("question", "Fjord")]),
        ("  THE   fjord ", [("question", "the\n  Fjord")]),
        ("north", [("answer", "NORTH")]),
        ("shared words", [("system", "Shared words")] * 2),
        ("because", [("reasoning", "because")]),
        ("straße", [("question", "Straße")]),
        ("stanbul", [("answer", "stanbul")]),
        (".*", []),
        ("", []),
        ("   ", []),
        ("no such words", []),
    ],
)
def test_words_are_found_whatever_their_case(
    haystack: Haystack, words: str, expected: list[tuple[str, str]]
) -> None:
    assert hits(haystack, words) == expected


def test_a_letter_whose_lower_case_is_two_is_found_all_the_same(haystack: Haystack) -> None:
    [hit] = haystack.find("\u0130stanbul")["found"]

    assert (hit["before"] + hit["match"]).endswith("i\u0307stanbul")


def test_a_conversation_is_found_where_it_says_something_first(tmp_path: Path) -> None:
    linked.write_whole(tmp_path)
    recordings = library_of(tmp_path).read()
    texts: Any = Haystack(recordings).document()["texts"]
    first = [row for row in texts if row["where"] == "question"]
    said = sum(len(call.request.messages) for call in recordings.calls)

    assert len({(row["where"], row["text"]) for row in texts}) == len(texts), "each text once"
    assert sum(len(row["ids"]) for row in first) < said / 2


def test_hits_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_MOST_FOUND", 5)
    store = Store.create(tmp_path)
    for number in range(4):
        store.add(fixture_of(f"needle {number}", Answer("needle"), Answer("a needle"), Answer("the needle")))
    store.commit()
    found = Haystack(library_of(tmp_path).read()).find("needle")

    assert (len(found["found"]), found["is_cut"]) == (5, True)


def test_one_recording_does_not_fill_the_list(tmp_path: Path) -> None:
    store = Store.create(tmp_path)
    for number in range(2):
        answers = (Answer(f"needle {number}{letter}") for letter in "abcd")
        store.add(fixture_of(f"question {number}", *answers))
    store.commit()
    found = Haystack(library_of(tmp_path).read()).find("needle")

    assert [*Counter(hit["id"] for hit in found["found"]).values()] == [3, 3]
    assert not found["is_cut"]


def test_what_a_file_searches_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_LONGEST_IN_FILE", 10)
    store = Store.create(tmp_path)
    store.add(Fixture.of(LlmRequest(MODEL, "", [{"role": "user", "content": "x" * 30}]), "y" * 10))
    store.commit()
    texts = Haystack(library_of(tmp_path).read()).document()

    assert [row["text"] for row in texts["texts"]] == ["x" * 10, "y" * 10]
    assert texts["left_out"] == 1


def test_a_secret_is_cut_out_before_a_text_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of one would not be known for one."""
    monkeypatch.setattr(search, "_LONGEST_TEXT", 20)
    store = Store.create(tmp_path)
    store.add(fixture_of(f"0123456789 {SECRET}"))
    store.commit()
    texts = Haystack(library_of(tmp_path).read()).document()["texts"]

    assert [row["text"] for row in texts if row["where"] == "question"] == ["0123456789 [REDACTED"]
