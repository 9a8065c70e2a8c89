"""The texts of a JSON document, and where each stands.

What was one text may have become many: the deltas of a stream, the events of a wire, neighbouring text
parts. :func:`sequences` puts them together again without knowing any provider's shapes: the strings that
stand at one and the same place in each item of a list are one sequence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import orjson

from cortex_replay.canonical import JsonValue

__all__ = [
    "DEEPEST",
    "LINES",
    "TURNS",
    "Leaf",
    "PieceSequence",
    "leaves",
    "place_of",
    "rewrite",
    "sequences",
    "turn_of",
]

Path = tuple["Path", str | int] | None
"""The way to a value: the path of what holds it, and its name or number there."""

_DEEPEST_JSON: Final = 3
DEEPEST: Final = 127
"""As deep as a recording may be. What is nested deeper is searched as text only."""
_STREAMED: Final = "data:"
_FIELD: Final = re.compile(r"([A-Za-z]*+): ?(.*)")
LINES: Final = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
"""The lines of a text, as streams count them: JSON may hold the other ends of lines that Python knows."""
TURNS: Final = ("index", "output_index", "content_index", "summary_index", "contentBlockIndex", "item_id")
"""What says which of several texts an event goes on with, where they come in turns."""
_IN_WORD: Final = re.compile(r"[\w+/-]")
_LONGEST_SPLIT: Final = 2048
"""Of a secret in pieces, escaped or not."""
_MOST_LISTS: Final = 8
"""Of the lists around a string, the innermost: else deep nesting takes time that grows with its depth."""


class Leaf(NamedTuple):
    """A string of a document, or a name in it."""

    text: str
    path: Path
    is_name: bool = False

    @property
    def name(self) -> str | None:
        """What the string is called, where it is an entry of an object."""
        last = None if self.is_name or self.path is None else self.path[1]
        return last if isinstance(last, str) else None


class PieceSequence(NamedTuple):
    """Strings that may be pieces of one text."""

    place: str
    pieces: list[str]
    is_conversation: bool
    """Whether they come from messages, each of which is a text of its own."""

    @property
    def neighbours(self) -> list[tuple[str, str]]:
        """Each string of a plain list, or of a stream of plain texts, and what follows it: a secret may begin
        with any, whatever the one before ends in."""
        return list(_pairs(self.pieces)) if self.place.endswith(("[]", ".data")) else []

    @property
    def readings(self) -> list[str]:
        """The texts that they may be."""
        return ["".join(self.pieces), *(first + behind for first, behind in self.neighbours)]


def _pairs(pieces: list[str]) -> Iterator[tuple[str, str]]:
    """Those whose start the joined text hides, as long as that takes a few times the time to read it."""
    whole, at = "".join(pieces), 0
    left = 4 * len(whole) + 2**16
    for piece in pieces[:-1]:
        if at and piece and _IN_WORD.match(whole, at - 1):
            first = piece[-_LONGEST_SPLIT:]
            behind = whole[at + len(piece) : at + len(piece) + _LONGEST_SPLIT]
            left -= len(first) + len(behind)
            if left < 0:
                return
            yield first, behind
        at += len(piece)


def turn_of(named: Mapping[str, object]) -> str:
    """Which text an event goes on with, as a part of its place; "" if it says nothing of that."""
    if named.keys().isdisjoint(TURNS):  # most say nothing, and there are many
        return ""
    said = [f"{name}={named[name]}" for name in TURNS if isinstance(named.get(name), int | str)]
    return f"#{','.join(said)}#" if said else ""


def place_of(path: Path) -> str:
    """A path in words: ``request.messages[2].content``."""
    parts: list[str] = []
    while path is not None:
        path, last = path
        parts.append(f"[{last}]" if isinstance(last, int) else f".{last}")
    return "".join(reversed(parts)).removeprefix(".") or "the document"


def leaves(document: JsonValue) -> list[Leaf]:
    """Every string of a document, and every name in it once."""
    found: list[Leaf] = []
    _collect(document, None, found, set())
    return found


def _collect(value: JsonValue, path: Path, found: list[Leaf], names: set[str]) -> None:
    if isinstance(value, str):
        found.append(Leaf(value, path))
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in names:
                names.add(name)
                found.append(Leaf(name, path, is_name=True))
            _collect(item, (path, name), found, names)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _collect(item, (path, index), found, names)


def rewrite(value: JsonValue, change: Callable[[str, str | None], str], name: str | None = None) -> JsonValue:
    """The document with each string changed; ``change`` gets it and its name in its object."""
    if isinstance(value, str):
        return change(value, name)
    if isinstance(value, dict):
        return {key: rewrite(item, change, key) for key, item in value.items()}
    if isinstance(value, list):
        return [rewrite(item, change) for item in value]
    return value


def sequences(document: JsonValue) -> list[PieceSequence]:
    """What may be one text in several pieces, also inside strings that hold JSON or events."""
    gatherer = _Gatherer()
    gatherer.take(document, "", [], 0)
    return gatherer.found


_Pieces = dict[str, list[str]]


class _Gatherer:
    """Hands every string to each list that it stands in, under its place in the items of that list."""

    def __init__(self) -> None:
        self.found: list[PieceSequence] = []
        self._level = 0

    def take(self, value: JsonValue, place: str, lists: list[tuple[_Pieces, str]], depth: int) -> None:
        if self._level < DEEPEST:
            self._level += 1
            self._take(value, place, lists, depth)
            self._level -= 1

    def _take(self, value: JsonValue, place: str, lists: list[tuple[_Pieces, str]], depth: int) -> None:
        if isinstance(value, dict):
            if turn := turn_of(value):  # by itself, and with all others
                lists = [*lists, *((pieces, inside + turn) for pieces, inside in lists if "#" not in inside)]
            for name, item in value.items():
                if isinstance(item, str):
                    for pieces, inside in lists:
                        pieces.setdefault(f"{inside}.{name}", []).append(item)
                    self.take_json(item, f"{place}.{name}", depth)
                elif isinstance(item, dict | list):
                    below = [(pieces, f"{inside}.{name}") for pieces, inside in lists]
                    self.take(item, f"{place}.{name}", below, depth)
        elif isinstance(value, list):
            self.take_list(value, place, lists, depth)
        elif isinstance(value, str):
            for pieces, inside in lists:
                pieces.setdefault(inside, []).append(value)
            self.take_json(value, place, depth)

    def take_list(
        self, items: list[JsonValue], place: str, lists: list[tuple[_Pieces, str]], depth: int
    ) -> None:
        own: _Pieces = {}
        is_conversation = False
        for item in items:
            number = None
            if isinstance(item, dict):
                number = item.get("index")
                is_conversation = is_conversation or "role" in item
            below = [(pieces, f"{inside}[{number}]") for pieces, inside in lists]
            self.take(item, f"{place}[]", [*below, (own, "[]")][-_MOST_LISTS:], depth)
        for inside, pieces in own.items():
            if len(pieces) > 1:
                where = f"{place}{inside}".removeprefix(".")
                self.found.append(PieceSequence(where, pieces, is_conversation))
                self.take_json("".join(pieces), where, depth)

    def take_json(self, text: str, place: str, depth: int) -> None:
        if depth < _DEEPEST_JSON and _may_hold_more(text):
            inner = _json_in(text)
            if inner is not None:
                self.take(inner, f"{place}, as JSON, ", [], depth + 1)


def _may_hold_more(text: str) -> bool:
    return '{"' in text or text.startswith("[") or _STREAMED in text


def _json_in(text: str) -> JsonValue:
    """The JSON that a text is, or that of its lines; of the events of a stream their other fields, too."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            value: JsonValue = orjson.loads(text)
        except ValueError:
            pass
        else:
            return value
    documents: list[JsonValue] = []
    is_stream = text.startswith(_STREAMED) or f"\n{_STREAMED}" in text or f"\r{_STREAMED}" in text
    for line in LINES.findall(text):
        body = line.removeprefix(_STREAMED).strip()
        if body[:1] in ("{", "[", '"'):
            try:
                documents.append(orjson.loads(body))
            except ValueError:
                pass
            else:
                continue
        if is_stream and (found := _FIELD.match(line.rstrip("\r\n"))):
            documents.append({found[1]: found[2]})
    return documents or None
