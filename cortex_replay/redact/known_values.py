"""Secrets that are known by value: the keys that this process itself uses.

They need no shape, so they are looked for in each view of a text as they are, as base64 (at each of its
three alignments) and as hex. Where a text has escapes, they are also looked for by an expression in which
each character may stand in any of its spellings: a value may itself hold what the escapes are made of.
"""

from __future__ import annotations

import binascii
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final, NamedTuple

from cortex_replay.redact.needles import Needles
from cortex_replay.redact.randomness import is_mixed
from cortex_replay.redact.views import Span, runs_of
from cortex_replay.secret_names.values import SHORTEST_SECRET, is_plain
from cortex_replay.secret_names.wordlike import spells_words

__all__ = ["KNOWN", "SHORTEST_KNOWN", "KnownValues", "any_spelling", "base64_cores"]

KNOWN: Final = "known-value"
"""What a hit on a known value is called."""
SHORTEST_KNOWN: Final = SHORTEST_SECRET

_LONGEST_ESCAPE: Final = 24
_AWKWARD: Final = re.compile(r"""[^!-~]|[\\%"]""")
_ANY_ESCAPE: Final = re.compile(r"[%\\]")
_TELLING_ESCAPE: Final = re.compile(
    r"""%[0-9A-Fa-f]{2}|\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[^A-Za-z0-9\s"\\])"""
)
"""In a text of JSON most escapes stand for quotes and line ends, which no ordinary value has."""
_MOST_PREPARED: Final = 512
"""Values are learned one by one, and those before need not be prepared again."""
_LONGEST: Final = 2048
_LONGEST_AWKWARD: Final = 512
_KEY_LINE: Final = re.compile("(?=.*[A-Z0-9])[A-Za-z0-9+/=_-]{8,512}")
_SHORT_LAST_LINE: Final = re.compile(r"[A-Za-z0-9+/=_-]{8,512}\r?\n[A-Za-z0-9+/=_-]{1,7}(?=\s|\Z)")
_LONG_PART: Final = re.compile("[A-Za-z0-9+/=_-]{32,512}")
_BLANK: Final = re.compile(r"\s")
_BETWEEN_PARTS: Final = re.compile(r"[\s;,]+")
_IN_RUN: Final = re.compile(r"[A-Za-z0-9+/_-]+")
_TO_URLSAFE: Final = str.maketrans("+/", "-_")
_BASE64_END: Final = re.compile("={0,2}")
_CONTROLS: Final = dict(zip("\b\f\n\r\t", "bfnrt", strict=True))


class _Needle(NamedTuple):
    """A spelling that is searched for as it is."""

    text: str
    is_run: bool
    """Whether it stands in a run, so that a text without long ones cannot hold it."""
    is_base64: bool
    before: int
    """How many characters before it hold bits of the value too."""
    after: int


class KnownValues:
    """The known values, prepared for searching many texts."""

    def __init__(self, values: Iterable[str]) -> None:
        wanted = {part for value in values for part in _parts(value.strip()) if len(part) >= SHORTEST_KNOWN}
        self.values: tuple[str, ...] = tuple(sorted(wanted, key=lambda value: (-len(value), value)))
        """What is looked for, the longest first."""
        needles = [needle for value in self.values for needle in _needles(value)]
        self._needles: defaultdict[str, list[_Needle]] = defaultdict(list)
        for needle in needles:
            self._needles[needle.text].append(needle)
        self._in_runs = Needles({needle.text: None for needle in needles if needle.is_run}, " ", '"')
        self._anywhere = Needles({needle.text: None for needle in needles if not needle.is_run}, " ", '"')
        is_ordinary = not any(_AWKWARD.search(value) for value in self.values)
        self._escape = _TELLING_ESCAPE if is_ordinary else _ANY_ESCAPE

    @cached_property
    def spellings(self) -> list[re.Pattern[str]]:
        """An expression for each value; made when a text with escapes is first met, for it takes a while."""
        return list(map(_spelling_of, self.values))

    def __len__(self) -> int:
        return len(self.values)

    def unfinished_start(self, text: str, end: int) -> int:
        """Where, before ``end``, the first value begins that has blanks in it and goes on behind the text."""
        for value in self.values:
            if _BLANK.search(value):
                start = text.find(value[0], max(0, len(text) - len(value) + 1), end)
                while start >= 0 and not value.startswith(text[start:]):
                    start = text.find(value[0], start + 1, end)
                end = start if start >= 0 else end
        return end

    def find(self, text: str, in_runs: str) -> Iterator[Span]:
        """Where the values stand in a text; ``in_runs`` holds what its long runs say."""
        for found in chain(self._in_runs.found_in(in_runs), self._anywhere.found_in(text)):
            for needle in self._needles[found]:
                yield from _occurrences(text, needle)

    def find_escaped(self, text: str) -> Iterator[Span]:
        """Where the values stand in a text with some of their characters escaped."""
        if self.values and self.has_escapes(text):
            for start, end in _around(self._escape, text, len(self.values[0]) + _LONGEST_ESCAPE):
                for expression in self.spellings:
                    yield from (match.span() for match in expression.finditer(text, start, end))

    def has_escapes(self, text: str) -> bool:
        """Whether a text has escapes that could stand for a character of a value."""
        return ("\\" in text or "%" in text) and self._escape.search(text) is not None


def _parts(value: str) -> Iterator[str]:
    """A key in one line is one value. Of what is longer it is each line, of JSON what looks random."""
    longest = _LONGEST_AWKWARD if _AWKWARD.search(value) else _LONGEST
    if len(value) <= longest and "\n" not in value:
        yield value
        return
    yield from (part for part in _LONG_PART.findall(value) if is_mixed(part))
    yield from (line for line in value.splitlines() if _KEY_LINE.fullmatch(line))
    yield from _SHORT_LAST_LINE.findall(value)
    if not value.startswith(("{", "[")):
        yield from _lines(value)


def _lines(value: str) -> Iterator[str]:
    """What of a long text, or one of several lines, says nothing to a reader: passwords, cookies."""
    for line in value.splitlines():
        parts = [line] if len(line) <= _LONGEST_AWKWARD else _BETWEEN_PARTS.split(line)
        for part in (part.strip(" \t\"'") for part in parts):
            if "://" not in part and not is_plain(part) and not spells_words(part):
                yield from (part[at : at + _LONGEST_AWKWARD] for at in range(0, len(part), _LONGEST_AWKWARD))


@lru_cache(_MOST_PREPARED)
def _spelling_of(value: str) -> re.Pattern[str]:
    return re.compile(any_spelling(value))


@lru_cache(_MOST_PREPARED)
def _needles(value: str) -> tuple[_Needle, ...]:
    return tuple(_make_needles(value))


def _make_needles(value: str) -> Iterator[_Needle]:
    yield _needle(value, is_base64=False)
    data = value.encode("utf-8", "surrogatepass")
    for before, core, after in base64_cores(data):
        for spelling in {core, core.translate(_TO_URLSAFE)}:
            yield _needle(spelling, is_base64=True, before=before, after=after)
    for spelling in {data.hex(), data.hex().upper()}:
        yield _needle(spelling, is_base64=False)


def _needle(text: str, *, is_base64: bool, before: int = 0, after: int = 0) -> _Needle:
    is_run = runs_of(text) == [(0, len(text))] and bool(text.strip("0123456789abcdef-"))
    return _Needle(text, is_run, is_base64, before, after)


def base64_cores(data: bytes) -> Iterator[tuple[int, str, int]]:
    """For each alignment, the characters that the value alone decides, and how many it shares."""
    for offset in range(3):
        padded = binascii.b2a_base64(bytes(offset) + data + bytes(-(offset + len(data)) % 3), newline=False)
        first, shares_first = divmod(offset * 8, 6)
        last, shares_last = divmod((offset + len(data)) * 8, 6)
        start = first + (shares_first > 0)
        yield int(shares_first > 0), padded[start:last].decode(), int(shares_last > 0)


def _occurrences(text: str, needle: _Needle) -> Iterator[Span]:
    start = text.find(needle.text)
    while start >= 0:
        end = start + len(needle.text)
        if needle.is_base64:
            begin = start - needle.before if _is_run_at(text, start - 1) else start
            end += needle.after if _is_run_at(text, end) else 0
            padding = _BASE64_END.match(text, end)
            yield begin, padding.end() if padding else end
        else:
            yield start, end
        start = text.find(needle.text, end)


def _around(escape: re.Pattern[str], text: str, reach: int) -> Iterator[Span]:
    """The parts of a text in which an escape is never further away than ``reach``."""
    start = end = 0
    for match in escape.finditer(text):
        if match.start() - reach > end:
            if end:
                yield start, end
            start = match.start() - reach
        end = match.end() + reach
    if end:
        yield start, end


def _is_run_at(text: str, index: int) -> bool:
    return 0 <= index < len(text) and _IN_RUN.match(text, index) is not None


def any_spelling(value: str) -> str:
    r"""An expression for a value, each of its characters in any spelling.

    As it is, behind backslashes unless it is a letter or digit, as ``\uXXXX`` behind any number of them,
    as ``%XX`` with the percent sign escaped again or not. Each alternative begins with a literal, so that
    a text is skipped through to the next of those; repetitions are bounded or possessive, so that it
    takes linear time.
    """
    parts = []
    is_after_backslash = False
    for match in re.finditer(r"\\+|[^\\]", value):
        is_backslash = match[0][0] == "\\"
        if is_backslash:
            parts.append(rf"(?:\\\\{{0,31}}+(?:u005[cC])?|{_percent(chr(92))}){{1,{len(match[0])}}}+")
        else:
            parts.append(_spellings(match[0], is_after_backslash))
        is_after_backslash = is_backslash
    return "".join(parts)


def _spellings(character: str, is_after_backslash: bool) -> str:
    plain = "[ +]" if character == " " else re.escape(character)
    units = character.encode("utf-16-be", "surrogatepass")
    code = r"\\{1,15}+".join(f"u{_any_case(units[i : i + 2].hex())}" for i in range(0, len(units), 2))
    if character in _CONTROLS:
        escaped = f"{plain}|{code}|{_CONTROLS[character]}"
    elif character.isalnum() and character.isascii():
        escaped = code
    else:
        escaped = f"{plain}|{code}"
    bare = f"{plain}|{escaped}" if is_after_backslash else plain
    return rf"(?:{bare}|\\\\{{0,14}}+(?:{escaped})|{_percent(character)})"


def _percent(character: str) -> str:
    data = character.encode("utf-8", "surrogatepass")
    return "".join(rf"(?:%|\\\\{{0,14}}+u0025)(?:25){{0,4}}{_any_case(f'{byte:02x}')}" for byte in data)


def _any_case(digits: str) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)
