"""Where a value may begin and end in a text, so that ``/srv/me`` is not found in ``/srv/me-too``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

__all__ = ["BOUNDARIES", "Boundary", "is_free", "occurrences"]

_FIRST_WITHOUT_SPACES: Final = "\u2e80"
"""From here on, scripts put words beside each other without a space."""
_ESCAPES: Final = "nrtbfv"
_COLOUR: Final = re.compile(r"(?:\x1b|\\u001b|\\x1b|\\033|\\e)\[[0-9;]{0,20}[mK]\Z")
_LONGEST_COLOUR: Final = 30
_FOLDER_FLAGS: Final = "ILFB"
_DAY_BEFORE: Final = re.compile(r"(?<![0-9])[0-9]{1,2}(?:st|nd|rd|th)?[ -]\Z")


class Boundary(NamedTuple):
    """Whether a value may start, and end, at a place that is within the text."""

    is_start: Callable[[str, int], bool]
    is_end: Callable[[str, int], bool]


def occurrences(text: str, literal: str, boundary: Boundary) -> Iterator[tuple[int, int]]:
    """Where a literal stands by itself."""
    start = text.find(literal)
    while start >= 0:
        end = start + len(literal)
        if (start == 0 or boundary.is_start(text, start)) and (
            end == len(text) or boundary.is_end(text, end)
        ):
            yield start, end
            start = text.find(literal, end)
        else:
            start = text.find(literal, start + 1)


def _is_letter(char: str) -> bool:
    return (char.isalnum() or char == "_") and char < _FIRST_WITHOUT_SPACES


def _is_after_escape(text: str, at: int) -> bool:
    r"""Whether the letter before belongs to ``\n`` of JSON in JSON, or to what colours a terminal."""
    before = text[at - 1]
    if before in _ESCAPES and at > 1 and text[at - 2] == "\\":
        return True
    return before in "mK" and _COLOUR.search(text[max(0, at - _LONGEST_COLOUR) : at]) is not None


def is_free(text: str, at: int) -> bool:
    """Whether an id may start here."""
    if at == 0 or not (text[at - 1].isascii() and text[at - 1].isalnum()):
        return True
    return _is_after_escape(text, at)


def _continues(text: str, at: int) -> bool:
    """Whether the character here and a letter behind it belong together: ``.git``, ``%20``."""
    return at + 1 < len(text) and _is_letter(text[at + 1])


def _path_start(text: str, at: int) -> bool:
    before = text[at - 1]
    if not _is_letter(before):
        return before not in ".~"
    is_flag = before in _FOLDER_FLAGS and at > 1 and text[at - 2] == "-"  # as compilers are told
    return is_flag or _is_after_escape(text, at)


def _path_end(text: str, at: int) -> bool:
    after = text[at]
    if _is_letter(after) or after in "-~":
        return False
    return after not in ".%+@" or not _continues(text, at)


def _slug_start(text: str, at: int) -> bool:
    return not (_is_letter(text[at - 1]) or text[at - 1] == "-") or _is_after_escape(text, at)


def _slug_end(text: str, at: int) -> bool:
    """A slug has one sign for all that is no letter, so what is below a folder goes on with it."""
    return not _is_letter(text[at])


def _word_start(text: str, at: int) -> bool:
    before = text[at - 1]
    if _is_letter(before):
        return _is_after_escape(text, at)
    return before != "-" and not (before == "." and at > 1 and _is_letter(text[at - 2]))


def _word_end(text: str, at: int) -> bool:
    after = text[at]
    return not (_is_letter(after) or after == "-" or (after == "." and _continues(text, at)))


def _host_end(text: str, at: int) -> bool:
    return not (_is_letter(text[at]) or text[at] == "-")  # a domain may follow


def _version_start(text: str, at: int) -> bool:
    before = text[at - 1]
    return (before != "." and not _is_letter(before)) or _is_after_escape(text, at)


def _version_end(text: str, at: int) -> bool:
    return not (_is_letter(text[at]) or (text[at] == "." and _continues(text, at)))


def _commit_start(text: str, at: int) -> bool:
    before = text[at - 1]
    is_described = before == "g" and at > 1 and text[at - 2] == "-"  # by git describe
    return before == "_" or not _is_letter(before) or is_described or _is_after_escape(text, at)


def _commit_end(text: str, at: int) -> bool:
    return text[at] == "_" or not _is_letter(text[at])


def _date_start(text: str, at: int) -> bool:
    before = text[at - 1]
    if before in "-/." and at > 1:
        return not text[at - 2].isdigit()
    return before == "_" or not _is_letter(before) or _is_after_escape(text, at)


def _date_end(text: str, at: int) -> bool:
    after = text[at]
    if after in "/.":
        return not _is_before_digit(text, at)
    if after == "T":
        return _is_before_digit(text, at)
    return after == "_" or not _is_letter(after)


def _month_start(text: str, at: int) -> bool:
    """A day before a month makes it another date than this one."""
    return _date_start(text, at) and _DAY_BEFORE.search(text[max(0, at - 8) : at]) is None


def _month_end(text: str, at: int) -> bool:
    return _date_end(text, at) and not (text[at] == "-" and _is_before_digit(text, at))


def _is_before_digit(text: str, at: int) -> bool:
    return at + 1 < len(text) and text[at + 1].isdigit()


BOUNDARIES: Final[Mapping[str, Boundary]] = {
    "path": Boundary(_path_start, _path_end),
    "slug": Boundary(_slug_start, _slug_end),
    "word": Boundary(_word_start, _word_end),
    "host": Boundary(_word_start, _host_end),
    "version": Boundary(_version_start, _version_end),
    "commit": Boundary(_commit_start, _commit_end),
    "date": Boundary(_date_start, _date_end),
    "prefix": Boundary(_date_start, lambda _text, _at: True),
    "month": Boundary(_month_start, _month_end),
}
"""By what a value is."""
