"""How long ago something was, as people write it: ``36h``, ``90d``, ``8w``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

__all__ = ["age_words", "parse_age"]

_AGE: Final = re.compile(r"(\d{1,6})([hdw])", re.ASCII)
_UNIT_HOURS: Final = {"h": 1, "d": 24, "w": 168}
_LONGEST: Final = timedelta(days=365_000)
"""So that it can be taken from any date."""


def parse_age(text: str) -> timedelta:
    """The time that a text stands for.

    Raises:
        ValueError: The text is not an age.
    """
    match = _AGE.fullmatch(text)
    if match is None:
        raise ValueError("an age is a number and h, d or w: 36h, 30d, 8w")
    age = timedelta(hours=int(match[1]) * _UNIT_HOURS[match[2]])
    if age > _LONGEST:
        raise ValueError("an age is at most 1000 years")
    return age


def age_words(age: timedelta) -> str:
    """An age as it is written: in days where these are whole, else in hours."""
    hours = age // timedelta(hours=1)
    return f"{hours}h" if hours % 24 else f"{hours // 24}d"
