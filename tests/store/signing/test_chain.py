"""Heads and chains of signed indexes: pure values."""

from __future__ import annotations

import random

import pytest

from cortex_replay.hashing import blake3_hex
from cortex_replay.store.index.index import Scalar
from cortex_replay.store.signing.chain import MAX_CHAIN_BYTES, Chain, ChainError, Entry, Head, merge_heads

ID = "0123456789abcdef" * 2
OTHER_ID = "f" * 32
A, B, C = (letter * 64 for letter in "abc")


def head(generation: int, prev: str = A, store_id: str = ID) -> dict[str, Scalar]:
    return {"store_id": store_id, "generation": generation, "prev": prev}


def test_prev_is_as_the_documentation_says() -> None:
    """Written out once more, by hand."""
    chain = Chain.of([Entry(1, A), Entry(2, B), Entry(3, C)])
    first = blake3_hex(f"{'0' * 64} 1 {A}\n".encode())
    second = blake3_hex(f"{first} 2 {B}\n".encode())

    assert [chain.prev_of(number) for number in (1, 2, 3)] == ["0" * 64, first, second]
    assert chain.next_head(ID) == Head(ID, 4, blake3_hex(f"{second} 3 {C}\n".encode()))
    assert Chain().next_head(ID) == Head(ID, 1, "0" * 64)


def test_any_change_of_the_past_changes_prev() -> None:
    entries = [Entry(number, blake3_hex(b"%d" % number)) for number in range(1, 6)]
    prev = Chain.of(entries).prev_of(6)

    for place, entry in enumerate(entries):
        others = [*entries[:place], *entries[place + 1 :]]
        assert Chain.of(others).prev_of(6) != prev
        assert Chain.of([*others, entry._replace(digest=C)]).prev_of(6) != prev
        assert Chain.of([*entries, entry._replace(digest=C)]).prev_of(6) != prev


def test_the_order_of_lines_does_not_count() -> None:
    """Git puts the lines of two branches together as it likes."""
    entries = [Entry(1, A), Entry(2, A), Entry(2, B), Entry(10, A), Entry(9, C)]
    lines = [f"{entry.generation} {entry.digest}\n" for entry in entries]
    random.Random(1).shuffle(lines)
    chain = Chain.parse("".join([*lines, lines[0], "\n"]).encode())

    assert chain.entries == tuple(sorted(entries))
    assert chain.newest == 10
    assert Chain.parse(chain.render()) == chain


@pytest.mark.parametrize(
    "line",
    [
        f"0 {A}",
        f"01 {A}",
        f"-1 {A}",
        f"1  {A}",
        f"1 {A} ",
        f"1 {A.upper()}",
        f"1 {A[1:]}",
        "<<<<<<< ours",
        f"{'9' * 19} {A}",
        f"1 {A}\r",
        f"١ {A}",
    ],
)
def test_another_line_is_refused(line: str) -> None:
    with pytest.raises(ChainError, match="line 2 "):
        Chain.parse(f"1 {A}\n{line}\n".encode())


def test_a_chain_has_a_limit() -> None:
    with pytest.raises(ChainError, match="larger"):
        Chain.parse(b"\n" * (MAX_CHAIN_BYTES + 1))


def test_a_head_is_whole_or_not_there() -> None:
    assert Head.of({"format": 1}) is None
    assert Head.of({"format": 1, **head(3)}) == Head(ID, 3, A)
    assert Head(ID, 3, A).on({"format": 1, "mine": "x", **head(1, B)}) == {
        "format": 1,
        "mine": "x",
        **head(3),
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"store_id": "x"},
        {"store_id": 1},
        {"store_id": ID.upper()},
        {"generation": 0},
        {"generation": True},
        {"generation": "1"},
        {"prev": "x"},
        {"prev": 7},
    ],
)
def test_a_head_that_cannot_be_is_refused(wrong: dict[str, Scalar]) -> None:
    with pytest.raises(ChainError):
        Head.of(head(1) | wrong)
    with pytest.raises(ChainError):
        Head.of({name: value for name, value in head(1).items() if name not in wrong})


def test_a_merge_takes_the_head_that_was_signed_more_often() -> None:
    ours: dict[str, Scalar] = {"format": 1, "mine": "x"}

    assert merge_heads(ours | head(2), head(3, B)) == ours | head(3, B)
    assert merge_heads(ours | head(3), head(2, B)) == ours | head(3)
    assert merge_heads(ours | head(3), head(3, B)) == ours | head(3)
    assert merge_heads(ours, {"theirs": "y"} | head(1)) == ours | head(1)
    assert merge_heads(ours | head(1), {}) == ours | head(1)
    assert merge_heads(ours | head(1), head(9) | {"prev": "no"}) == ours | head(1)
