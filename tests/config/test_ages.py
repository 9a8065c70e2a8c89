"""Ages as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from cortex_replay.config.ages import age_words, parse_age
from cortex_replay.config.settings import Settings
from cortex_replay.errors import InvalidRequest


@pytest.mark.parametrize(("text", "days"), [("36h", 1.5), ("90d", 90), ("8w", 56), ("0h", 0)])
def test_an_age_is_a_number_and_a_unit(text: str, days: float) -> None:
    """Hours, days and weeks."""
    assert timedelta(days=days) == parse_age(text)


@pytest.mark.parametrize(
    "text", ["", "90", "d", "90 d", "-1d", "1.5d", "90D", "1m", "1y", "90d\n", "1234567h"]
)
def test_nothing_else_is_one(text: str) -> None:
    """A month has no fixed length, and whoever writes something else means something else."""
    with pytest.raises(ValueError, match="an age is a number and h, d or w"):
        parse_age(text)


@given(hours=st.integers(1, 999_999))
def test_an_age_reads_back(hours: int) -> None:
    """What is shown of an age is an age again, and the same."""
    age = timedelta(hours=hours)

    assert age == parse_age(age_words(age))


def test_settings_take_text_and_time() -> None:
    """A program may have either."""
    assert (
        timedelta(days=90) == Settings(max_age="90d").max_age == Settings(max_age=timedelta(days=90)).max_age
    )
    assert Settings().max_age is None
    with pytest.raises(InvalidRequest, match="must be at least 1h"):
        Settings(max_age=timedelta(minutes=59))
