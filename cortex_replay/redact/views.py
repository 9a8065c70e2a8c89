r"""A text as others would read it: with escapes undone, with base64 decoded.

A secret hides from a search in ``%73%6b``, in ``\u0073``, in JSON inside JSON, in the value of a Basic
header. So the search looks at views: other texts made from the one at hand, each of which knows where
its characters came from. Making one costs time linear in the text; a text without escapes and
without long unbroken runs of letters has none.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Final, Protocol

__all__ = [
    "SHORTEST_RUN",
    "Span",
    "View",
    "ascii_bytes",
    "base64_views",
    "decode_base64",
    "is_plain_id",
    "runs_of",
    "unescape",
]

Span = tuple[int, int]
"""Start and end of a part of a text."""

SHORTEST_RUN: Final = 20
"""Every token has a run of this length; the rules for what is shorter say so."""
_FEW_CAPITALS: Final = 3
_WRAPPED_FROM: Final = 56
"""A line of base64 of this length may go on in the next one."""

_RUN_CHARACTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_IN_RUN: Final = bytes(ord("#") if code in _RUN_CHARACTERS else ord(" ") for code in range(256))
_SMALL: Final = b"abcdefghijklmnopqrstuvwxyz+/-_"
_NEEDLE: Final = b"#" * SHORTEST_RUN
_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_HEX: Final = "0123456789abcdef"
_LINE_END: Final = re.compile(r"(?:\r?\n[ \t]{0,16}){1,2}")
_MOST_BETWEEN: Final = 36
# Each begins with a literal, so that a text is skipped through to the next of those.
_PERCENT: Final = re.compile("%[0-9A-Fa-f]{2}")
_BACKSLASH: Final = re.compile(
    r"\\(?:\\*+(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[bfnrt]|[!-/:-@\[\]^_`{-~])|\\++)"
)
_MOST_KEPT: Final = 4096
_CONTROLS: Final = dict(zip("bfnrt", "\b\f\n\r\t", strict=True))


class View(Protocol):
    """Another reading of a text."""

    @property
    def text(self) -> str:
        """What it reads."""

    def source_of(self, start: int, end: int) -> Span:
        """The part of the original text that a part of this one was made from."""


def ascii_bytes(text: str) -> bytes:
    """One byte per character, and ASCII where the text is."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("ascii", "replace")


def decode_base64(text: str) -> bytes:
    """What base64 without its padding stands for; nothing if it is none."""
    try:
        return binascii.a2b_base64(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


def runs_of(text: str) -> list[Span]:
    """Where letters, digits and ``+/-_`` stand together unbroken, as in every token and all base64.

    Runs that are words (a path, the long name of a function) are left out: no digit, few capitals.
    """
    data = ascii_bytes(text)
    classes = data.translate(_IN_RUN)
    found = []
    start = classes.find(_NEEDLE)
    while start >= 0:
        end = classes.find(b" ", start + SHORTEST_RUN)
        if end < 0:
            end = len(classes)
        telling = data[start:end].translate(None, _SMALL)
        if len(telling) > _FEW_CAPITALS or (telling and not telling.isalpha()):
            found.append((start, end))
        start = classes.find(_NEEDLE, end)
    return found


def is_plain_id(run: str) -> bool:
    """Whether a run is a digest or a UUID and nothing else: common, and never base64 of a text."""
    return not run.strip(_HEX) or (run[8:9] == run[13:14] == "-" and not run.strip(_HEX + "-"))


class _Meanings(dict[str, str]):
    """What each escape stands for: always one character."""

    def __missing__(self, escape: str) -> str:
        body = escape.lstrip("\\")
        if escape[0] == "%" or len(body) > 1:
            meaning = chr(int(body[1:], 16))
        else:
            meaning = _CONTROLS.get(body, body) or "\\"
        if len(self) < _MOST_KEPT and len(escape) <= 8:
            self[escape] = meaning
        return meaning


_MEANINGS: Final = _Meanings()


class _EscapeView:
    """Each escape of one kind became one character, everything else stayed."""

    def __init__(self, original: str, escape: re.Pattern[str]) -> None:
        self.text = escape.sub(lambda match: _MEANINGS[match[0]], original)
        self._original = original
        self._escape = escape
        self._escapes: list[Span] | None = None
        self._places: list[int] = []

    def source_of(self, start: int, end: int) -> Span:
        if self._escapes is None:  # only a hit needs to know
            self._escapes = [match.span() for match in self._escape.finditer(self._original)]
            saved = accumulate((end - start - 1 for start, end in self._escapes), initial=0)
            self._places = [start - less for (start, _), less in zip(self._escapes, saved, strict=False)]
        return self._character(self._escapes, start)[0], self._character(self._escapes, end - 1)[1]

    def _character(self, escapes: list[Span], index: int) -> Span:
        number = bisect_right(self._places, index) - 1
        if number < 0:
            return index, index + 1
        start, end = escapes[number]
        distance = index - self._places[number]
        return (start, end) if distance == 0 else (end + distance - 1, end + distance)


class _NestedView:
    """First the one kind of escapes was undone, then the other."""

    def __init__(self, first: _EscapeView, second: _EscapeView) -> None:
        self.text = second.text
        self._first = first
        self._second = second

    def source_of(self, start: int, end: int) -> Span:
        return self._first.source_of(*self._second.source_of(start, end))


def unescape(text: str) -> View | None:
    """The text with ``%XX`` undone once, and JSON's escapes however often they were escaped again.

    Nothing if that changes nothing. What is still escaped then is undone in a view of the view.
    """
    view: _EscapeView | None = None
    if "%" in text:
        percent = _EscapeView(text, _PERCENT)
        view = percent if percent.text != text else None
    before = view.text if view else text
    if "\\" in before:
        backslash = _EscapeView(before, _BACKSLASH)
        if backslash.text != before:
            return _NestedView(view, backslash) if view else backslash
    return view


class _Base64View:
    """All base64 of a text, one run after the other, with some zeros between them."""

    def __init__(self, text: str, shift: int, at: list[int], pieces: list[Span]) -> None:
        self.text = text
        self._shift = shift
        self._at = at
        self._pieces = pieces

    def source_of(self, start: int, end: int) -> Span:
        first = (start * 8 + self._shift) // 6
        last = (end * 8 + self._shift - 1) // 6
        return self._character(first), self._character(last) + 1

    def _character(self, index: int) -> int:
        number = max(bisect_right(self._at, index) - 1, 0)
        start, end = self._pieces[number]
        return min(start + index - self._at[number], end - 1)


def base64_views(text: str, runs: Iterable[Span]) -> Iterator[View]:
    """What the runs say if they are base64, of either alphabet, padded or not.

    Runs that are plain ids are to be left out. There are four views, because a run may begin before
    its base64 does (in a path, after a dash) or after (in a text that was cut): each reads the same
    bits from another one on.
    """
    at: list[int] = []
    pieces: list[Span] = []
    parts: list[str] = []
    size = 0
    for start, end in runs:
        if pieces and not _is_continuation(text, pieces[-1], start):
            padding = 4 + -size % 4
            parts.append("A" * padding)
            size += padding
        at.append(size)
        pieces.append((start, end))
        parts.append(text[start:end])
        size += end - start
    if not pieces:
        return
    parts.append("A" * (4 + -size % 4))
    data = binascii.a2b_base64("".join(parts).encode().translate(_TO_STANDARD))
    yield _Base64View(data.decode("latin-1"), 0, at, pieces)
    bits = int.from_bytes(data)
    for shift in (2, 4, 6):
        shifted = (bits << shift).to_bytes(len(data) + 1)[1:]
        yield _Base64View(shifted.decode("latin-1"), shift, at, pieces)


def _is_continuation(text: str, line: Span, start: int) -> bool:
    """Whether a run that begins at ``start`` is the next line of the base64 that ``line`` ends."""
    if line[1] - line[0] < _WRAPPED_FROM or start - line[1] > _MOST_BETWEEN:
        return False
    return _LINE_END.fullmatch(text, line[1], start) is not None
