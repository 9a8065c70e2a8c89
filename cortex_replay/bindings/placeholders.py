"""Placeholders: how they are written, escaped, cut in pieces and filled.

A placeholder is ``⟦name⟧``, ``⟦name#2⟧`` for the second of several values of one shape, ``⟦name:form⟧`` where
the value is written in another form than its plain one. A value that a stream cuts in two stands in both
pieces: ``⟦cwd|0-7⟧`` and ``⟦cwd|7-⟧`` are its first seven characters and the rest. No character of it has to
be escaped in JSON. What stands between the brackets, without a cut, is a *token*. ``⟦cwd~a⟧`` is a value that
its JSON spells in a style of its own (:mod:`.spelling`), so that the very bytes come back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from cortex_replay.bindings.spelling import NO_JSON, SPELLING, is_plain, spell

__all__ = [
    "CLOSE",
    "ESCAPE",
    "OPEN",
    "Filling",
    "Mark",
    "escape_literals",
    "has_literal",
    "is_same_when_bound",
    "join_pieces",
    "marks_in",
    "name_of",
    "placeholder",
    "rename_tokens",
    "tokens_in",
]

OPEN: Final = "⟦"
CLOSE: Final = "⟧"
ESCAPE: Final = "escape"
"""Stands among the names of a recording's bindings where literal text of this form was escaped."""

_BODY: Final = r"[a-z][a-z0-9_-]{0,63}(?:#[1-9][0-9]{0,5})?(?::[a-z0-9]{1,16})?"
_STYLE: Final = rf"(?:~(?P<spelling>{SPELLING}))?"
_CUT: Final = rf"{_STYLE}(?:\|(?P<start>[0-9]{{1,6}})-(?P<end>[0-9]{{0,6}}))?"
_PLACEHOLDER: Final = re.compile(rf"{OPEN}(?P<token>{_BODY}){_CUT}{CLOSE}")
_LITERAL: Final = re.compile(rf"{OPEN}(?P<more>=*)(?P<token>{_BODY}){_CUT}{CLOSE}")
_PIECES: Final = re.compile(rf"(?:{OPEN}{_BODY}(?:~{SPELLING})?(?:\|[0-9]{{1,6}}-[0-9]{{0,6}})?{CLOSE})+")


def placeholder(token: str, start: int | None = None, end: int | None = None, spelling: str = "") -> str:
    """A placeholder; with a start, for a part of the value."""
    style = f"~{spelling}" if spelling else ""
    cut = "" if start is None else f"|{start}-{'' if end is None else end}"
    return f"{OPEN}{token}{style}{cut}{CLOSE}"


def name_of(token: str) -> str:
    """The name of the binding that a token is of."""
    return token.partition("#")[0].partition(":")[0]


def tokens_in(text: str) -> list[str]:
    """The tokens of all placeholders in a text, in order."""
    return [match["token"] for match in _PLACEHOLDER.finditer(text)] if OPEN in text else []


def has_literal(text: str, names: Collection[str]) -> bool:
    """Whether a text holds by itself what looks like a placeholder of one of these bindings."""
    return OPEN in text and any(
        match["more"] or name_of(match["token"]) in names for match in _LITERAL.finditer(text)
    )


def escape_literals(text: str) -> str:
    """Text that is to stay as it is, whatever it looks like; filling undoes it."""
    return _LITERAL.sub(lambda match: f"{OPEN}={match[0][1:]}", text) if OPEN in text else text


def rename_tokens(text: str, rename: Callable[[str], str | None], *, is_escaping: bool) -> str:
    """Stored text with other tokens in its placeholders, whole ones and pieces.

    Args:
        text: As it is stored.
        rename: The new token of one; ``None`` for what only looks like a placeholder.
        is_escaping: Whether such text is to be escaped.
    """

    def write(match: re.Match[str]) -> str:
        token = match["token"]
        new = None if match["more"] else rename(token)
        if new is not None:
            return f"{OPEN}{new}{match[0][len(OPEN) + len(token) :]}"
        return f"{OPEN}={match[0][1:]}" if is_escaping else match[0]

    return _LITERAL.sub(write, text) if OPEN in text else text


def join_pieces(text: str) -> str:
    """The text with each value that was cut in pieces in one placeholder.

    Only what adds up to the whole value is joined: a reader must not take a part for it. The style of the
    outermost string is left out, too, since it makes no difference to what is read.
    """
    is_marked = OPEN in text and ("|" in text or "~" in text)
    return _PIECES.sub(lambda match: _join(match[0]), text) if is_marked else text


def is_same_when_bound(one: str, other: str) -> bool:
    """Whether two texts say the same, of which one may be cut, and spelled in another style: there, values
    stand in pieces, and what looks like a placeholder is not escaped where it is cut."""
    return one == other or _plain_form(one) == _plain_form(other)


def _plain_form(text: str) -> str:
    def simplify(match: re.Match[str]) -> str:
        cut = "" if match["start"] is None else f"|{match['start']}-{match['end']}"
        return f"{OPEN}{match['token']}{cut}{CLOSE}"

    return join_pieces(_LITERAL.sub(simplify, text))


def _join(pieces: str) -> str:
    made: list[str] = []
    row: list[Mark] = []
    for _, _, mark in marks_in(pieces):
        if row and (mark.token, mark.inner, mark.start) != (row[-1].token, row[-1].inner, row[-1].end):
            made += (one.text for one in row)
            row = []
        row.append(mark)
        if mark.end is None:
            is_whole = row[0].start == 0 and mark.styles[:1] != (NO_JSON,)
            made += [placeholder(mark.token, spelling=mark.inner)] if is_whole else (one.text for one in row)
            row = []
    return "".join([*made, *(one.text for one in row)])


class Mark(NamedTuple):
    """A placeholder in a text, or literal text that was escaped because it looks like one."""

    text: str
    token: str
    is_escaped: bool
    styles: tuple[str, ...]
    """How the strings around it are spelled, from the outermost inwards, as far as they are in a style."""
    start: int
    end: int | None
    """Which part of the value, as it is spelled within the outermost string."""

    @property
    def inner(self) -> str:
        """The styles without that of the outermost string."""
        return f".{'.'.join(self.styles[1:])}" if len(self.styles) > 1 else ""


def marks_in(text: str) -> Iterator[tuple[int, int, Mark]]:
    """The placeholders of a text, and where they start and end."""
    for match in _LITERAL.finditer(text) if OPEN in text else ():
        yield *match.span(), _mark(match)


def _mark(match: re.Match[str]) -> Mark:
    return Mark(
        match[0],
        match["token"],
        bool(match["more"]),
        tuple(match["spelling"].split(".")) if match["spelling"] else (),
        int(match["start"] or 0),
        int(match["end"]) if match["end"] else None,
    )


@dataclass(frozen=True, slots=True)
class Filling:
    """The values that stand behind placeholders, by token."""

    values: Mapping[str, str]

    def text(self, text: str, names: Collection[str]) -> str:
        """The text with the placeholders of these bindings filled, and literals as they were.

        A placeholder without a value stays: it is better seen than taken for nothing. Values go in as they
        are: see :meth:`needs_escapes`.
        """
        return self.filler(names)(text)

    def filler(self, names: Collection[str]) -> Callable[[str], str]:
        """What does the same for many texts."""
        filled: dict[str, str] = {}

        def fill(match: re.Match[str]) -> str:
            written = filled.get(match[0])
            if written is None:
                written = filled[match[0]] = self.fill(_mark(match), names)
            return written

        return lambda text: _LITERAL.sub(fill, text) if OPEN in text else text

    def fill(self, mark: Mark, names: Collection[str], depth: int = 0, *, is_json: bool = False) -> str:
        """What stands for one placeholder.

        Args:
            mark: The placeholder.
            names: The bindings that are filled.
            depth: How many strings are around it, one in another, but for that of the document itself.
            is_json: Whether it stands in a string of a document, so that the value has to be escaped.
        """
        if mark.is_escaped:
            return f"{OPEN}{mark.text[2:]}" if ESCAPE in names else mark.text
        value = self.values.get(mark.token) if name_of(mark.token) in names else None
        if value is None:
            return mark.text
        outer, *inner = mark.styles or (NO_JSON,)
        if outer == NO_JSON and is_json:
            outer = ""
        for style in reversed([*inner, *[""] * (depth - len(inner))]):
            value = spell(value, style)
        return spell(value[mark.start : mark.end], outer)

    def needs_escapes(self, texts: Iterable[str], names: Collection[str]) -> bool:
        """Whether a value that is to be filled into texts cannot stand in JSON as it is."""
        tokens = {token for text in texts for token in tokens_in(text) if name_of(token) in names}
        return not all(is_plain(self.values.get(token, "")) for token in tokens)
