"""What is wrong with outputs and arguments by themselves, whatever was there before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cortex_replay.behaviour.values import Nothing, Path, Value, place_of
from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.schemas import SchemaProblem, problems_of

__all__ = ["Breaches", "Held", "hold"]

Breaches = Mapping[str, SchemaProblem]
"""What is wrong, by the place in a value without numbers of items."""


@dataclass(frozen=True, slots=True)
class Held:
    """A place at which a value of some answer breaks its schema."""

    place: str
    messages: tuple[Value, ...]
    """Of each answer, what is wrong there; ``ABSENT`` where nothing is, ``UNKNOWN`` where it has no say."""
    shown: tuple[Value, ...]
    """Of each answer, what stands there; ``UNKNOWN`` where it has no value at all."""


def hold(values: Sequence[Value], schemas: Sequence[JsonValue], *, no_json: str) -> Iterator[Held]:
    """Hold values against their schemas.

    Args:
        values: One of each answer. ``ABSENT``: it has none, and none is needed; ``UNKNOWN``: it has no say.
        schemas: Of each answer. A text where a schema wants an object is JSON that could not be read.
        no_json: How that is told; "" where a text may stand there.
    """
    found = [_breaches(value, schema, no_json) for value, schema in zip(values, schemas, strict=True)]
    for place in dict.fromkeys(place for one in found for place in one):
        path = next(one[place].path for one in found if place in one)
        messages = tuple(
            Nothing.UNKNOWN
            if value is Nothing.UNKNOWN
            else one[place].message
            if place in one
            else Nothing.ABSENT
            for value, one in zip(values, found, strict=True)
        )
        yield Held(place, messages, tuple(_at(value, path) for value in values))


def _breaches(value: Value, schema: JsonValue, no_json: str) -> Breaches:
    if isinstance(value, Nothing):
        return {}
    if no_json and isinstance(value, str) and schema is not None:
        return {"": SchemaProblem((), no_json)}
    found: dict[str, SchemaProblem] = {}
    for problem in problems_of(value, schema):
        found.setdefault(place_of(problem.path, numbered=False), problem)
    return found


def _at(value: Value, path: Path) -> Value:
    """What stands at a path."""
    if isinstance(value, Nothing):
        return Nothing.UNKNOWN
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return Nothing.ABSENT
    return value
