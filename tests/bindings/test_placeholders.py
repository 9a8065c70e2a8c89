"""How placeholders are written, escaped, cut and filled."""

from __future__ import annotations

import pytest

from cortex_replay.bindings.placeholders import (
    ESCAPE,
    Filling,
    escape_literals,
    has_literal,
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
    assert not has_literal("a ⟦e⟧ ⟦cwd", {"cwd"})


def test_pieces_are_joined() -> None:
    pieces = placeholder("cwd", 0, 7) + placeholder("cwd", 7, 9) + placeholder("cwd", 9)

    assert join_pieces(f"in {pieces}/a") == "in ⟦cwd⟧/a"
    assert FILLING.text(pieces, {"cwd"}) == "/home/ann/work"
