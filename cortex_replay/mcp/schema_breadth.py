"""How many schemas one value is held against, so that a small schema cannot keep us busy for hours.

Schemas for fields and items go down into a value, which ends. Those of ``allOf``, ``$ref`` and the like are
for the same value: where each of thirty definitions refers twice to the one before, that is a billion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from cortex_replay.canonical import JsonValue

__all__ = ["is_too_broad"]

_MOST: Final = 2048
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else", "propertyNames", "contains")
_TABLES: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def is_too_broad(schema: JsonValue) -> bool:
    """Whether some value is held against too many schemas; or that cannot be told, since a reference does not
    lead from the top of the schema."""
    breadth = _Breadth(schema)
    try:
        return any(breadth.of(node) > _MOST for node in _objects(schema))
    except (LookupError, RecursionError):
        return True


class _Breadth:
    """The schemas for one value, by where it is held against them first."""

    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._known: dict[int, int] = {}

    def of(self, node: JsonValue) -> int:
        if not isinstance(node, dict):
            return 1
        known = self._known.get(id(node))
        if known is None:
            self._known[id(node)] = 1  # a circle ends at once
            known = 1 + sum(self.of(inner) for inner in self._beside(node))
            self._known[id(node)] = known = min(known, _MOST + 1)
        return known

    def _beside(self, node: dict[str, JsonValue]) -> Iterator[JsonValue]:
        for name in _LISTS:
            inner = node.get(name)
            yield from inner if isinstance(inner, list) else ()
        for name in _SINGLE:
            if name in node:
                yield node[name]
        for name in _TABLES:
            table = node.get(name)
            yield from table.values() if isinstance(table, dict) else ()
        for name in _REFERENCES:
            reference = node.get(name)
            if isinstance(reference, str):
                yield self._target(reference)

    def _target(self, reference: str) -> JsonValue:
        if reference != "#" and not reference.startswith("#/"):
            raise LookupError(reference)
        found = self._root
        for part in unquote(reference).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found[name]
            elif isinstance(found, list) and name.isdecimal():
                found = found[int(name)]
            else:
                raise LookupError(reference)
        return found


def _objects(schema: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Every object in a document, whether it is a schema or not."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
