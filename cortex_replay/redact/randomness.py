"""How a text looks: like a secret that somebody made at random, like an example of one, like a word."""

from __future__ import annotations

import re
from typing import Final

from cortex_replay.secret_names.wordlike import reads_like_words

__all__ = ["has_digit", "is_example", "is_mixed", "is_random"]

_EXAMPLE: Final = re.compile(
    r"(?i)(?:^|[-_.+/])(?:your|the|example|sample|dummy|fake|placeholder|here|key|token|secret|todo"
    r"|redacted|changeme|insert|replace)(?:[-_.+/]|$)|x{6}|\*{4}|0{8}|1234567|abcdefgh|EXAMPLE(?:KEY)?$"
)
_CONSTANT: Final = re.compile("[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_DIGIT: Final = re.compile("[0-9]")


def is_example(secret: str) -> bool:
    """Whether a text of a secret's shape is only there to show the shape."""
    return len(set(secret)) < 8 or _EXAMPLE.search(secret) is not None


def is_random(text: str) -> bool:
    """Whether small letters, capitals and digits alternate as in no identifier and no word."""
    return _CONSTANT.fullmatch(text) is None and is_mixed(text)


def is_mixed(text: str) -> bool:
    """Whether the kind of character changes often, or the letters spell nothing."""
    if not text.strip("0123456789abcdef-_"):
        return has_digit(text)  # as hex it may be anything
    return not reads_like_words(text)


def has_digit(text: str) -> bool:
    return _DIGIT.search(text) is not None
