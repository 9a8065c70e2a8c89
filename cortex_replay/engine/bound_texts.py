"""The texts of an answer in which values are bound, and where each stands in its bytes.

A text may stand in JSON, in a string of JSON that is a string itself (a tool's arguments), and in the deltas
of many events. Values are looked for in what a model said: decoded, and with deltas joined. What is found is
written where it stood, and nothing else changes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

from cortex_replay.bindings.json_strings import JsonString, document_strings, strings_within
from cortex_replay.bindings.placeholders import placeholder
from cortex_replay.bindings.spelling import NO_JSON, Run, style_of, style_runs
from cortex_replay.canonical import JsonValue
from cortex_replay.redact.documents import LINES, turn_of

__all__ = ["Leaf", "Section", "Spot", "leaves", "replace_spots"]

_DEEPEST: Final = 3
"""Of strings that hold JSON, one in another."""
_DATA: Final = re.compile(r"data: ?")
_EVENTS: Final = re.compile(r"(?:^|[\r\n])data:")
_FIELDS: Final = ("event:", "id:", "retry:", ":")
_STRUCTURE: Final = frozenset(
    [
        *("type", "role", "name", "object", "status", "model", "modelVersion", "event_type"),
        *("id", "item_id", "call_id", "tool_use_id", "tool_call_id", "response_id", "responseId"),
        *("finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason"),
        *("data", "signature", "thoughtSignature", "encrypted_content", "redactedContent"),
        *("media_type", "mimeType", "system_fingerprint", "service_tier"),
    ]
)
"""Fields of a wire that say what something is, ids of the server, and bytes: none holds what a model said."""
_ARGUMENTS: Final = frozenset(["input", "arguments", "args", "parameters"])
"""Fields that hold a tool's arguments, whose names are the tool's own."""
_PIECES: Final = frozenset(
    [
        *("delta", "text", "content", "response", "transcript", "refusal", "tool_plan"),
        *("thinking", "reasoning", "reasoning_content", "partial_json", "arguments", "input"),
    ]
)
"""Fields of an event that go on with a text."""

_OPENINGS: Final = {"function": "", "tool-call-start": "tool-call-delta"}
"""Kinds of what begins a text, and the kinds of what goes on with it: the first piece of a tool's arguments
may stand where the tool is named."""


class Section:
    """Texts that follow one another, such as the events of a stream.

    Args:
        texts: Each as it is stored.
        is_stream: Whether they hold events, which go on with what others say at the same place.
        is_plain: Whether they are one text in pieces, and no documents.
    """

    def __init__(self, texts: Sequence[str], *, is_stream: bool = False, is_plain: bool = False) -> None:
        self.texts = list(texts)
        self.is_stream = is_stream
        self.is_plain = is_plain

    @cached_property
    def whole(self) -> str:
        return "".join(self.texts)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self.texts)))

    def place(self, start: int, end: int) -> tuple[int, int, int] | None:
        """Which of its texts a part of the whole stands in, and where; ``None`` if in several."""
        number = bisect_right(self._ends, start)
        before = self._ends[number - 1] if number else 0
        return (number, start - before, end - before) if end <= self._ends[number] else None


class _Piece(NamedTuple):
    """One of the places over which a text is spread: a string of a document, or plain text."""

    section: Section
    string: JsonString
    is_json: bool


class Spot(NamedTuple):
    """Where a part of a value stands in a text that is stored."""

    section: Section
    number: int
    """Which of the section's texts."""
    start: int
    end: int
    cut: tuple[int, int | None] | None
    """Which part of the value it is; ``None`` for the whole."""
    spelling: str
    """The styles of its strings."""

    def placeholder(self, token: str) -> str:
        """What stands here for a value."""
        start, end = self.cut or (None, None)
        return placeholder(token, start, end, self.spelling)


class _Channel:
    """A text in pieces."""

    def __init__(self, pieces: list[_Piece], *, is_bound: bool = True) -> None:
        self.pieces = pieces
        self.is_bound = is_bound
        self.text = "".join(piece.string.text for piece in pieces)
        self._ends = list(accumulate(len(piece.string.text) for piece in pieces))

    def spots(self, start: int, end: int, inner: list[str]) -> list[Spot] | None:
        """Where a part of it stands; the last styles are those of the strings that it holds itself."""
        found: list[Spot] = []
        number, at = bisect_right(self._ends, start), start
        while at < end:
            first = self._ends[number - 1] if number else 0
            last = min(end, self._ends[number])
            if at < last:  # there are empty deltas
                spots = _spots_in(self.pieces[number], at - first, last - first, at - start, inner)
                if spots is None:
                    return None
                found += spots
            number, at = number + 1, last
        if len(found) == 1:
            return [found[0]._replace(cut=None)]
        final = found.pop()
        return [*found, final._replace(cut=final.cut and (final.cut[0], None))]


def _spots_in(piece: _Piece, first: int, last: int, offset: int, inner: list[str]) -> list[Spot] | None:
    """Where a part of a piece's text stands, as many times as it changes its style."""
    string = piece.string
    begin, end = string.span(first, last)
    runs = style_runs(string.text[first:last], string.spelled[begin:end]) if piece.is_json else None
    if runs is None and piece.is_json:
        return None
    spots: list[Spot] = []
    for run_start, run_end, style in runs or [Run(0, last - first, NO_JSON)]:
        a, b = string.span(first + run_start, first + run_end)
        place = piece.section.place(string.start + a, string.start + b)
        if place is None:
            return None
        styles = [style, *inner]
        while styles and (not styles[-1] or styles == [NO_JSON]):
            styles.pop()
        cut = offset + run_start, offset + run_end
        spots.append(Spot(piece.section, *place, cut, ".".join(styles)))
    return spots


@dataclass(frozen=True, slots=True)
class Leaf:
    """A text as it was said, decoded as often as it was encoded."""

    text: str
    channel: _Channel
    strings: tuple[JsonString, ...] = ()
    """The strings that it stands in, one in another, from the outermost on; but for those of a document."""

    @property
    def is_bound(self) -> bool:
        """Whether values are bound in it."""
        return self.channel.is_bound

    @property
    def depth(self) -> int:
        return len(self.strings)

    @property
    def is_json(self) -> bool:
        """Whether it stands in strings of documents."""
        return self.channel.pieces[0].is_json

    def is_read_otherwise(self, bound: str) -> bool:
        """Whether it is no JSON, and would be with placeholders in it: a model may forget to escape."""
        return self.depth < _DEEPEST and strings_within(bound) is not None

    def spots(self, start: int, end: int, *, is_json: bool = True) -> list[Spot] | None:
        """Where a part of the text stands; ``None`` if it is spelled so oddly that it could not be written
        there again.

        Args:
            start: Where the part starts.
            end: Where it ends.
            is_json: Whether the text may be taken for what it looks like with placeholders in it.
        """
        said = self.text[start:end]
        styles = [] if is_json else [NO_JSON] * (_DEEPEST - self.depth)
        for string in reversed(self.strings):
            a, b = string.span(start, end)
            spelled = string.spelled[a:b]
            style = style_of(said, spelled)
            if style is None:
                return None
            styles.insert(0, style)
            said, start, end = spelled, string.start + a, string.start + b
        return self.channel.spots(start, end, styles)


def leaves(sections: Iterable[Section]) -> Iterator[Leaf]:
    """What sections say; those of one stream are joined where events go on with a text."""
    for channel in _channels(sections):
        if channel.text:
            yield from _leaves(channel.text, channel, ())


def _leaves(text: str, channel: _Channel, strings: tuple[JsonString, ...]) -> Iterator[Leaf]:
    within = strings_within(text) if len(strings) < _DEEPEST else None
    if within is None:
        yield Leaf(text, channel, strings)
        return
    for string in within:
        if string.text:
            yield from _leaves(string.text, channel, (*strings, string))


def _channels(sections: Iterable[Section]) -> Iterator[_Channel]:
    joined: dict[str, list[_Piece]] = {}
    for section in sections:
        if section.is_plain:
            yield _Channel(list(_plain_pieces(section)))
            continue
        for start, text in _documents(section):
            found = document_strings(text)
            if found is None:
                yield _Channel([_Piece(section, JsonString(start, text, text), is_json=False)])
                continue
            value, strings = found
            for string, (place, is_piece, is_bound) in zip(strings, _walk(value), strict=True):
                string.start += start
                piece = _Piece(section, string, is_json=True)
                if is_piece and section.is_stream:
                    joined.setdefault(place, []).append(piece)
                else:
                    yield _Channel([piece], is_bound=is_bound)
    yield from map(_Channel, joined.values())


def _plain_pieces(section: Section) -> Iterator[_Piece]:
    start = 0
    for text in section.texts:
        yield _Piece(section, JsonString(start, text, text), is_json=False)
        start += len(text)


def _documents(section: Section) -> Iterator[tuple[int, str]]:
    """The documents of a section, and other text; each with where it starts.

    What is around a document in the lines of an event is blank, so that its strings stand where they stood.
    """
    whole = section.whole
    if not section.is_stream or document_strings(whole) is not None:
        yield 0, whole
        return
    start, at, event = 0, 0, list[str]()
    is_events = _EVENTS.search(whole) is not None
    for line in LINES.findall(whole):
        content = line.rstrip("\r\n")
        if is_events and (mark := _DATA.match(content)):
            event.append(" " * mark.end() + content[mark.end() :] + " " * (len(line) - len(content)))
        elif is_events and content.startswith(_FIELDS):
            event.append(" " * len(line))
        else:
            yield from _event(start, event)
            if content:
                yield at, content
            start, event = at + len(line), []
        at += len(line)
    yield from _event(start, event)


def _event(start: int, lines: list[str]) -> Iterator[tuple[int, str]]:
    """An event: a document, or the texts of its lines."""
    text = "".join(lines)
    if text.lstrip(" ")[:1] in ("{", "["):
        yield start, text
        return
    at = start
    for line in lines:
        content = line.strip(" ")
        if content:
            yield at + line.index(content), content
        at += len(line)


def _walk(
    value: JsonValue, place: str = "", name: str | None = None, *, is_argument: bool = False
) -> Iterator[tuple[str, bool, bool]]:
    """Of each string and each name, in the order of the text: its place in all documents of a stream, whether
    it is a piece of the text there, and whether values are bound in it.

    Gemini's parts go on with one another, wherever they stand in a list.
    """
    if isinstance(value, str):
        is_bound = is_argument or name not in _STRUCTURE
        yield place, name in _PIECES and not is_argument, is_bound
    elif isinstance(value, list):
        for position, item in enumerate(value):
            number = item.get("index", position) if isinstance(item, dict) and name != "parts" else ""
            yield from _walk(item, f"{place}[{number}]", name, is_argument=is_argument)
    elif isinstance(value, dict):
        here = place if is_argument else f"{place}{_turn(value)}"
        for key, item in value.items():
            yield "", False, is_argument
            inside = is_argument or (key in _ARGUMENTS and isinstance(item, dict | list))
            yield from _walk(item, f"{here}.{key}", key, is_argument=inside)


def _turn(document: dict[str, JsonValue]) -> str:
    """Which text a document goes on with: that of its kind, and of its turn."""
    kind = document.get("type")
    kind = _OPENINGS.get(kind, kind) if isinstance(kind, str) else ""
    thought = "#thought#" if document.get("thought") is True else ""
    return f"{kind}{thought}{turn_of(document)}"


def replace_spots(
    edits: Iterable[tuple[Spot, str]], sections: Iterable[Section], rest: Callable[[str], str]
) -> list[list[str]]:
    """The texts of each section with some parts replaced, and the rest changed by a function."""
    by_text: dict[tuple[int, int], list[tuple[Spot, str]]] = {}
    for spot, written in edits:
        by_text.setdefault((id(spot.section), spot.number), []).append((spot, written))
    return [
        [
            _replace(text, by_text.get((id(section), number), []), rest)
            for number, text in enumerate(section.texts)
        ]
        for section in sections
    ]


def _replace(text: str, edits: list[tuple[Spot, str]], rest: Callable[[str], str]) -> str:
    made, at = list[str](), 0
    for spot, written in sorted(edits, key=lambda edit: edit[0].start):
        made += [rest(text[at : spot.start]), written]
        at = spot.end
    return "".join([*made, rest(text[at:])])
