"""What a message of MCP says in the headers of HTTP, and which era it is of."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from cortex_replay.mcp.messages import VERSION_FIELD, Message, parameters_of
from cortex_replay.mcp.questions import SUBJECTS

__all__ = [
    "EVENT_STREAM",
    "HANDSHAKE_VERSIONS",
    "JSON",
    "LAST_EVENT_ID",
    "METHOD",
    "NAME",
    "PROTOCOL_VERSION",
    "SESSION_ID",
    "name_in",
    "plain_name",
    "routing_headers",
    "version_in",
]

SESSION_ID: Final = "mcp-session-id"
PROTOCOL_VERSION: Final = "mcp-protocol-version"
LAST_EVENT_ID: Final = "last-event-id"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Those with a handshake and sessions, oldest first."""
_CODED: Final = ("=?base64?", "?=")


def version_in(message: Message) -> str | None:
    """The version that a request says of itself, if it is of the era in which each request stands alone."""
    meta = parameters_of(message).get("_meta")
    found = meta.get(VERSION_FIELD) if isinstance(meta, dict) else None
    return found if isinstance(found, str) else None


def name_in(message: Message) -> str | None:
    """The tool, prompt or resource that a request is for."""
    _, parameter = SUBJECTS.get(str(message.get("method")), ("", ""))
    found = parameters_of(message).get(parameter)
    return found if isinstance(found, str) else None


def routing_headers(message: Message) -> dict[str, str]:
    """What a request that stands alone says in its headers."""
    version = version_in(message)
    if version is None:
        return {}
    headers = {PROTOCOL_VERSION: version, METHOD: str(message.get("method"))}
    name = name_in(message)
    if name is not None:
        headers[NAME] = _header_value(name)
    return headers


def _header_value(text: str) -> str:
    is_plain = text.isascii() and text.isprintable() and text == text.strip()
    if is_plain and not text.startswith(_CODED[0]):
        return text
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode().join(_CODED)


def plain_name(value: str) -> str | None:
    """The name that a header holds; ``None`` where it is coded badly."""
    before, behind = _CODED
    if not (value.startswith(before) and value.endswith(behind)):
        return value
    try:
        return base64.b64decode(value[len(before) : -len(behind)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
