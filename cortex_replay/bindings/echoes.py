"""Values that a rule has found at its place, and that stand elsewhere in the same conversation.

A model repeats what it has read: the process id of a tool's output comes again in its answer, and then in
each request that holds that answer. So what a rule finds is one value, wherever it stands.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping

from cortex_replay.bindings.finder import Finder, Found
from cortex_replay.bindings.placeholders import OPEN, name_of
from cortex_replay.bindings.shapes import ALWAYS, SHAPES, SHORTEST_ECHO

__all__ = ["EchoFinder", "echoes_of"]


class EchoFinder:
    """Finds what another finder finds, and where that comes again.

    Args:
        finder: The other one.
        values: What it found in this conversation, each with its shape.
    """

    def __init__(self, finder: Finder, values: Mapping[str, str]) -> None:
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


def echoes_of(values: Mapping[str, str]) -> dict[str, str]:
    """What is looked for elsewhere, of what was found in a conversation; each with its shape.

    A measurement is not, since two of them are equal by chance; nor is what is found anywhere by itself.

    Args:
        values: What was found, by token.
    """
    return {
        value: name
        for token, value in values.items()
        if (name := name_of(token)) in SHAPES
        and name not in ALWAYS
        and len(value) >= SHORTEST_ECHO
        and not value.startswith(OPEN)  # what was bound before stays as it is
        and not SHAPES[name].is_numbered_alone(value)
    }
