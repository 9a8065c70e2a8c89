"""JSON values of several answers, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, TypeGuard

from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.tool_names import arguments_text

__all__ = [
    "Clean",
    "Nothing",
    "Path",
    "Value",
    "as_it_is",
    "clean_value",
    "identity",
    "is_known",
    "place_of",
    "varying",
]

_MOST_SCALARS: Final = 32
"""A list of more plain values, such as an embedding, is one value."""


class Nothing(Enum):
    """Why an answer has no value somewhere."""

    ABSENT = "absent"
    """It says nothing there, and could have."""
    UNKNOWN = "unknown"
    """It cannot say anything there: a refusal has no output."""


Value = JsonValue | Nothing
Path = tuple[str | int, ...]
Clean = Callable[[str], str]
"""What cuts secrets out of a text, before it is cut short: half of a secret is not known for one."""


def as_it_is(text: str) -> str:
    """Cuts nothing out."""
    return text


def clean_value(value: Value, clean: Clean) -> Value:
    """A value without secrets."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_clean_item(item, clean) for item in value]
    if isinstance(value, dict):
        return {clean(name): _clean_item(item, clean) for name, item in value.items()}
    return value


def _clean_item(value: JsonValue, clean: Clean) -> JsonValue:
    cleaned = clean_value(value, clean)
    return None if isinstance(cleaned, Nothing) else cleaned


def is_known(value: Value) -> bool:
    """Whether an answer has a say."""
    return value is not Nothing.UNKNOWN


def identity(value: Value) -> object:
    """What is equal for equal values: numbers by value, but ``true`` is not 1; keys in any order."""
    if isinstance(value, Nothing | bool | str) or value is None:
        return value.__class__, value
    if isinstance(value, int | float):
        return float, value
    return list, arguments_text([value])


def varying(values: Sequence[Value], path: Path = ()) -> Iterator[tuple[Path, tuple[Value, ...]]]:
    """The places at which values differ, and what each has there.

    Objects are compared field by field, and lists of one length item by item; other lists as a whole. The
    work is that of reading each value once.

    Args:
        values: One of each answer; ``UNKNOWN`` where it has none.
        path: Where they stand.
    """
    known = [value for value in values if value is not Nothing.UNKNOWN]
    if len(known) < 2:
        return
    if _all_objects(known):
        names = dict.fromkeys(name for value in known for name in value)
        for name in names:
            yield from varying([_field(value, name) for value in values], (*path, name))
    elif _all_lists(known) and not _is_long(known[0]):
        for at in range(len(known[0])):
            yield from varying([_item(value, at) for value in values], (*path, at))
    elif not _are_equal(known):
        yield path, tuple(values)


def place_of(path: Path, *, numbered: bool = True) -> str:
    """A path as people write it: ``items[2].price``; without numbers ``items[].price``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]" if numbered else "[]"
        else:
            text += f".{step}" if text else step
    return text


def _all_objects(values: Sequence[Value]) -> TypeGuard[Sequence[dict[str, JsonValue]]]:
    return all(isinstance(value, dict) for value in values)


def _all_lists(values: Sequence[Value]) -> TypeGuard[Sequence[list[JsonValue]]]:
    return len({len(value) if isinstance(value, list) else -1 for value in values} - {-1}) == 1 and all(
        isinstance(value, list) for value in values
    )


def _is_long(value: list[JsonValue]) -> bool:
    return len(value) > _MOST_SCALARS and not any(isinstance(item, dict | list) for item in value)


def _field(value: Value, name: str) -> Value:
    return value.get(name, Nothing.ABSENT) if isinstance(value, dict) else Nothing.UNKNOWN


def _item(value: Value, at: int) -> Value:
    return value[at] if isinstance(value, list) else Nothing.UNKNOWN


def _are_equal(values: Iterable[Value]) -> bool:
    return len({identity(value) for value in values}) == 1
