"""How placeholders are written, escaped, cut and filled."""

from __future__ import annotations

import pytest

from cortex_replay.bindings.placeholders import (
    ESCAPE,
    Filling,
    escape_literals,
    has_literal,
    is_same_when_bound,
    join_pieces,
    placeholder,
    tokens_in,
)

FILLING = Filling({"cwd": "/home/ann/work", "uuid#1": "0b6d", "cwd:slug": "-home-ann-work"})


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("in ⟦cwd⟧/a.txt", "in /home/ann/work/a.txt"),
        ("⟦cwd|0-7⟧", "/home/a"),
        ("⟦cwd|7-⟧", "nn/work"),
        ("⟦cwd|90-⟧", ""),
        ("⟦cwd:slug⟧ ⟦uuid#1⟧", "-home-ann-work 0b6d"),
        ("⟦uuid#2⟧ ⟦branch⟧ ⟦Cwd⟧ ⟦⟧", "⟦uuid#2⟧ ⟦branch⟧ ⟦Cwd⟧ ⟦⟧"),
        ("⟦=cwd⟧", "⟦=cwd⟧"),
    ],
)
def test_a_placeholder_is_filled_with_its_value(text: str, filled: str) -> None:
    assert FILLING.text(text, {"cwd", "uuid", "branch"}) == filled


def test_a_binding_that_a_recording_does_not_name_is_not_filled() -> None:
    assert FILLING.text("⟦cwd⟧ ⟦uuid#1⟧", {"uuid"}) == "⟦cwd⟧ 0b6d"


@pytest.mark.parametrize("text", ["⟦cwd⟧", "⟦=cwd⟧ ⟦==cwd|0-7⟧", "⟦cwd ⟦x⟧ ⟦uuid#1⟧", "plain"])
def test_a_literal_comes_back_as_it_was(text: str) -> None:
    escaped = escape_literals(text)

    assert tokens_in(escaped) == []
    assert FILLING.text(escaped, {ESCAPE, "cwd", "uuid"}) == text


def test_a_literal_is_one_of_a_binding_that_is_in_use() -> None:
    assert has_literal("a ⟦=cwd:slug⟧", {"cwd"})
    assert has_literal("a ⟦=else⟧", {"cwd"})  # unescaping would change it
    assert not has_literal("a ⟦e⟧ ⟦cwd", {"cwd"})


def test_pieces_are_joined() -> None:
    pieces = placeholder("cwd", 0, 7) + placeholder("cwd", 7, 9) + placeholder("cwd", 9)

    assert join_pieces(f"in {pieces}/a") == "in ⟦cwd⟧/a"
    assert FILLING.text(pieces, {"cwd"}) == "/home/ann/work"


@pytest.mark.parametrize(
    "pieces",
    [
        "⟦cwd|0-7⟧⟦cwd|8-⟧",
        "⟦cwd|1-7⟧⟦cwd|7-⟧",
        "⟦cwd|0-7⟧⟦cwd|7-9⟧",
        "⟦cwd|0-7⟧⟦home|7-⟧",
        "⟦cwd|0-7⟧ ⟦cwd|7-⟧",
        "⟦cwd~.s|0-7⟧⟦cwd|7-⟧",
    ],
)
def test_pieces_that_are_not_the_whole_value_are_not_joined(pieces: str) -> None:
    assert join_pieces(pieces) == pieces


def test_the_style_of_the_outermost_string_makes_no_difference_to_what_is_read() -> None:
    assert join_pieces("⟦cwd~a⟧ ⟦cwd~au|0-7⟧⟦cwd~x|7-⟧ ⟦cwd~a.s⟧") == "⟦cwd⟧ ⟦cwd⟧ ⟦cwd~.s⟧"
    assert is_same_when_bound("⟦=cwd⟧ ⟦cwd~.s|0-7⟧⟦cwd~.s|7-⟧", "⟦cwd⟧ ⟦cwd⟧")
    assert not is_same_when_bound("⟦cwd|0-7⟧⟦cwd|8-⟧", "⟦cwd⟧")
