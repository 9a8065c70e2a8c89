"""A document redacted as a whole: its names, and texts that stand in pieces.

A text of a recording may hold JSON, or lines of it, or the events of a stream. Such a text is taken apart,
what stands in it is redacted, and it is put together again: each event stays an event, and its JSON stays
JSON. A text in which nothing was found keeps every byte.

Strings that stand at one and the same place in each item of a list may be pieces of one text, so they are
redacted joined. :func:`~cortex_replay.redact.documents.sequences` finds these by a way of its own, and is
asked afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.redact.documents import DEEPEST, LINES, turn_of

__all__ = ["redact_document"]

_DEEPEST_JSON: Final = 3
_FIELD: Final = re.compile(r"(?P<name>[A-Za-z]*+): ?")
_STREAMED: Final = re.compile(r"^data:", re.MULTILINE)


@dataclass(slots=True)
class _Text:
    """A string, and what stands in it."""

    text: str
    name: str | None = None
    """What it is called in its object."""
    parts: list[_Part] = field(default_factory=list)


@dataclass(slots=True)
class _Object:
    entries: list[tuple[_Text, _Node]]


@dataclass(slots=True)
class _Part:
    """JSON in a text, or one of its lines."""

    before: str
    """What stands in front of it, such as ``data: ``."""
    source: str
    after: str
    node: _Node
    value: Any = None
    """What the source says, where it is JSON."""
    field: str | None = None
    """Of which field of an event it is the value."""


_Node = _Text | _Object | list["_Node"] | int | float | None
_Pieces = dict[str, list[_Text]]
_RedactText = Callable[[str, str | None], str]


def redact_document(
    document: JsonValue, redact_text: _RedactText, redact_pieces: Callable[[Sequence[str]], list[str]]
) -> JsonValue:
    """The document with its strings, its names and its texts in pieces redacted.

    Args:
        document: What is to be stored.
        redact_text: Gets a string, and what it is called in its object.
        redact_pieces: Gets what may be pieces of one text, and gives as many.
    """
    tree = _parse(document, None, 0, 0)
    # Joined first: what one piece seems to hold may be half of what all of them do.
    _Joiner(redact_pieces).take(tree, [])
    _redact_leaves(tree, redact_text)
    written: JsonValue = _write(tree, redact_text)
    return written


def _parse(value: Any, name: str | None, depth: int, level: int) -> _Node:
    if isinstance(value, str):
        return _Text(value, name, _parts(value, depth))
    if isinstance(value, dict | list) and level > DEEPEST:
        raise ValueError("nested too deep")
    if isinstance(value, dict):
        return _Object([(_Text(key), _parse(item, key, depth, level + 1)) for key, item in value.items()])
    if isinstance(value, list):
        return [_parse(item, None, depth, level + 1) for item in value]
    return value  # type: ignore[no-any-return]


def _parts(text: str, depth: int) -> list[_Part]:
    """What stands in a text; nothing for a text that is only a text."""
    if depth >= _DEEPEST_JSON:
        return []
    source = text.strip()
    if source[:1] in ("{", "["):
        value, node = _load(source, depth)
        if value is not None:
            before, after = text.split(source, 1)
            return [_Part(before, source, after, node, value)]
    is_stream = _STREAMED.search(text) is not None
    lines = [_line(line, is_stream, depth) for line in LINES.findall(text)]
    return lines if is_stream or any(line.value is not None for line in lines) else []


def _line(line: str, is_stream: bool, depth: int) -> _Part:
    """A line of a stream, or of a text some lines of which are JSON."""
    text = line.rstrip("\r\n")
    start = _FIELD.match(text) if is_stream else None
    before = start[0] if start else ""
    source, after = text[len(before) :], line[len(text) :]
    value, node = _load(source, depth) if source[:1] in ("{", "[", '"') else (None, None)
    name = start["name"] if start else None
    return _Part(before, source, after, _Text(source) if value is None else node, value, name)


def _load(source: str, depth: int) -> tuple[Any, _Node]:
    """What JSON says, and the same to be changed; nothing if it is no JSON, or nested too deep."""
    try:
        value = json.loads(source)
        return value, _parse(value, None, depth + 1, 0)
    except (ValueError, RecursionError):
        return None, None


def _redact_leaves(node: _Node, redact_text: _RedactText) -> None:
    """Redact names, and strings in which nothing else stands."""
    if isinstance(node, _Text):
        for part in node.parts:
            _redact_leaves(part.node, redact_text)
        if not node.parts:
            node.text = redact_text(node.text, node.name)
    elif isinstance(node, _Object):
        for name, item in node.entries:
            _redact_leaves(name, redact_text)
            _redact_leaves(item, redact_text)
    elif isinstance(node, list):
        for item in node:
            _redact_leaves(item, redact_text)


def _values_of(node: _Object) -> dict[str, object]:
    """Its entries, with texts as texts."""
    return {name.text: value.text if isinstance(value, _Text) else value for name, value in node.entries}


class _Joiner:
    """Hands every string to each list that it stands in, under its place in the items of that list."""

    def __init__(self, redact: Callable[[Sequence[str]], list[str]]) -> None:
        self._redact = redact

    def take(self, node: _Node, lists: list[tuple[_Pieces, str]]) -> None:
        if isinstance(node, _Text):
            if node.parts:
                self._take_parts(node.parts, lists)
            else:
                for pieces, place in lists:
                    pieces.setdefault(place, []).append(node)
        elif isinstance(node, _Object):
            if turn := turn_of(_values_of(node)):  # by itself, and with all others
                lists = [*lists, *((pieces, place + turn) for pieces, place in lists if "#" not in place)]
            for name, item in node.entries:
                self.take(item, [(pieces, f"{place}.{name.text}") for pieces, place in lists])
        elif isinstance(node, list):
            self._take_list(node, lists)

    def _take_parts(self, parts: list[_Part], lists: list[tuple[_Pieces, str]]) -> None:
        own: _Pieces = {}
        for part in parts:
            if part.value is not None or part.field is not None:
                inside = f"<{part.field}>"
                below = [(pieces, f"{place}{inside}") for pieces, place in lists]
                self.take(part.node, [*below, (own, inside)])
        self._join(own)

    def _take_list(self, items: list[_Node], lists: list[tuple[_Pieces, str]]) -> None:
        own: _Pieces = {}
        is_conversation = False
        for item in items:
            number: object = None
            if isinstance(item, _Object):
                named = _values_of(item)
                number = named.get("index")
                is_conversation = is_conversation or "role" in named
            below = [(pieces, f"{place}[{number}]") for pieces, place in lists]
            self.take(item, [*below, (own, "[]")])
        if not is_conversation:  # each message is a text of its own
            self._join(own)

    def _join(self, own: _Pieces) -> None:
        for texts in own.values():
            if len(texts) > 1:
                for text, made in zip(texts, self._redact([text.text for text in texts]), strict=True):
                    text.text = made


def _write(node: _Node, redact_text: _RedactText) -> Any:
    if isinstance(node, _Text):
        if not node.parts:
            return node.text
        return redact_text("".join(_write_part(part, redact_text) for part in node.parts), node.name)
    if isinstance(node, _Object):
        made: dict[str, Any] = {}
        for name, item in node.entries:
            key, number = name.text, 2
            while key in made:  # two names of which the same is left
                key, number = f"{name.text} {number}", number + 1
            made[key] = _write(item, redact_text)
        return made
    if isinstance(node, list):
        return [_write(item, redact_text) for item in node]
    return node


def _write_part(part: _Part, redact_text: _RedactText) -> str:
    written = _write(part.node, redact_text)
    if part.value is None:
        return f"{part.before}{written}{part.after}"
    source = part.source
    if written != part.value:
        source = json.dumps(written, ensure_ascii=False, separators=(",", ":"))
    return f"{part.before}{source}{part.after}"
