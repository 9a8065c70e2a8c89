"""What calls took, and how much of it came from a cache."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from cortex_replay import TokenUsage
from cortex_replay.engine.tokens import (
    Tokens,
    cache_rows,
    counts_of,
    merge_tallies,
    read_tally,
    sum_of,
    token_facts,
)
from cortex_replay.errors import InvalidRequest


def tokens(*usages: TokenUsage | None) -> Tokens:
    counted = Tokens()
    for usage in usages:
        counted.add(usage)
    return counted


def test_the_tallies_of_several_processes_are_one() -> None:
    one = {"m": asdict(tokens(TokenUsage(9, 2, 1, 6, 4), None)), "n": asdict(tokens(TokenUsage(5, 5)))}
    other = {"m": asdict(tokens(TokenUsage(10, 20, None, 3)))}

    assert merge_tallies(map(read_tally, [one, other])) == {
        "m": Tokens(prompt=19, completion=22, cached=1, cache_write=9, cache_write_1h=4, uncounted=1),
        "n": Tokens(prompt=5, completion=5),
    }


@pytest.mark.parametrize("counts", [3, {"prompt": -1}, {"prompt": True}, {"cost": 1}])
def test_what_is_no_tally_is_refused(counts: object) -> None:
    with pytest.raises(InvalidRequest):
        read_tally({"m": counts})


def test_the_parts_of_a_prompt_are_its_whole() -> None:
    part = tokens(TokenUsage(1000, 7, 600, 300, 100))

    assert (part.fresh, part.cached, part.cache_write_5m, part.cache_write_1h) == (100, 600, 200, 100)
    assert sum_of({"m": part, "n": part}).prompt == 2000


def test_a_summary_says_what_came_from_the_cache() -> None:
    paid = {"m": tokens(TokenUsage(10_000, 300, 9_000)), "n": tokens(TokenUsage(2_000, 0))}
    saved = {"m": tokens(TokenUsage(2_000, 10, 5))}

    assert list(token_facts(paid, saved)) == [
        "12,000 + 300 tokens paid (from the cache: 9,000 of 12,000 input tokens, 75%)",
        "2,010 tokens saved (from the cache: 5 of 2,000 input tokens, less than 1%)",
    ]
    assert cache_rows(paid, saved) == {
        "read from the cache": "9,000 of 12,000 input tokens, 75%",
        "read from the cache, of what was saved": "5 of 2,000 input tokens, less than 1%",
    }


def test_nothing_is_said_of_a_cache_that_gave_nothing() -> None:
    """A provider that counts zero has not told more than one that does not count."""
    tally = {"m": tokens(TokenUsage(10, 3, 0, 5))}

    assert list(token_facts(tally, {})) == ["10 + 3 tokens paid"]
    assert (list(token_facts({}, {})), cache_rows(tally, tally)) == ([], {})


def test_all_is_only_said_of_all() -> None:
    nearly, whole = tokens(TokenUsage(1000, 0, 999)), tokens(TokenUsage(1000, 0, 1000))

    assert cache_rows({"m": nearly}, {"m": whole}) == {
        "read from the cache": "999 of 1,000 input tokens, 99%",
        "read from the cache, of what was saved": "1,000 of 1,000 input tokens, 100%",
    }


def test_a_report_for_programs_has_every_part() -> None:
    paid, saved = {"m": tokens(TokenUsage(1000, 7, 600, 300, 100))}, {"m": tokens(TokenUsage(10, 2, 4))}

    assert counts_of(paid, saved) == {
        "prompt": 1000,
        "completion": 7,
        "cached": 600,
        "cache_write_5m": 200,
        "cache_write_1h": 100,
        "replayed": 12,
        "replayed_cached": 4,
    }
