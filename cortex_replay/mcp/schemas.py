"""How one JSON schema differs from another, told property by property, and whether arguments fit one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import orjson

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.mcp.schema_breadth import is_too_broad
from cortex_replay.mcp.wording import describe_rewording, quote_short

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["MASK", "SchemaChange", "SchemaProblem", "compare_schemas", "problem_of_arguments", "problems_of"]

MASK: Final = "a value"
"""What stands in a message for the value that is wrong."""
_DEEPEST: Final = 24
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_OTHER: Final = ("pattern", "format", "multipleOf", "uniqueItems", "not", "if", "then", "else", "allOf")
_CHOICES: Final = ("anyOf", "oneOf")
_MOST_QUOTED: Final = 8

Schema = Mapping[str, JsonValue]
_ANYTHING: Final[Schema] = {}


class SchemaChange(NamedTuple):
    """One thing that is not as it was."""

    text: str
    is_breaking: bool
    """Whether what was right before may be wrong now."""


class SchemaProblem(NamedTuple):
    """One place where a value does not fit a schema."""

    path: tuple[str | int, ...]
    """From the top of the value; to what is missing, where something is."""
    message: str
    """What is wrong there. It quotes the schema and names, but no value."""


def problem_of_arguments(arguments: JsonValue, schema: JsonValue) -> str | None:
    """Why a schema refuses the arguments of a call, if it does; or why that cannot be told."""
    if not isinstance(schema, dict | bool):
        return None
    problems = _errors({} if arguments is None else arguments, schema)
    try:
        problem = next(problems, None)
    except ValueError:
        return "the schema is none"
    if problem is None:
        return None
    place = ".".join(map(str, problem.instance_path))
    return f"{place}: {problem.message}" if place else problem.message


def problems_of(value: JsonValue, schema: JsonValue, most: int = 20) -> list[SchemaProblem]:
    """Where a value does not fit a schema; nothing where that cannot be told.

    Args:
        value: What a model or a tool said.
        schema: What it is held against. One that is no schema, or leads elsewhere, refuses nothing.
        most: How many problems are wanted.
    """
    if not isinstance(schema, dict | bool):
        return []
    try:
        return [_problem(error) for error in islice(_errors(value, schema), most)]
    except ValueError:
        return []


def _problem(error: jsonschema_rs.ValidationError) -> SchemaProblem:
    """A problem where the reader looks for it: at the property that is missing, or should be."""
    path, kind = (*error.instance_path,), error.kind
    if (missing := getattr(kind, "property", None)) is not None:
        return SchemaProblem((*path, str(missing)), "it is required, and missing")
    unexpected = getattr(kind, "unexpected", None)
    if isinstance(unexpected, list) and unexpected:
        return SchemaProblem((*path, str(unexpected[0])), "it is not allowed")
    return SchemaProblem(path, error.message)


def _errors(value: JsonValue, schema: JsonValue) -> Iterator[jsonschema_rs.ValidationError]:
    """What is wrong with a value.

    Raises:
        ValueError: The schema is none.
    """
    yield from _validator(compact(schema)).iter_errors(value)


@lru_cache(maxsize=64)
def _validator(schema: str) -> jsonschema_rs.Validator:
    import jsonschema_rs  # noqa: PLC0415 - recording needs none

    document = orjson.loads(schema)
    if is_too_broad(document):
        raise ValueError("it holds one value against too many schemas")
    # What a model said does not belong into a message, which may end up in a log.
    return jsonschema_rs.validator_for(document, retriever=_stay_here, mask=MASK)


def _stay_here(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside of the schema, and is not fetched")


def compare_schemas(before: JsonValue, after: JsonValue, *, is_output: bool = False) -> list[SchemaChange]:
    """What changed from one schema to another.

    Args:
        before: The schema that was recorded.
        after: The schema of today.
        is_output: Whether it is of what a tool gives. There a wider schema breaks who reads it; in what a
            tool takes, a narrower one breaks who calls it.
    """
    if compact(before) == compact(after):
        return []
    found = list(_Comparison(before, after, is_output=is_output).changes())
    return list(dict.fromkeys(found)) or [SchemaChange("changed in its wording alone", is_breaking=False)]


class _Comparison:
    """Two schemas, whose references stay within themselves."""

    def __init__(self, before: JsonValue, after: JsonValue, *, is_output: bool) -> None:
        self._roots = before, after
        self._is_output = is_output
        self._seen: set[tuple[int, int]] = set()

    def changes(self) -> Iterator[SchemaChange]:
        yield from self._compare(*self._roots, "", 0)

    def _change(self, path: str, text: str, *, narrows: bool = False, widens: bool = False) -> SchemaChange:
        is_breaking = widens if self._is_output else narrows
        return SchemaChange(f"{path}: {text}" if path else text, is_breaking)

    def _compare(self, before: JsonValue, after: JsonValue, path: str, depth: int) -> Iterator[SchemaChange]:
        if before == after and depth and "$ref" not in compact(before):
            return
        old, new = _resolve(self._roots[0], before), _resolve(self._roots[1], after)
        if old is None or new is None or depth > _DEEPEST:
            if compact(before) != compact(after):
                yield self._change(path, "changed", narrows=True, widens=True)
            return
        if (id(old), id(new)) in self._seen:  # a schema may refer to itself, in several places
            return
        self._seen.add((id(old), id(new)))
        yield from self._words(old, new, path)
        yield from self._values(old, new, path)
        yield from self._bounds(old, new, path)
        yield from self._properties(old, new, path, depth)
        if "items" in old or "items" in new:
            items = f"{path}[]"
            yield from self._compare(old.get("items", True), new.get("items", True), items, depth + 1)

    def _words(self, old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
        if path:  # that of the whole is the tool's own
            for name in ("title", "description"):
                if old.get(name) != new.get(name):
                    told = describe_rewording(old.get(name), new.get(name))
                    yield self._change(path, f"{name} {told}")
        if compact(old.get("default")) != compact(new.get("default")):
            was, now = (quote_short(one.get("default")) for one in (old, new))
            yield self._change(path, f"default {was} became {now}")

    def _values(self, old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
        were, are = _types(old), _types(new)
        if were != are:
            narrows, widens = not _within(were, are), not _within(are, were)
            was, now = ("|".join(sorted(one)) if one else "any" for one in (were, are))
            yield self._change(path, f"type {was} became {now}", narrows=narrows, widens=widens)
        else:
            for name in _CHOICES:
                if compact(old.get(name)) != compact(new.get(name)):
                    yield self._change(path, f"{name} changed", narrows=True, widens=True)
        allowed, allows = _enum(old), _enum(new)
        if allowed != allows:
            yield self._enum_change(allowed, allows, path)

    def _enum_change(self, old: set[str] | None, new: set[str] | None, path: str) -> SchemaChange:
        if old is None or new is None:
            given = _listed(new if old is None else old)
            text = f"allows only {given} now" if old is None else f"allows more than {given} now"
            return self._change(path, text, narrows=old is None, widens=new is None)
        gone, come = old - new, new - old
        told = [f"no longer allows {_listed(gone)}"] if gone else []
        told += [f"allows {_listed(come)}, too"] if come else []
        return self._change(path, " and ".join(told), narrows=bool(gone), widens=bool(come))

    def _bounds(self, old: Schema, new: Schema, path: str) -> Iterator[SchemaChange]:
        for names, is_upper in ((_LOWER, False), (_UPPER, True)):
            for name in names:
                was, now = old.get(name), new.get(name)
                if was == now:
                    continue
                narrows = now is not None and (was is None or _is_less(now, was) == is_upper)
                told = f"{name} {quote_short(was)} became {quote_short(now)}"
                yield self._change(path, told, narrows=narrows, widens=not narrows)
        for name in _OTHER:
            if compact(old.get(name)) != compact(new.get(name)):
                has, had = name in new, name in old
                yield self._change(path, f"{name} changed", narrows=has, widens=had)

    def _properties(self, old: Schema, new: Schema, path: str, depth: int) -> Iterator[SchemaChange]:
        had, has = _table(old.get("properties")), _table(new.get("properties"))
        needed, needs = _names(old.get("required")), _names(new.get("required"))
        is_closed = new.get("additionalProperties") is False
        for name in [*had, *(name for name in has if name not in had)]:
            place = f"{path}.{name}" if path else name
            if name not in has:
                yield self._change(place, "removed", narrows=is_closed, widens=True)
            elif name not in had:
                is_needed = name in needs
                yield self._change(place, "added, and required" if is_needed else "added", narrows=is_needed)
            else:
                if (name in needed) != (name in needs):
                    told = "became required" if name in needs else "is no longer required"
                    yield self._change(place, told, narrows=name in needs, widens=name in needed)
                yield from self._compare(had[name], has[name], place, depth + 1)
        was, now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if compact(was) != compact(now):
            told = "further properties are " + ("refused" if is_closed else "checked otherwise")
            told = "further properties are allowed" if now is True else told
            yield self._change(path, told, narrows=now is not True, widens=was is not True)


def _resolve(root: JsonValue, schema: JsonValue) -> Schema | None:
    """A schema, or what it refers to within its document; ``None`` if that is no object."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict):
            return _ANYTHING if schema is True else None
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        if not reference.startswith("#"):
            return None
        found: JsonValue = root
        for part in reference.lstrip("#/").split("/") if reference != "#" else ():
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        schema = found
    return None


def _types(schema: Schema) -> frozenset[str]:
    """The types that a schema allows; none means any."""
    given = schema.get("type")
    if isinstance(given, str):
        return frozenset([given])
    if isinstance(given, list):
        return frozenset(name for name in given if isinstance(name, str))
    for name in _CHOICES:
        choices = schema.get(name)
        if isinstance(choices, list) and choices:
            types = [_types(one) if isinstance(one, dict) else frozenset[str]() for one in choices]
            return frozenset[str]().union(*types) if all(types) else frozenset()
    return frozenset()


def _within(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether all that has one of some types has one of others."""
    if not others:
        return True
    wider = others | {"integer"} if "number" in others else others
    return bool(some) and some <= wider


def _enum(schema: Schema) -> set[str] | None:
    given = schema.get("enum")
    if isinstance(given, list):
        return {compact(value) for value in given}
    return {compact(schema["const"])} if "const" in schema else None


def _listed(values: set[str] | None) -> str:
    shown = sorted(values or ())
    more = f" and {len(shown) - _MOST_QUOTED} more" if len(shown) > _MOST_QUOTED else ""
    return ", ".join(shown[:_MOST_QUOTED]) + more


def _table(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _names(value: JsonValue) -> set[str]:
    return {name for name in value if isinstance(name, str)} if isinstance(value, list) else set()


def _is_less(one: JsonValue, other: JsonValue) -> bool:
    return isinstance(one, int | float) and isinstance(other, int | float) and one < other
