"""Which calls of a command vary between two runs of it."""

from __future__ import annotations

import pytest

from cortex_replay.misses.variation import Variation, variations


@pytest.mark.parametrize(
    ("first", "other", "varying"),
    [
        ("abc", "abc", []),
        ("", "", []),
        ("abc", "axc", [((2, "b"), (2, "x"))]),
        ("abc", "acb", []),  # in another order, as concurrent calls are
        ("abc", "xabc", [(None, (1, "x"))]),
        ("abc", "ac", [((2, "b"), None)]),
        ("aab", "ab", [((2, "a"), None)]),
        ("ab", "aab", [(None, (2, "a"))]),
        ("abcd", "axyd", [((2, "b"), (2, "x")), ((3, "c"), (3, "y"))]),
        ("abcd", "xbcy", [((1, "a"), (1, "x")), ((4, "d"), (4, "y"))]),
        ("abcd", "bxd", [((1, "a"), None), ((3, "c"), (2, "x"))]),
        ("ab", "", [((1, "a"), None), ((2, "b"), None)]),
    ],
)
def test_calls_are_held_against_those_at_the_same_place(
    first: str, other: str, varying: list[tuple[tuple[int, str] | None, tuple[int, str] | None]]
) -> None:
    assert variations(first, other) == [Variation(*pair) for pair in varying]
