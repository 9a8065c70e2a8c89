"""Looking into JSON that somebody else wrote.

Providers leave fields out, write ``null`` for them, and add new ones. These functions take what is
there and complain, with :class:`WrongShape`, only where a value that matters has the wrong kind.
"""

from __future__ import annotations

from typing import Any

from cortex_replay.types import TokenUsage
from cortex_replay.validation import MAX_U32, kind_of

__all__ = ["WrongShape", "count", "objects", "optional_object", "text", "usage_of"]


class WrongShape(Exception):
    """A value is not of the kind its place asks for."""


def text(document: dict[str, Any], name: str) -> str:
    """A text; none is "" whether it is absent or null."""
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WrongShape(f"{name} is {kind_of(value)}, not text")
    return value


def optional_object(document: dict[str, Any], name: str) -> dict[str, Any]:
    """An object; none is empty."""
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise WrongShape(f"{name} is {kind_of(value)}, not an object")
    return value


def objects(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects; none is empty."""
    value = document.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise WrongShape(f"{name} is not a list of objects")
    return value


def count(document: dict[str, Any], name: str) -> int | None:
    """A number of tokens, or ``None`` where there is none that makes sense."""
    value = document.get(name)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_U32
    return value if is_count else None


def usage_of(
    prompt: int | None,
    completion: int | None,
    cached: int | None = None,
    written: int | None = None,
    written_1h: int | None = None,
) -> TokenUsage | None:
    """The usage, where the provider gives at least one of the two main counts."""
    if prompt is None and completion is None:
        return None
    return TokenUsage(prompt or 0, completion or 0, cached, written, written_1h)
