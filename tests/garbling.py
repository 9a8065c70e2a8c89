"""Documents that nobody meant: bytes, tokens and pieces of good ones in other places."""

from __future__ import annotations

from random import Random
from typing import Final

__all__ = ["garbled"]

_WORDS: Final = (
    b'{ } [ ] " , : null true -0 1e999 1e-999 NaN \\u0000 \\ud800 \\" [[fixture]] "answers" "request"'
)
_TOKENS: Final = [
    *_WORDS.split(),
    *(b"\n", b"\x00", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b'path = "../x"'),
    *(b"9" * 400, b"[" * 2000, b'{"a":' * 2000),
]


def garbled(data: bytes, random: Random) -> bytes:
    """The same with one to four changes, each at a random place."""
    for _ in range(random.randint(1, 4)):
        start, end = sorted((random.randrange(len(data) + 1), random.randrange(len(data) + 1)))
        match random.randrange(5):
            case 0:
                data = data[:start] + bytes([random.randrange(256)]) + data[start + 1 :]
            case 1:
                data = data[:start] + random.choice(_TOKENS) + data[start:]
            case 2:
                data = data[:start] + data[end:]
            case 3:
                data = data[:end] + data[start:end] + data[end:]
            case _:
                data = data[:start] + random.choice(_TOKENS) + data[end:]
    return data
