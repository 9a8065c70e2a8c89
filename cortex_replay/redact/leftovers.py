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
from typing import Final
from urllib.parse import unquote

from cortex_replay.redact.known import KnownValues

__all__ = ["Leftovers"]

_DEEPEST: Final = 4
_DEEPEST_BASE64: Final = 2
_WRAPPING: Final = re.compile(r"(?<=[A-Za-z0-9+/_-])(?:\\{1,15}+[rn]|[\r\n])++[ \t]{0,16}(?=[A-Za-z0-9+/_-])")
_SHORTEST_LINE: Final = 40
_RUNS_ONLY: Final = bytes(
    code if code < 128 and (chr(code).isalnum() or chr(code) in "+/-_") else ord(" ") for code in range(256)
)
_ALL_ALIKE: Final = bytes(ord(" ") if code == ord(" ") else ord("#") for code in range(256))
_CODE: Final = re.compile(r"\\++(?:[ux]((?<=u)[0-9A-Fa-f]{4}|(?<=x)[0-9A-Fa-f]{2}))?")


class Leftovers:
    """Looks for known values; a class because what it looks for is prepared once."""

    def __init__(self, known: KnownValues) -> None:
        self._known = known
        self._values = known.values
        self._data = [value.encode("utf-8", "surrogatepass") for value in known.values]
        self._shortest_run = min(map(len, self._data), default=0) * 8 // 6

    def are_in(self, text: str, nesting: int = 0) -> bool:
        """Whether any value stands in a text, in any encoding."""
        if not self._values:
            return False
        if any(value in text for value in self._values):
            return True
        readings = [text]
        if self._known.may_be_spelled_out_in(text):
            if any(spelling.search(text) for spelling in self._known.spellings):
                return True
            readings += _peeled(text)
        return any(
            any(value in reading for value in self._values) or self._is_encoded_in(reading, nesting)
            for reading in readings
        )

    def _is_encoded_in(self, text: str, nesting: int) -> bool:
        runs = _runs(text, self._shortest_run)
        if ("\n" in text or "\\" in text) and _runs(text, _SHORTEST_LINE):
            runs += _runs(_WRAPPING.sub("", text), self._shortest_run)
        return any(self._is_encoded_as(run, nesting) for run in runs)

    def _is_encoded_as(self, run: bytes, nesting: int) -> bool:
        if any(value.hex().encode() in run.lower() for value in self._data):
            return True
        standard = run.replace(b"-", b"+").replace(b"_", b"/")
        for skipped in range(4):
            whole = standard[skipped:]
            data = binascii.a2b_base64(whole + b"A" * (-len(whole) % 4))
            if any(value in data for value in self._data):
                return True
            if nesting < _DEEPEST_BASE64 and data.isascii() and self.are_in(data.decode(), nesting + 1):
                return True
        return False


def _runs(text: str, shortest: int) -> list[bytes]:
    """All that could be base64 and is long enough."""
    data = text.encode("ascii", "replace").translate(_RUNS_ONLY)
    if not data.translate(_ALL_ALIKE).count(b"#" * shortest):
        return []
    return [run for run in data.split() if len(run) >= shortest]


def _decoded(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[0]


def _peeled(text: str) -> Iterator[str]:
    """The text with a layer of escapes less, and another, until there are none."""
    for _ in range(_DEEPEST):
        peeled = _CODE.sub(_decoded, unquote(text, errors="replace"))
        if peeled == text:
            break
        text = peeled
        yield text
    yield text.replace("\\", "")
