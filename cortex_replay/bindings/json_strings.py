"""The strings of a JSON text, and where they stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

import orjson

from cortex_replay.bindings.spelling import units_of
from cortex_replay.canonical import JsonValue
from cortex_replay.strict_json import MAX_DEPTH

__all__ = ["JsonString", "document_strings", "strings_within"]

_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)


class JsonString:
    """A string in a text: where its content starts there, how it is spelled, and what it says."""

    __slots__ = ("__dict__", "spelled", "start", "text")

    def __init__(self, start: int, spelled: str, text: str) -> None:
        self.start = start
        self.spelled = spelled
        self.text = text

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where characters of its text stand in its spelling."""
        if len(self.spelled) == len(self.text):
            return start, end
        return self._units[start][0], self._units[end - 1][1]

    @cached_property
    def _units(self) -> list[tuple[int, int]]:
        return units_of(self.spelled)


def document_strings(text: str) -> tuple[JsonValue, list[JsonString]] | None:
    """The value that a JSON text says, and its strings in the order of the text, names among them.

    ``None`` if it is no JSON object or list, or a name stands twice in one of its objects.
    """
    if text.lstrip(" \t\r\n")[:1] not in ("{", "["):
        return None
    try:
        value: JsonValue = orjson.loads(text)
    except ValueError:
        return None
    strings = list(_strings(text))
    return (value, strings) if len(strings) == _count(value) else None


def strings_within(text: str) -> list[JsonString] | None:
    """The strings of a text that is a JSON object or list; ``None`` if it is none."""
    found = document_strings(text) if '"' in text else None
    return None if found is None else found[1]


def _strings(text: str) -> Iterator[JsonString]:
    for match in _STRING.finditer(text):
        spelled = match[1]
        said: str = orjson.loads(f'"{spelled}"') if "\\" in spelled else spelled
        yield JsonString(match.start(1), spelled, said)


def _count(value: JsonValue) -> int:
    """How many strings and names a value has; -1 if it is nested deeper than a recording may be."""
    count, level = 0, [value]
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return count
        below: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                count += len(item)
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str):
                count += 1
        level = below
    return -1 if level else count
