"""How much a configuration may hold, told before it is parsed.

The time and the memory that a TOML parser takes grow faster than its text: with the square of the parts of
a dotted key, with a kilobyte for each part, without end for what is nested. So the text is gone through
once, in time that grows with its length, and what no honest file has is refused.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["problem_of"]

MAX_PARTS: Final = 12
"""Of one dotted key or the name of one table."""
MAX_NESTING: Final = 16
"""Of arrays and inline tables."""
MAX_NAMES: Final = 20_000
"""Parts of keys in all, items of arrays included."""
MAX_WORD: Final = 256
"""The longest thing outside of quotes: a number, a date, a part of a key."""

_DEEPER: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
_TOKEN: Final = re.compile(
    r'''
      (?P<text> """(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?
              | \'\'\'(?:[^']|'(?!\'\'))*+(?:'{3,5})?
              | "(?:[^"\\\n]|\\[^\n])*+"?
              | '[^'\n]*+'? )
    | (?P<comment> \#[^\n]*+ )
    | (?P<word> [^\s"'\#\[\]{}.,=]++ )
    | (?P<mark> [\[\]{}.,=] | \n\s*+ )
    ''',
    re.VERBOSE | re.DOTALL,
)


def problem_of(text: str, most_names: int = MAX_NAMES, most_nesting: int = MAX_NESTING) -> str | None:
    """Why a TOML document must not be parsed, or ``None`` if it may.

    Says nothing about whether it is one: what is not TOML may pass, and costs the parser no more.
    """
    depth = dots = names = 0
    for token in _TOKEN.finditer(text):
        kind, mark = token.lastgroup, token[0]
        if kind == "word" and len(mark) > MAX_WORD:
            return f"has a word or a number of more than {MAX_WORD} characters"
        if kind != "mark":
            continue
        dots = dots + 1 if mark == "." else 0
        names += mark in "[{.,="
        depth = max(0, depth + _DEEPER.get(mark, 0))
        if dots >= MAX_PARTS:
            return f"has a name of more than {MAX_PARTS} parts"
        if depth > most_nesting:
            return f"is nested more than {most_nesting} deep"
        if names > most_names:
            return f"has more than {most_names} names and values"
    return None
