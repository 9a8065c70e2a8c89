r"""How JSON writers spell a text between the quotes of a string.

Most writers spell as :mod:`orjson` does. A *style* names another way, in letters: ``a`` writes what is not
ASCII as ``\uXXXX``, ``s`` writes ``\/``, ``x`` writes every character as ``\uXXXX``, ``u`` takes capital
hex digits for it, and ``n`` writes the text as it is: no JSON is around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import orjson

__all__ = ["NO_JSON", "SPELLING", "Run", "is_plain", "spell", "style_of", "style_runs", "units_of"]

NO_JSON: Final = "n"
SPELLING: Final = r"[asxun]{0,2}(?:\.[asxun]{0,2}){0,3}"
"""Styles from the outermost string inwards, as a placeholder names them."""
_STYLES: Final[tuple[str, ...]] = ("", "a", "s", "as", "au", "x", "xu")
_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
_HEX: Final = re.compile(r"\\u([0-9a-f]{4})")
_UNIT: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
_Unit = tuple[int, int]


class Run(NamedTuple):
    """A part of a value that is spelled in one style."""

    start: int
    end: int
    style: str


def is_plain(text: str) -> bool:
    """Whether a text stands in JSON as it is."""
    return _ESCAPED.search(text) is None


def spell(text: str, style: str = "") -> str:
    """A text as it stands between quotes."""
    if style == NO_JSON or (not style and is_plain(text)):
        return text
    if "x" in style:
        data = text.encode("utf-16-be")
        spelled = "".join(f"\\u{data[i : i + 2].hex()}" for i in range(0, len(data), 2))
    elif "a" in style:
        spelled = json.dumps(text)[1:-1]
    else:
        spelled = orjson.dumps(text)[1:-1].decode()
    if "s" in style:
        spelled = spelled.replace("/", "\\/")
    return _HEX.sub(lambda match: f"\\u{match[1].upper()}", spelled) if "u" in style else spelled


def units_of(spelled: str) -> list[_Unit]:
    """Where each character of a spelled text starts and ends in it."""
    return [match.span() for match in _UNIT.finditer(spelled)]


def style_of(text: str, spelled: str) -> str | None:
    """The style that spells a text so; ``None`` if none does."""
    if text == spelled and is_plain(text):
        return ""
    return next((style for style in _STYLES if spell(text, style) == spelled), None)


def style_runs(text: str, spelled: str) -> list[Run] | None:
    """The parts of a text that are spelled in one style each; ``None`` where one is spelled in none of them:
    capital and small hex digits in one character."""
    style = style_of(text, spelled)
    if style is not None:
        return [Run(0, len(text), style)]
    runs = list(_greedy_runs(text, spelled))
    return runs if "".join(spell(text[run.start : run.end], run.style) for run in runs) == spelled else None


def _greedy_runs(text: str, spelled: str) -> Iterator[Run]:
    start, fitting = 0, _STYLES
    for at, (character, (begin, end)) in enumerate(zip(text, units_of(spelled), strict=False)):
        fit = tuple(style for style in _STYLES if spell(character, style) == spelled[begin:end])
        both = tuple(style for style in fitting if style in fit)
        if not both:
            yield Run(start, at, fitting[0])
            start, both = at, fit or _STYLES
        fitting = both
    yield Run(start, len(text), fitting[0])
