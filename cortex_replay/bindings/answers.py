"""Finding the values of a request again in its answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cortex_replay.bindings.binder import Binding
from cortex_replay.bindings.finder import Found
from cortex_replay.bindings.placeholders import OPEN, placeholder
from cortex_replay.bindings.shapes import SHAPES, SHORTEST_ECHO

__all__ = ["AnswerFinder", "Place"]

_OF_CLOCK: Final = frozenset(["date", "time", "epoch"])
"""What tells a model which day it is."""
_LETTER: Final = re.compile("[0-9A-Za-z]")


class Place(NamedTuple):
    """Where a bound value stands in a text, and what stands for it."""

    start: int
    end: int
    token: str


class AnswerFinder:
    """Finds what is bound in an answer: what is known anywhere, and of what is numbered what the request has.

    An id that the server made up is no value of the surroundings: there is nothing to fill it with.

    Args:
        binding: What is bound in the request.
        is_told: Whether who answers knows the day from the request only, as a model does. Where that has
            none of today, a date in the answer is the result of something, and today's by chance.
    """

    def __init__(self, binding: Binding, *, is_told: bool = False) -> None:
        self._binding = binding
        self._has_day = not is_told or not _OF_CLOCK.isdisjoint(binding.names)
        self._numbered: dict[str, str] = {}
        for token, text in binding.numbering.values.items():
            shape = SHAPES.get(token.partition("#")[0])
            is_new = not text.startswith(OPEN)  # a placeholder of a stored request is none in its answer
            if is_new and shape is not None and not shape.is_measured and len(text) >= SHORTEST_ECHO:
                self._numbered.setdefault(text, token)
        # Not one pattern of all: a request may have many thousands.
        firsts = re.escape("".join(sorted({text[0] for text in self._numbered})))
        self._start = re.compile(rf"(?<![0-9A-Za-z])[{firsts}]") if firsts else None
        self._lengths = sorted(set(map(len, self._numbered)), reverse=True)

    def look_for_literals(self, texts: Iterable[str]) -> None:
        """See whether text looks like a placeholder by itself: then all such text is escaped."""
        if not self._binding.is_escaping and any(map(self._binding.is_literal, texts)):
            self._binding.is_escaping = True

    def literal(self, text: str) -> str:
        """Text in which nothing is bound, as it is stored."""
        return self._binding.literal(text)

    def find(self, text: str) -> list[Place]:
        """What is bound in a text, in order; the longest where two overlap."""
        token = self._binding.numbering.token
        places = [
            Place(one.start, one.end, token(one, text[one.start : one.end])) for one in self._known(text)
        ]
        if self._start is not None:
            places += self._find_numbered(text, self._start)
            places.sort(key=lambda place: (place.start, -place.end))
        kept: list[Place] = []
        for place in places:
            if not kept or place.start >= kept[-1].end:
                kept.append(place)
        return kept

    def _find_numbered(self, text: str, start: re.Pattern[str]) -> Iterator[Place]:
        for first in start.finditer(text):
            at = first.start()
            for length in self._lengths:
                end = at + length
                token = self._numbered.get(text[at:end]) if end <= len(text) else None
                if token is not None and not _LETTER.match(text, end):
                    yield Place(at, end, token)
                    break

    def _known(self, text: str) -> Iterator[Found]:
        """What is known; also within what has a shape, such as a path below the working directory."""
        for found in self._binding.finder.find(text):
            if found.name not in SHAPES:
                if found.name != "date" or self._has_day:
                    yield found
                continue
            for inner in self._binding.finder.find(text[found.start : found.end]):
                if inner.name not in SHAPES and (inner.name != "date" or self._has_day):
                    yield inner._replace(start=found.start + inner.start, end=found.start + inner.end)

    def write(self, text: str, places: Iterable[Place]) -> str:
        """A text with placeholders."""
        made, at = list[str](), 0
        for start, end, token in places:
            made += [self.literal(text[at:start]), placeholder(token)]
            at = end
        return "".join([*made, self.literal(text[at:])])
