"""Checks that turn what a caller passed into the one form that a value keeps.

Every function takes the value and the name of its field, returns the value to keep, and raises
:class:`~cortex_replay.errors.InvalidRequest` with that name. Nothing that costs time is done for
a good value beyond looking at it: the way to a bad one is spelled out only when it is found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

from cortex_replay.canonical import JsonValue, is_encodable
from cortex_replay.errors import InvalidRequest

__all__ = [
    "MAX_U32",
    "MAX_U64",
    "flag",
    "free",
    "free_object",
    "free_tuple",
    "from_mapping",
    "items",
    "keep",
    "kind_of",
    "member",
    "optional_integer",
    "optional_number",
    "optional_text",
    "optional_whole_number",
    "short_repr",
    "temperature",
    "text",
    "texts",
    "value_of",
    "values",
    "whole_number",
]

_T = TypeVar("_T")
_Member = TypeVar("_Member", bound=StrEnum)

MAX_U32: Final = 2**32 - 1
MAX_U64: Final = 2**64 - 1

_MAX_NESTING: Final = 250
"""Deepest free value that can be hashed; the writer's own limit is 254."""

_SHOWN_STEPS: Final = 8
_SHOWN_NAME: Final = 40

_F32_OVERFLOW: Final = 3.4028235677973366e38
"""The smallest f64 that rounds to infinity as f32."""


def kind_of(value: object) -> str:
    """The kind of a value, for a message."""
    return "null" if value is None else f"a {type(value).__name__}"


def short_repr(value: object) -> str:
    """A value, for a message."""
    try:
        whole_text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return kind_of(value)
    return whole_text if len(whole_text) <= 40 else f"{whole_text[:37]}..."


def text(value: object, name: str) -> str:
    """Text that can be encoded."""
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise InvalidRequest(name, f"expected text, not {kind_of(value)}")
    # A subclass may print itself differently from what it holds.
    held = value if type(value) is str else str.__str__(value)
    if not held.isascii() and not is_encodable(held):
        raise InvalidRequest(name, "holds half of a surrogate pair")
    return held


def optional_text(value: object, name: str) -> str | None:
    return None if value is None else text(value, name)


def items(value: object, name: str) -> Sequence[object]:
    """A list or a tuple, ``None`` for none; never a string, which is a sequence by accident."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise InvalidRequest(name, f"expected a list, not {kind_of(value)}")
    return value


def texts(value: object, name: str) -> tuple[str, ...]:
    return tuple(text(item, f"{name}[{i}]") for i, item in enumerate(items(value, name)))


def flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidRequest(name, f"expected true or false, not {kind_of(value)}")
    return value


def _integer(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequest(name, f"expected a whole number, not {kind_of(value)}")
    return int(value)


def whole_number(value: object, name: str, most: int) -> int:
    """A whole number from 0 to ``most``."""
    if type(value) is int and 0 <= value <= most:
        return value
    number = _integer(value, name)
    if not 0 <= number <= most:
        reason = "must not be negative" if number < 0 else f"must be at most {most}"
        raise InvalidRequest(name, reason)
    return number


def optional_whole_number(value: object, name: str, most: int) -> int | None:
    return None if value is None else whole_number(value, name, most)


def optional_integer(value: object, name: str) -> int | None:
    """A whole number that fits 64 bits, signed or not."""
    if value is None:
        return None
    number = _integer(value, name)
    if not -(2**63) <= number <= MAX_U64:
        raise InvalidRequest(name, "does not fit 64 bits")
    return number


def optional_number(value: object, name: str) -> float | None:
    """A finite number, as a float."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidRequest(name, f"expected a number, not {kind_of(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise InvalidRequest(name, "is out of range") from None
    if not math.isfinite(number):
        raise InvalidRequest(name, "must be finite")
    return number


def temperature(value: object, name: str) -> float | None:
    """A finite number that is finite as f32 too, since that is how it is hashed."""
    number = optional_number(value, name)
    if number is not None and abs(number) >= _F32_OVERFLOW:
        raise InvalidRequest(name, "is out of the range of a 32-bit float")
    return number


def free(value: object, name: str) -> JsonValue:
    """A validated copy of a free JSON value, with numbers as the reference would read them.

    A copy, because a frozen value must not change when the caller's dict does.
    """
    try:
        return _copy(value, 0)
    except _NotJson as error:
        raise InvalidRequest(name + error.way, error.reason) from None
    except RecursionError:
        raise InvalidRequest(name, "nested too deeply") from None


def free_tuple(value: object, name: str) -> tuple[JsonValue, ...]:
    """A list of free JSON values."""
    return tuple(cast("list[JsonValue]", free(items(value, name), name)))


def free_object(value: object, name: str) -> dict[str, JsonValue]:
    """A free JSON object."""
    if not isinstance(value, Mapping):
        raise InvalidRequest(name, f"expected an object, not {kind_of(value)}")
    return cast("dict[str, JsonValue]", free(value, name))


def keep(instance: object, name: str, value: object) -> None:
    """Put a checked value in its place; frozen dataclasses have no other way."""
    object.__setattr__(instance, name, value)


def values(kind: type[_T], value: object, name: str) -> tuple[_T, ...]:
    """A list whose items are ``kind``, or mappings with the fields of one."""
    found = items(value, name)
    return tuple(
        [item if isinstance(item, kind) else value_of(kind, item, name, i) for i, item in enumerate(found)]
    )


def value_of(kind: type[_T], value: object, name: str, index: int | None = None) -> _T:
    """A ``kind``, or one made of a mapping of its fields; what is wrong with it is named from here."""
    if isinstance(value, kind):
        return value
    try:
        if isinstance(value, Mapping):
            return from_mapping(kind, value)
        reason, field = f"expected a {kind.__name__} or an object, not {kind_of(value)}", ""
    except InvalidRequest as error:
        reason, field = error.reason, error.field
    place = name if index is None else f"{name}[{index}]"
    raise InvalidRequest(f"{place}.{field}" if field else place, reason)


def member(kind: type[_Member], value: object, name: str) -> _Member:
    """A member of an enumeration, or its value."""
    if isinstance(value, str):
        for known in kind:
            if known == value:
                return known
    raise InvalidRequest(name, f"expected one of {', '.join(kind)}, not {short_repr(value)}")


def from_mapping(kind: type[_T], data: Mapping[str, Any]) -> _T:
    """Build ``kind`` from a mapping of its fields."""
    known: dict[str, Field[Any]] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    try:
        return kind(**data)
    except TypeError:
        for name in map(str, data):
            if name not in known:
                shown_name = name[:_SHOWN_NAME] if name.isidentifier() else "(a field)"
                raise InvalidRequest(shown_name, "there is no such field") from None
        missing = [name for name, f in known.items() if name not in data and f.default is f.default_factory]
        raise InvalidRequest("", f"lacks {', '.join(missing)}") from None


class _NotJson(Exception):
    """Carries the way to the culprit, built while it rises, as far as a person would read it."""

    def __init__(self, reason: str, way: str = "") -> None:
        self.reason = reason
        self.way = way

    def below(self, step: str, depth: int) -> _NotJson:
        way = step.encode("ascii", "backslashreplace").decode() + self.way
        return _NotJson(self.reason, way if depth < _SHOWN_STEPS else "")


def _copy(value: object, depth: int) -> JsonValue:
    if type(value) is str and value.isascii():  # most are, and it is every one of the tools of an agent
        return value
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _copy_text(value)
    if isinstance(value, int):
        return _copy_integer(int(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _NotJson("must be finite")
        return float(value)
    if depth >= _MAX_NESTING:
        raise _NotJson(f"nested deeper than {_MAX_NESTING} levels")
    if isinstance(value, Mapping):
        return _copy_object(value, depth)
    if isinstance(value, list | tuple):
        return _copy_list(value, depth)
    raise _NotJson(f"expected a JSON value, not {kind_of(value)}")


def _copy_object(value: Mapping[object, object], depth: int) -> dict[str, JsonValue]:
    copied: dict[str, JsonValue] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise _NotJson(f"object keys are text, not {kind_of(key)}")
        try:
            name = key if type(key) is str and key.isascii() else _copy_text(key)
            copied[name] = _copy(item, depth + 1)
        except _NotJson as error:
            raise error.below(f".{key}", depth) from None
    return copied


def _copy_list(value: Sequence[object], depth: int) -> list[JsonValue]:
    copied: list[JsonValue] = []
    for i, item in enumerate(value):
        try:
            copied.append(_copy(item, depth + 1))
        except _NotJson as error:
            raise error.below(f"[{i}]", depth) from None
    return copied


def _copy_text(value: str) -> str:
    try:
        return text(value, "")
    except InvalidRequest as error:
        raise _NotJson(error.reason) from None


def _copy_integer(value: int) -> int | float:
    if -(2**63) <= value <= MAX_U64:
        return value
    try:
        return float(value)
    except OverflowError:
        raise _NotJson("is out of range") from None
