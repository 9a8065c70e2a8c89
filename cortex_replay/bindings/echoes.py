"""Values that a rule has found at its place, and that stand elsewhere in the same conversation.

A model repeats what it has read: the process id of a tool's output comes again in its answer, and then in
each request that holds that answer. So what a rule finds is one value, wherever it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

from cortex_replay.bindings.finder import Finder, Found
from cortex_replay.bindings.shapes import SHAPES

__all__ = ["EchoFinder", "find_echoes"]

_SHORTEST: Final = 4
"""Of a value that is looked for: a shorter one stands elsewhere by chance."""


class EchoFinder:
    """Finds what another finder finds, and where that comes again.

    Args:
        finder: The other one.
        values: What it found in this conversation, each with its shape.
    """

    def __init__(self, finder: Finder, values: dict[str, str]) -> None:
        self.names = finder.names
        self._finder = finder
        self._values = values
        texts = sorted(values, key=len, reverse=True)
        self._pattern = re.compile(
            rf"(?<![0-9A-Za-z])(?:{'|'.join(map(re.escape, texts))})(?![0-9A-Za-z]|\.[0-9])"
        )

    def find(self, text: str) -> list[Found]:
        """As :meth:`Finder.find`."""
        found = self._finder.find(text)
        ends = [one.end for one in found]

        def is_free(start: int, end: int) -> bool:
            behind = bisect_right(ends, start)  # the first that ends behind the start
            return behind == len(found) or found[behind].start >= end

        matches = [match for match in self._pattern.finditer(text) if is_free(*match.span())]
        if not matches:
            return found
        return sorted([*found, *(Found(*match.span(), self._values[match[0]]) for match in matches)])


def find_echoes(finder: Finder, visit: Callable[[Callable[[str], str]], object]) -> Finder | EchoFinder:
    """What finds the values of one conversation, wherever they come again.

    Args:
        finder: What finds them at their places.
        visit: Calls a function with each text of the conversation.
    """
    values: dict[str, str] = {}

    def look(text: str) -> str:
        values.update(_values_in(text, finder.find(text)))
        return text

    visit(look)
    return EchoFinder(finder, values) if values else finder


def _values_in(text: str, found: Iterable[Found]) -> dict[str, str]:
    """What is looked for elsewhere. A measurement is not: two of them are equal by chance."""
    values = {text[one.start : one.end]: one.name for one in found if one.name in SHAPES}
    return {
        value: name
        for value, name in values.items()
        if len(value) >= _SHORTEST and not SHAPES[name].is_numbered_alone(value)
    }
