"""Texts with places to fill in: ``{last_user}``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from cortex_replay.canonical import JsonValue

__all__ = ["fill", "fill_json"]

_PLACE: Final = re.compile(r"\{(\{)?([A-Za-z_]\w*+)\}(?(1)\})")


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with each ``{name}`` that has a value replaced by it, and every other brace as it is.

    A value is put in as it is and not looked at again. ``{{name}}`` is the text ``{name}``.
    """

    def value_of(place: re.Match[str]) -> str:
        name = place[2]
        if name not in values:
            return place[0]
        return f"{{{name}}}" if place[1] else values[name]

    return _PLACE.sub(value_of, text) if values and "{" in text else text


def fill_json(value: JsonValue, values: Mapping[str, str]) -> JsonValue:
    """A copy of a JSON value with each text in it filled, but not the names of its fields."""
    if isinstance(value, str):
        return fill(value, values)
    if isinstance(value, list):
        return [fill_json(item, values) for item in value]
    if isinstance(value, dict):
        return {name: fill_json(item, values) for name, item in value.items()}
    return value
