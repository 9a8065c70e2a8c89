"""Pictures, sound and other bytes in messages, which stand there as base64."""

from __future__ import annotations

import binascii
from collections.abc import Callable

from cortex_replay.canonical import JsonValue

__all__ = ["change_blobs", "decode_blob"]


def change_blobs(value: JsonValue, change: Callable[[str], JsonValue]) -> JsonValue:
    """A value with what stands where bytes stand changed, in order."""
    if isinstance(value, list):
        return [change_blobs(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"type": "image" | "audio", "data": str(data)}:
            return {**value, "data": change(data)}
        case {"uri": str(), "blob": str(data)}:
            return {**value, "blob": change(data)}
    return {name: change_blobs(item, change) for name, item in value.items()}


def decode_blob(encoded: str) -> bytes | None:
    """The bytes that base64 stands for; ``None`` if it is none."""
    try:
        return binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError:
        return None
