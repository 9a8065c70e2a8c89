"""Whether a known value is still there: the last question before anything is written.

It is asked by other means than those that removed the values, so that one mistake cannot be in both: there, a
text is decoded with a map back to where each character came from, and values are looked for as they are
encoded. Here escapes are peeled off layer by layer without regard for what else they break, all of a text is
decoded as base64 at once, and the plain values are looked for in each reading. Every step takes time linear
in the text, whatever it holds, and nearly all of it is spent in C.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from typing import Final

from cortex_replay.redact.known_values import SHORTEST_KNOWN, KnownValues
from cortex_replay.redact.needles import Needles

__all__ = ["Residue"]

_MOST_LAYERS: Final = 8
_DEEPEST_BASE64: Final = 2
_LINE: Final = b"#" * 40
"""Base64 with shorter lines than this is not put together."""
_TEXT: Final = b"#" * (SHORTEST_KNOWN + 2)
"""What hides a value in another encoding is longer than the value."""
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_AS_BASE64: Final = bytes(
    code if code in _ALPHABET else {ord("-"): ord("+"), ord("_"): ord("/")}.get(code, ord("A"))
    for code in range(256)
)
_IN_RUN: Final = bytes(ord("#") if code in _ALPHABET + b"-_" else ord(" ") for code in range(256))
_IN_HEX: Final = bytes(ord("#") if code in b"0123456789abcdefABCDEF" else ord(" ") for code in range(256))
_PRINTABLE: Final = bytes(
    ord("#") if code in b"\t\n\r" or 32 <= code < 127 else ord(" ") for code in range(256)
)
_PERCENT: Final = re.compile(rb"%([0-9A-Fa-f]{2})((?:%[0-9A-Fa-f]{2})*+)")
# Not from the middle of backslashes: a long row of them would be read from each of its places.
_CODE: Final = re.compile(
    rb"(?<!\\)(?:((?:\\++u00[0-9A-Fa-f]{2})++)"
    rb"|\\++u([dD][89abAB][0-9A-Fa-f]{2})\\++u([dD][c-fC-F][0-9A-Fa-f]{2})"
    rb"|\\++(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})))"
)
_FOLDED: Final = bytes.maketrans(b"+\b\f\n\r\t", b" bfnrt")
"""A form writes a space as a plus, and JSON a tab as the letter that is left of its escape."""
_MOST_KEPT: Final = 4096


class Residue:
    """Looks for known values; a class because what it looks for is prepared once."""

    def __init__(self, known: KnownValues) -> None:
        values = [_bytes(value) for value in known.values]
        self._values = Needles(values, b" ", b'"')
        self._hex = Needles([value.hex().encode() for value in values], b" ", b'"')
        folded = map(_fold, values)
        self._folded = Needles([value for value in folded if len(value) >= SHORTEST_KNOWN], b" ", b'"')
        # A value with what escapes are made of may be another one without them; there are few such.
        self._awkward = KnownValues(value for value in known.values if "%" in value or "\\" in value)
        self._has_spaces = any(b" " in value for value in values)
        shortest = min(map(len, values), default=0)
        self._is_empty = not values
        self._base64_run = b"#" * (shortest * 8 // 6)
        self._hex_run = b"#" * (shortest * 2)

    def is_in(self, text: str) -> bool:
        """Whether any value stands in a text, in any encoding."""
        if self._is_empty:
            return False
        return self._is_in(_bytes(text), 0)

    def _is_in(self, data: bytes, nesting: int) -> bool:
        if not data:
            return False
        reading = data
        for reading in _readings(data):
            if self._values.any_in(reading) or self._is_encoded_in(reading, nesting):
                return True
            if self._has_spaces and b"+" in reading and self._folded.any_in(_without_escapes(reading)):
                return True
        if reading is not data and self._folded.any_in(_without_escapes(reading)):
            return True
        if len(self._awkward) == 0 or (b"\\" not in data and b"%" not in data):
            return False
        text = data.decode("utf-8", "replace")
        return any(spelling.search(text) for spelling in self._awkward.spellings)

    def _is_encoded_in(self, data: bytes, nesting: int) -> bool:
        classes = data.translate(_IN_RUN)
        if self._is_encoded_as(data, classes, nesting):
            return True
        if (b"\n" not in data and b"\\n" not in data) or _LINE not in classes:
            return False
        whole = data.replace(b"\\n", b"").replace(b"\\r", b"").translate(None, b"\\ \t\r\n")
        return self._is_encoded_as(whole, whole.translate(_IN_RUN), nesting)

    def _is_encoded_as(self, data: bytes, classes: bytes, nesting: int) -> bool:
        if self._base64_run not in classes:  # nor any hex, which is longer
            return False
        if self._hex_run in data.translate(_IN_HEX) and self._hex.any_in(data.lower()):
            return True
        for decoded in _decodings(data):
            if self._values.any_in(decoded):
                return True
            if nesting < _DEEPEST_BASE64 and self._is_in(_texts(decoded), nesting + 1):
                return True
        return False


def _decodings(data: bytes) -> Iterator[bytes]:
    """All of a text as base64, from each of four starts; what is none in it stands for zeros."""
    decoded = binascii.a2b_base64(data.translate(_AS_BASE64) + b"A" * (4 + -len(data) % 4))
    yield decoded
    bits = int.from_bytes(decoded)
    for shift in (2, 4, 6):
        yield (bits << shift).to_bytes(len(decoded) + 1)[1:]


def _texts(data: bytes) -> bytes:
    """What in decoded bytes could be text, line by line."""
    classes = data.translate(_PRINTABLE)
    found = []
    start = classes.find(_TEXT)
    while start >= 0:
        end = classes.find(b" ", start)
        end = len(data) if end < 0 else end
        found.append(data[start:end])
        start = classes.find(_TEXT, end)
    return b"\n".join(found)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _readings(data: bytes) -> Iterator[bytes]:
    """The text, and the text with a layer of escapes less, and another, until there are none."""
    yield data
    if b"\\" in data and b"%" in data:
        # A percent sign before a value may seem to be an escape together with its first characters.
        yield _without_codes(data).replace(b"\\", b"")
    for _ in range(_MOST_LAYERS):
        peeled = _PERCENT.sub(_from_percent, data) if b"%" in data else data
        peeled = _without_codes(peeled)
        if len(peeled) == len(data):  # every escape is longer than what it stands for
            break
        data = peeled
        yield data
    if b"\\" in data:
        yield data.replace(b"\\", b"")


def _without_codes(data: bytes) -> bytes:
    """The text with a layer of codes less. Most backslashes are before a quote or stand for a line's end."""
    return _CODE.sub(_from_code, data) if b"\\u" in data or b"\\x" in data else data


def _without_escapes(reading: bytes) -> bytes:
    return reading.replace(b"\\", b"").translate(_FOLDED)


def _fold(value: bytes) -> bytes:
    """A value as it is once every escape in it is taken for one."""
    *_, last = _readings(value)
    return _without_escapes(last)


class _Codes(dict[bytes, bytes]):
    """What the digits of a code stand for, in UTF-8."""

    def __missing__(self, digits: bytes) -> bytes:
        made = _bytes(chr(int(digits, 16)))
        if len(self) < _MOST_KEPT:
            self[digits] = made
        return made


_CODES: Final = _Codes()


def _from_percent(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex((match[0].replace(b"%", b"") if match[2] else match[1]).decode())


def _from_code(match: re.Match[bytes]) -> bytes:
    row, high, low, code, byte = match.groups()
    if row:
        return b"".join([_CODES[digits] for digits in row.replace(b"\\", b"")[1:].split(b"u")])
    if high:
        return _bytes(bytes.fromhex((high + low).decode()).decode("utf-16-be"))
    return _CODES[code or byte]
