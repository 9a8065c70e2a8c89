"""The parts of a message's content, in the order in which their bytes are hashed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from cortex_replay import canonical, validation as check
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest

__all__ = ["Part", "content_parts", "ordered_json", "request_part"]

Part = dict[str, JsonValue]

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("url", "data", "media_type", "detail"),
    "audio": ("data", "media_type"),
    "tool_result": ("call_id", "output", "is_error"),
}
"""The parts that are known, and the order of their fields."""

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII)


def content_parts(value: object) -> tuple[Part, ...]:
    """The parts of a content in their one form: ``type`` first, what is null left out.

    Raises:
        InvalidRequest: It is not a list of objects that say their type.
    """
    parts = check.free_tuple(value, "content")
    return tuple(_order_fields(part, f"content[{i}]") for i, part in enumerate(parts))


def _order_fields(part: JsonValue, where: str) -> Part:
    if not isinstance(part, dict):
        raise InvalidRequest(where, f"expected an object, not {check.kind_of(part)}")
    kind = check.text(part.get("type"), f"{where}.type")
    known = _FIELDS.get(kind, ())
    if kind == "tool_result":
        part = part | {
            "call_id": check.text(part.get("call_id"), f"{where}.call_id"),
            "output": check.text(part.get("output"), f"{where}.output"),
            "is_error": check.flag(part.get("is_error") or False, f"{where}.is_error"),
        }
    if kind == "text":
        check.text(part.get("text"), f"{where}.text")
    names = [*known, *sorted(part.keys() - {"type", *known})]
    return {"type": kind} | {name: part[name] for name in names if part.get(name) is not None}


def ordered_json(fields: Iterable[tuple[str, JsonValue]]) -> str:
    """A struct as compact JSON: its fields as they come, free values inside them sorted."""
    written = (f"{canonical.compact(name)}:{canonical.compact(value)}" for name, value in fields)
    return "{" + ",".join(written) + "}"


def request_part(part: Part) -> Part:
    """A part as a request holds it, and as a body that is lifted gives it back."""
    if part["type"] != "image":
        return part
    # Automatic detail is as good as none.
    plain = {name: value for name, value in part.items() if (name, value) != ("detail", "auto")}
    url = plain.get("url")
    match = _DATA_URL.match(url) if isinstance(url, str) else None
    if match is None or not isinstance(url, str):
        return plain
    del plain["url"]
    return plain | {"media_type": match[1], "data": url[match.end() :]}
