"""Whether letters spell words. A dictionary would be long and in one language; pairs of letters are neither.

Of the 676 pairs, 170 make up 86 % of all pairs in English words, and 25 % of those in random letters.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_word", "reads_like_words", "spells_words"]

_FOLLOWERS: Final = (
    "abcdgilmnprst baeil caehiklortu daeios eacdefglmnprstvx fefio geiru haeio iabcdefglmnoprstvz ke "
    "laeilosty maeiop nacdefgiostu ocdlmnoprstuw paeiloprt qu racdeilmorstu sacehiopstu tacehilorstuy "
    "ubilmnprst vaei wai ze"
)
"""A letter, and those that often follow it."""
_PAIRS: Final = frozenset(group[0] + letter for group in _FOLLOWERS.split() for letter in group[1:])
_WORD: Final = re.compile("[A-Za-z]?[a-z]+|[A-Z]+")
_LONGEST_WORD: Final = 24
_SEPARATORS: Final = re.compile("[^A-Za-z0-9]+")
_SIMPLE_PART: Final = re.compile("[A-Z]?[a-z]+|[A-Z]+|[0-9]{1,4}")
_CAMEL: Final = re.compile("[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_WORDS: Final = ((0.4, 0.55), (0.3, 0.4))
"""How many pieces for each character, and how many common pairs, words have at most and at least.

Random text has about 0.54 and 0.25. The fewer the pieces, the fewer pairs need be common. Measured, of 20,000
names of things 4 are taken for random text, and of as many texts of 22 random characters 4 for words.
"""


def is_word(text: str) -> bool:
    """Whether a text is one word: letters of one case, perhaps with a capital first."""
    return len(text) <= _LONGEST_WORD and _WORD.fullmatch(text) is not None and _share(text) >= 0.65


def reads_like_words(text: str) -> bool:
    """Whether a text is words put together: ``your-key-goes-here``, ``someLongName``, ``A_CONSTANT_2``."""
    parts = [part for part in _SEPARATORS.split(text) if part]
    size = sum(map(len, parts))
    if all(map(_SIMPLE_PART.fullmatch, parts)):
        return True  # at random, twenty characters and more are mixed somewhere
    pieces = sum(len(_CAMEL.findall(part)) for part in parts)
    share = _share(*parts)
    return any(pieces <= size * most and share >= least for most, least in _WORDS)


def spells_words(text: str) -> bool:
    """Whether a text is words put together, and its letters are those of words.

    Small letters alone pass for a word otherwise, however random they are; of these, one text of twelve in
    sixteen does here, and one of twenty in forty.
    """
    parts = [part for part in _SEPARATORS.split(text) if part]
    return reads_like_words(text) and not text.isdigit() and _share(*parts) >= 0.5


def _share(*parts: str) -> float:
    """How many of the pairs of letters are common ones."""
    pairs = [part[i : i + 2] for part in map(str.lower, parts) for i in range(len(part) - 1)]
    return sum(pair in _PAIRS for pair in pairs) / len(pairs) if pairs else 1.0
