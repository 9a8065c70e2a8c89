"""Whether a known value is still there: the last question before anything is written.

It is asked by other means than those that removed the values, so that one mistake cannot be in both:
there, a text is decoded with a map back to where each character came from; here, each value becomes an
expression of all its spellings, escapes are peeled off without regard for what else they break, and
every long run is decoded as base64 by itself.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final
from urllib.parse import unquote

from cortex_replay.redact.known import any_spelling

__all__ = ["Leftovers"]

_DEEPEST: Final = 4
_WRAPPING: Final = re.compile(r"(?<=[A-Za-z0-9+/_-])(?:\\{1,15}+[rn]|[\r\n])++[ \t]{0,16}(?=[A-Za-z0-9+/_-])")
_CODE: Final = re.compile(r"\\++[ux]((?<=u)[0-9A-Fa-f]{4}|(?<=x)[0-9A-Fa-f]{2})")


class Leftovers:
    """Looks for known values; a class because what it looks for is prepared once."""

    def __init__(self, values: tuple[str, ...]) -> None:
        self._values = values
        self._data = [value.encode("utf-8", "surrogatepass") for value in values]
        shortest = min(map(len, self._data), default=0)
        self._base64 = re.compile(rf"[A-Za-z0-9+/_-]{{{shortest * 8 // 6},}}+")

    @cached_property
    def _spellings(self) -> list[re.Pattern[str]]:
        """Compiled when a text with escapes is first met: it takes some milliseconds."""
        return [re.compile(any_spelling(value)) for value in self._values]

    def are_in(self, text: str) -> bool:
        """Whether any value stands in a text, in any encoding."""
        if not self._values:
            return False
        if any(value in text for value in self._values):
            return True
        readings = [text]
        if "%" in text or "\\" in text:
            if any(spelling.search(text) for spelling in self._spellings):
                return True
            readings += _peeled(text)
        return any(
            any(value in reading for value in self._values) or self._is_encoded_in(reading)
            for reading in readings
        )

    def _is_encoded_in(self, text: str) -> bool:
        if "\n" in text or "\r" in text:
            text += "\0" + _WRAPPING.sub("", text)
        for match in self._base64.finditer(text):
            run = match[0].replace("-", "+").replace("_", "/")
            for skipped in range(4):
                whole = run[skipped:]
                data = binascii.a2b_base64(whole + "A" * (-len(whole) % 4))
                if any(value in data for value in self._data):
                    return True
            if any(value.hex() in match[0].lower() for value in self._data):
                return True
        return False


def _peeled(text: str) -> Iterator[str]:
    """The text with a layer of escapes less, and another, until there are none."""
    for _ in range(_DEEPEST):
        peeled = _CODE.sub(lambda match: chr(int(match[1], 16)), unquote(text, errors="replace"))
        if peeled == text:
            break
        text = peeled
        yield text
    yield text.replace("\\", "")
