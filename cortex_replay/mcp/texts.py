"""Which texts of a message may hold a value of where it was said: a folder, a user, a day.

Names of fields never do, and neither does what the protocol itself says: a user may be called like a tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cortex_replay.canonical import JsonValue

__all__ = ["change_texts", "texts_in"]

Change = Callable[[str], str]

_STRUCTURE: Final = frozenset(
    [
        *("type", "role", "name", "method", "level", "mimeType"),
        *("protocolVersion", "progressToken", "blob", "blake3"),
    ]
)
"""Fields that say what something is, and bytes."""
_FREE: Final = frozenset(["arguments", "structuredContent"])
"""Fields whose names are the tool's own."""


def texts_in(value: JsonValue) -> list[str]:
    """The texts of a message, or of parameters, in which values are bound; in order."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    change_texts(value, note)
    return found


def change_texts(value: JsonValue, change: Change) -> JsonValue:
    """The same with each of these texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [change_texts(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _change_field(value, name, item, change) for name, item in value.items()}


def _change_field(holder: dict[str, JsonValue], name: str, value: JsonValue, change: Change) -> JsonValue:
    if name in _FREE:
        return _change_all(value, change)
    if isinstance(value, str) and not _may_hold_value(holder, name):
        return value
    return change_texts(value, change)


def _may_hold_value(holder: dict[str, JsonValue], name: str) -> bool:
    match holder:
        case {"type": "image" | "audio"} if name == "data":
            return False
        case {"uri": str()} if name == "name":
            return True  # a root is called like its folder
    return name not in _STRUCTURE


def _change_all(value: JsonValue, change: Change) -> JsonValue:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_change_all(item, change) for item in value]
    if isinstance(value, dict):
        return {name: _change_all(item, change) for name, item in value.items()}
    return value
