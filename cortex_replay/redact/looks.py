"""How a text looks: like a secret that somebody made at random, like an example of one, like a word."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["has_digit", "is_dummy", "is_example", "is_mixed", "looks_random"]

_EXAMPLE: Final = re.compile(
    r"(?i)(?:^|[-_.+/])(?:your|the|example|sample|dummy|fake|placeholder|here|key|token|secret|todo"
    r"|redacted|changeme|insert|replace)(?:[-_.+/]|$)|x{6}|\*{4}|0{8}|1234567|abcdefgh|EXAMPLE(?:KEY)?$"
)
_SEPARATOR: Final = re.compile("[-_.~=+/]")
_CONSTANT: Final = re.compile("[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_WORDLIKE: Final = re.compile("[a-z]{4,}")
_SAME_KIND: Final = re.compile("[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
_DIGIT: Final = re.compile("[0-9]")
_TEMPLATE: Final = re.compile(r"[${<%(\[]|(.)\1*$|.*\.\.\.")
_DUMMY: Final = re.compile(
    r"(?i)(?:my|db)?(?:pass|passwd|password|pwd|secret|token|key|api)[0-9]{0,3}|change_?me|example|sample|admin"
    r"|root|user(?:name)?|guest|test(?:ing)?|postgres|mysql|redis|foo|bar|baz|qux|foobar|hunter2|letmein|qwerty"
    r"|1234567?8?9?0?"
)


def is_example(secret: str) -> bool:
    """Whether a text of a secret's shape is only there to show the shape."""
    return len(set(secret)) < 8 or _EXAMPLE.search(secret) is not None


def looks_random(text: str) -> bool:
    """Whether small letters, capitals and digits alternate as in no identifier and no word."""
    return has_digit(text) and is_mixed(text) and _CONSTANT.fullmatch(text) is None


def is_mixed(text: str) -> bool:
    """Whether the kind of character changes often, and little of the text reads like words."""
    letters = _SEPARATOR.sub("", text)
    if not letters.strip("0123456789abcdef"):
        return True  # as hex it may be anything
    if len(_SAME_KIND.findall(letters)) <= len(letters) * 0.25:
        return False
    return letters.islower() or sum(map(len, _WORDLIKE.findall(letters))) <= len(letters) * 0.4


def has_digit(text: str) -> bool:
    return _DIGIT.search(text) is not None


def is_dummy(password: str) -> bool:
    """Whether everybody knows it: ``changeme``, ``$PASSWORD``, ``****``."""
    return _DUMMY.fullmatch(password) is not None or _TEMPLATE.match(password) is not None
