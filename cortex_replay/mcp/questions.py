"""What a call of MCP is found by."""

from __future__ import annotations

import binascii
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.hashing import blake3_hex
from cortex_replay.mcp.messages import INITIALIZE

__all__ = ["MCP", "UPSTREAM_PREFIX", "question_of", "server_in", "without_bytes"]

MCP: Final = "MCP"
"""What stands for the method of a recorded call."""
UPSTREAM_PREFIX: Final = "mcp:"


def question_of(server: str, method: str, parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What is asked of a server, as an exchange has it.

    Args:
        server: Its name.
        method: Of the protocol.
        parameters: As the client sent them.
    """
    left_out = {"_meta", "clientInfo"} if method == INITIALIZE else {"_meta"}
    body = {name: without_bytes(value) for name, value in parameters.items() if name not in left_out}
    return {
        "upstream": UPSTREAM_PREFIX + server,
        "method": MCP,
        "path": method,
        "query": [],
        "body": body,
    }


def server_in(request: dict[str, JsonValue] | None) -> str | None:
    """The name of the server that a recorded call asked, if it is one of MCP."""
    match request:
        case {"method": "MCP", "upstream": str(upstream)} if upstream.startswith(UPSTREAM_PREFIX):
            return upstream.removeprefix(UPSTREAM_PREFIX)
    return None


def without_bytes(value: JsonValue) -> JsonValue:
    """A value in which pictures, sound and blobs count by their hash."""
    if isinstance(value, list):
        return [without_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"type": "image" | "audio", "data": str(data)}:
            return {**value, "data": _hash(data)}
        case {"uri": str(), "blob": str(data)}:
            return {**value, "blob": _hash(data)}
    return {name: without_bytes(item) for name, item in value.items()}


def _hash(encoded: str) -> JsonValue:
    try:
        data = binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError:
        return encoded
    return {"blake3": blake3_hex(data), "bytes": len(data)}
