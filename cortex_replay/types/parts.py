"""The blocks of a message, and the form of each that is hashed and stored.

A part keeps what a server needs to see: an image's data, the signature of a thinking block. The
model's answer hangs on the data and not on how it travelled, so the canonical part holds its BLAKE3
instead and leaves out what only the provider checks. `docs/wires.md` lists the kinds of parts.
"""

from __future__ import annotations

import binascii
from typing import Final, cast

from cortex_replay.canonical import JsonValue
from cortex_replay.hashing import blake3_hex

__all__ = ["CallNumbers", "canonical_part", "stored_part"]

_WITH_DATA: Final = frozenset(["image", "document", "audio"])
_INVISIBLE: Final = frozenset(["signature", "cache_control"])
_CALLS: Final = frozenset(["tool_use", "server_tool_use", "mcp_tool_use"])


class CallNumbers(dict[str, str]):
    """Tool-call ids numbered by first appearance, because some clients make up new ones each run."""

    def __missing__(self, call_id: str) -> str:
        number = self[call_id] = f"call_{len(self) + 1}"
        return number


def stored_part(part: JsonValue) -> JsonValue:
    """A part as a fixture holds it: what the model sees, with its ids as they were."""
    if not isinstance(part, dict):
        return part
    kind = str(part.get("type"))
    if kind == "verbatim":
        return part | {"verbatim": _visible_item(part.get("verbatim"))}
    seen = {name: value for name, value in part.items() if name not in _INVISIBLE}
    inner = seen.get("content")
    if isinstance(inner, list):
        seen["content"] = [stored_part(block) for block in inner]
    if kind in _WITH_DATA and isinstance(data := seen.get("data"), str):
        try:
            digest = blake3_hex(binascii.a2b_base64("".join(data.split()), strict_mode=True))
        except ValueError:
            return seen  # no provider will take it, and it is what it is
        del seen["data"]
        seen["blake3"] = digest
    return seen


def _visible_item(item: JsonValue) -> JsonValue:
    """A verbatim item without what the model cannot see.

    The id of a reference is all that it says, and so is what is encrypted in anything but reasoning,
    which the model has thought before. How an item of the caller's went is for the model to see.
    """
    if not isinstance(item, dict):
        return item
    kind = item.get("type")
    unseen = {"id"} if kind not in (None, "item_reference") else set()
    if kind == "reasoning":
        unseen.add("encrypted_content")
    if not str(kind).endswith("_output"):
        unseen.add("status")
    return {name: value for name, value in item.items() if name not in unseen and value is not None}


def canonical_part(part: JsonValue, numbers: CallNumbers) -> JsonValue:
    """A part as it is hashed: as it is stored, with tool-call ids numbered."""
    part = stored_part(part)
    if not isinstance(part, dict):
        return part
    kind = str(part.get("type"))
    if kind in ("verbatim", "fields"):
        return part | {kind: _number_message(part.get(kind), numbers)}
    if kind in _CALLS:
        part = cast("dict[str, JsonValue]", _number_field(part, "id", numbers))
    return _number_field(part, "tool_use_id", numbers)


def _number_message(message: JsonValue, numbers: CallNumbers) -> JsonValue:
    """A message, an item or the fields of one: its calls, and what it answers."""
    if not isinstance(message, dict):
        return message
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message = message | {"tool_calls": [_number_field(call, "id", numbers) for call in calls]}
    return _number_field(_number_field(message, "call_id", numbers), "tool_call_id", numbers)


def _number_field(value: JsonValue, name: str, numbers: CallNumbers) -> JsonValue:
    if isinstance(value, dict) and isinstance(call_id := value.get(name), str):
        return value | {name: numbers[call_id]}
    return value
