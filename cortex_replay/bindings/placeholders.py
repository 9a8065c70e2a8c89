"""Placeholders: how they are written, escaped, cut in pieces and filled.

A placeholder is ``⟦name⟧``, ``⟦name#2⟧`` for the second of several values of one shape, ``⟦name:form⟧`` where
the value is written in another form than its plain one. A value that a stream cuts in two stands in both
pieces: ``⟦cwd|0-7⟧`` and ``⟦cwd|7-⟧`` are its first seven characters and the rest. No character of it has to
be escaped in JSON. What stands between the brackets, without a cut, is a *token*.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = [
    "CLOSE",
    "ESCAPE",
    "OPEN",
    "Filling",
    "escape_literals",
    "has_literal",
    "join_pieces",
    "name_of",
    "placeholder",
    "tokens_in",
]

OPEN: Final = "⟦"
CLOSE: Final = "⟧"
ESCAPE: Final = "escape"
"""Stands among the names of a recording's bindings where literal text of this form was escaped."""

_BODY: Final = r"[a-z][a-z0-9_-]{0,63}(?:#[1-9][0-9]{0,5})?(?::[a-z0-9]{1,16})?"
_CUT: Final = r"(?:\|(?P<start>[0-9]{1,6})-(?P<end>[0-9]{0,6}))?"
_PLACEHOLDER: Final = re.compile(rf"{OPEN}(?P<token>{_BODY}){_CUT}{CLOSE}")
_LITERAL: Final = re.compile(rf"{OPEN}(?P<more>=*)(?P<token>{_BODY}){_CUT}{CLOSE}")
_PIECES: Final = re.compile(
    rf"{OPEN}({_BODY})\|0-[0-9]{{1,6}}{CLOSE}(?:{OPEN}\1\|[0-9]{{1,6}}-[0-9]{{0,6}}{CLOSE})+"
)


def placeholder(token: str, start: int | None = None, end: int | None = None) -> str:
    """A placeholder; with a start, for a part of the value."""
    cut = "" if start is None else f"|{start}-{'' if end is None else end}"
    return f"{OPEN}{token}{cut}{CLOSE}"


def name_of(token: str) -> str:
    """The name of the binding that a token is of."""
    return re.split("[#:]", token, maxsplit=1)[0]


def tokens_in(text: str) -> list[str]:
    """The tokens of all placeholders in a text, in order."""
    return [match["token"] for match in _PLACEHOLDER.finditer(text)] if OPEN in text else []


def has_literal(text: str, names: Collection[str]) -> bool:
    """Whether a text holds by itself what looks like a placeholder of one of these bindings."""
    return OPEN in text and any(name_of(match["token"]) in names for match in _LITERAL.finditer(text))


def escape_literals(text: str) -> str:
    """Text that is to stay as it is, whatever it looks like; filling undoes it."""
    return _LITERAL.sub(lambda match: f"{OPEN}={match[0][1:]}", text) if OPEN in text else text


def join_pieces(text: str) -> str:
    """The text with each value that was cut in pieces in one placeholder."""
    return _PIECES.sub(rf"{OPEN}\1{CLOSE}", text) if "|" in text and OPEN in text else text


@dataclass(frozen=True, slots=True)
class Filling:
    """The values that stand behind placeholders, by token."""

    values: Mapping[str, str]

    def text(self, text: str, names: Collection[str]) -> str:
        """The text with the placeholders of these bindings filled, and literals as they were.

        A placeholder without a value stays: it is better seen than taken for nothing.
        """
        if OPEN not in text:
            return text
        is_escaped = ESCAPE in names

        def fill(match: re.Match[str]) -> str:
            if match["more"]:
                return f"{OPEN}{match[0][2:]}" if is_escaped else match[0]
            value = self.values.get(match["token"]) if name_of(match["token"]) in names else None
            if value is None:
                return match[0]
            if match["start"] is None:
                return value
            return value[int(match["start"]) : int(match["end"]) if match["end"] else None]

        return _LITERAL.sub(fill, text)
