"""Messages of JSON-RPC, as they stand in a line of stdio, in a body or in an event."""

from __future__ import annotations

from typing import Final, TypeGuard

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.strict_json import JsonError, loads

__all__ = [
    "CANCELLED",
    "DISCOVER",
    "INITIALIZE",
    "INITIALIZED",
    "INTERNAL_ERROR",
    "INVALID_REQUEST",
    "LISTEN",
    "METHOD_NOT_FOUND",
    "MOST_FRAME",
    "NO_FIXTURE",
    "OWN_IDS",
    "PARSE_ERROR",
    "PING",
    "PROGRESS",
    "TOOLS_CALL",
    "TOOLS_LIST",
    "VERSION_FIELD",
    "Message",
    "NotAMessage",
    "RequestId",
    "error_message",
    "is_answer",
    "is_notification",
    "is_request",
    "messages_in",
    "outcome_of",
    "parameters_of",
    "progress_token",
    "render_message",
    "request_id",
]

Message = dict[str, JsonValue]
RequestId = str | int

DISCOVER: Final = "server/discover"
"""What a client of the newer protocol asks first."""
INITIALIZE: Final = "initialize"
INITIALIZED: Final = "notifications/initialized"
LISTEN: Final = "subscriptions/listen"
CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
PING: Final = "ping"
TOOLS_CALL: Final = "tools/call"
TOOLS_LIST: Final = "tools/list"
VERSION_FIELD: Final = "io.modelcontextprotocol/protocolVersion"
"""In ``_meta`` of a request that stands alone."""
MOST_FRAME: Final = 64 * 2**20
"""How many bytes a frame may have, whatever carries it, from either side."""
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INTERNAL_ERROR: Final = -32603
NO_FIXTURE: Final = -32010
"""The code of an error that says that nothing is recorded; the protocol leaves -32000 to -32019 to others."""
OWN_IDS: Final = "cortex-replay-"
"""What the id of a request begins with that is ours, and neither the client's nor the server's."""


class NotAMessage(ValueError):
    """It is no message of JSON-RPC.

    Args:
        reason: Why not.
        code: Of the error that its sender gets.
    """

    def __init__(self, reason: str, code: int = PARSE_ERROR) -> None:
        super().__init__(reason)
        self.code = code


def messages_in(frame: bytes) -> list[Message]:
    """The message that a frame holds, or those of a batch.

    Raises:
        NotAMessage: It holds something else.
    """
    try:
        value = loads(frame)
    except JsonError as error:
        raise NotAMessage(str(error)) from None
    found = value if isinstance(value, list) else [value]
    messages = [item for item in found if isinstance(item, dict) and _is_message(item)]
    if not messages or len(messages) != len(found):
        raise NotAMessage("it is no message of JSON-RPC 2.0", INVALID_REQUEST)
    return messages


def _is_message(value: Message) -> bool:
    is_one = is_request(value) or is_notification(value) or is_answer(value)
    return is_one and value.get("jsonrpc") == "2.0"


def render_message(message: Message) -> bytes:
    """The frame of a message, without a line end."""
    return orjson.dumps(message)


def _is_id(value: JsonValue) -> TypeGuard[RequestId]:
    return isinstance(value, str | int) and not isinstance(value, bool)


def request_id(message: Message) -> RequestId | None:
    """What tells a request, or what an answer is to."""
    found = message.get("id")
    return found if _is_id(found) else None


def is_request(message: Message) -> bool:
    """Whether it wants an answer."""
    return isinstance(message.get("method"), str) and _is_id(message.get("id"))


def is_notification(message: Message) -> bool:
    """Whether it says something and wants no answer."""
    return isinstance(message.get("method"), str) and "id" not in message


def is_answer(message: Message) -> bool:
    """Whether it answers a request."""
    return "method" not in message and ("result" in message or "error" in message)


def parameters_of(message: Message) -> dict[str, JsonValue]:
    """The parameters of a request or a notification."""
    found = message.get("params")
    return found if isinstance(found, dict) else {}


def progress_token(message: Message) -> JsonValue:
    """What notifications of progress repeat, if a request wants any."""
    meta = parameters_of(message).get("_meta")
    return meta.get("progressToken") if isinstance(meta, dict) else None


def error_message(about: RequestId | None, code: int, text: str, data: JsonValue = None) -> Message:
    """An answer that says what went wrong."""
    error: dict[str, JsonValue] = {"code": code, "message": text}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": about, "error": error}


def outcome_of(message: Message) -> Message:
    """The result or the error of an answer, without its id."""
    name = "error" if "error" in message else "result"
    return {name: message[name]}
