"""Replies with something wrong, as each provider would get it wrong."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.http.call import Event, HttpReply
from cortex_replay.faults.fault import Fault, answers_alone, error_type
from cortex_replay.faults.messages import (
    broken_message,
    exception_message,
    has_messages,
    messages_in,
    speaks_messages,
)
from cortex_replay.wire import WIRES
from cortex_replay.wire.event_stream import event_message

__all__ = ["answers_alone", "faulty_reply", "refusal"]

_BROKEN_JSON: Final = b'{"id": "broken", "content": [{"te'
_BROKEN_ARGUMENTS: Final = '{"city": "Par'
_SSE_END: Final = re.compile(rb"(?<=\r\n\r\n)|(?<=\n\n)|(?<=\r\r)")
_MOST_BYTES_APART: Final = 256 * 1024
"""Each costs a hundred times its size."""
_OPENAI_TYPES: Final = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    404: "invalid_request_error",
}
_OPENAI_CODES: Final = {429: "rate_limit_exceeded", 401: "invalid_api_key", 500: "server_error"}
_MESSAGES: Final = {429: "Rate limit exceeded (on demand)", 529: "Overloaded (on demand)"}


def refusal(fault: Fault, protocol: str | None) -> HttpReply:
    """What a client gets instead of an answer: an error, a silence, or a closed door."""
    if fault.kind == "timeout":
        return HttpReply(0, (), ending="hang")
    if fault.kind == "reset" or fault.status is None:
        return HttpReply(0, (), ending="reset")
    body = orjson.dumps(_error(protocol, fault.status))
    id_header = "x-request-id" if _is_openai(protocol) else "request-id"
    headers = [("content-type", "application/json"), (id_header, "req_on_demand")]
    if fault.retry_after_s is not None:
        headers.append(("retry-after", str(math.ceil(fault.retry_after_s))))
        headers.append(("retry-after-ms", str(round(fault.retry_after_s * 1000))))
    return HttpReply(fault.status, tuple(headers), body)


def faulty_reply(fault: Fault, reply: HttpReply, protocol: str | None) -> HttpReply | None:
    """A recorded reply with something wrong; ``None`` where this fault cannot go wrong with it."""
    if reply.live is not None or reply.status != 200:
        return None
    events = _events(reply)
    is_stream = bool(reply.events)
    match fault.kind:
        case "chunks":
            return _split(fault, reply, events) if is_stream else None
        case "cut" if not is_stream:
            length = ("content-length", str(len(reply.body)))
            half = (0.0, reply.body[: len(reply.body) // 2])
            return replace(reply, headers=(*reply.headers, length), events=(half,), ending="cut")
        case "cut" | "stall" | "error-event":
            kept = events[: fault.events]
            if not _is_cut_short(kept, events, protocol):
                return None
            if fault.kind == "error-event":
                return _reply_of(reply, [*kept, (0.0, _error_event(protocol, len(kept)))])
            return replace(reply, events=tuple(kept), ending="cut" if fault.kind == "cut" else "hang")
        case "malformed-json":
            return _break_json(reply, events, protocol)
        case "malformed-tool":
            return _break_arguments(reply, events)
    return None


def _events(reply: HttpReply) -> list[Event]:
    """One event each, whatever a recording or a rendering put together."""
    separate: list[Event] = []
    if has_messages(reply):
        return [(at_ms, piece) for at_ms, data in reply.events for piece in messages_in(data)]
    for at_ms, data in reply.events:
        pieces = _SSE_END.split(data) if b"data:" in data else data.splitlines(keepends=True)
        separate += [(at_ms, piece) for piece in pieces if piece]
    return separate


def _is_cut_short(kept: list[Event], events: list[Event], protocol: str | None) -> bool:
    """Whether a client misses something: without the last event of a stream it may have all of it, but not
    where that is the last piece of the answer."""
    needless = 0 if _is_lines(protocol) or protocol == "gemini-generate" else 1
    return bool(events) and (len(kept) == 0 or len(kept) < len(events) - needless)


def _reply_of(reply: HttpReply, events: list[Event]) -> HttpReply:
    return replace(reply, body=b"".join(data for _, data in events), events=tuple(events))


def _split(fault: Fault, reply: HttpReply, events: list[Event]) -> HttpReply:
    whole = b"".join(data for _, data in events)
    if fault.detail == "whole":
        events = [(0.0, whole)]
    elif fault.detail == "byte":
        events = [(0.0, bytes([byte])) for byte in whole[:_MOST_BYTES_APART]]
        events += [(0.0, rest)] if (rest := whole[_MOST_BYTES_APART:]) else []
    return replace(reply, events=tuple(events), is_in_pieces=True)


def _break_json(reply: HttpReply, events: list[Event], protocol: str | None) -> HttpReply:
    if not reply.events:
        return replace(reply, body=_BROKEN_JSON)
    broken = _BROKEN_JSON + b"\n" if _is_lines(protocol) else b"data: " + _BROKEN_JSON + b"\n\n"
    if speaks_messages(protocol):
        broken = event_message("contentBlockDelta", _BROKEN_JSON)
    if protocol == "anthropic-messages":
        broken = b"event: content_block_delta\n" + broken
    return _reply_of(reply, [*events[:1], (0.0, broken), *events[1:]])


def _break_arguments(reply: HttpReply, events: list[Event]) -> HttpReply | None:
    """The first tool call with arguments that end in the middle."""
    if not reply.events:
        body = _break_call(reply.body)
        return None if body is None else replace(reply, body=body)
    changed: list[Event] = []
    is_broken = False
    for at_ms, data in events:
        if has_messages(reply):
            message = broken_message(data, _break_call)
            is_broken = is_broken or message is not None
            changed.append((at_ms, message or data))
            continue
        head, found, payload = data.partition(b"data:")
        document = payload if found else data
        broken = _break_call(document)
        is_broken = is_broken or broken is not None
        if broken is None:
            changed.append((at_ms, data))
        elif found:
            changed.append((at_ms, head + b"data: " + broken + b"\n\n"))
        else:
            changed.append((at_ms, broken + b"\n"))
    return _reply_of(reply, changed) if is_broken else None


def _break_call(document: bytes) -> bytes | None:
    """A document whose tool arguments are broken; ``None`` if it has none."""
    try:
        value = orjson.loads(document)
    except orjson.JSONDecodeError:
        return None
    return orjson.dumps(value) if _break(value) else None


def _break(value: JsonValue) -> bool:
    """Break the arguments in a document, wherever its provider has them."""
    if isinstance(value, list):
        return any(_break(item) for item in value)
    if not isinstance(value, dict):
        return False
    if value.get("type") == "tool_use" and "input" in value:
        value["input"] = _BROKEN_ARGUMENTS if value["input"] else value["input"]
        return bool(value["input"])
    if isinstance(call := value.get("toolUse"), dict) and call.get("input"):
        given = call["input"]
        call["input"] = "{" + given if isinstance(given, str) else _BROKEN_ARGUMENTS
        return True
    if value.get("type") == "input_json_delta" and value.get("partial_json"):
        value["partial_json"] = "{" + str(value["partial_json"])
        return True
    if value.get("type") == "response.function_call_arguments.delta" and value.get("delta"):
        value["delta"] = "{" + str(value["delta"])
        return True
    if isinstance(call := value.get("functionCall"), dict) and call.get("args"):
        call["args"] = _BROKEN_ARGUMENTS
        return True
    if "arguments" in value and ("name" in value or isinstance(value["arguments"], str)):
        value["arguments"] = _BROKEN_ARGUMENTS if value["arguments"] else value["arguments"]
        return bool(value["arguments"])
    return any(_break(item) for item in value.values())


def _error(protocol: str | None, status: int) -> JsonValue:
    codec = WIRES.get(protocol or "", WIRES["openai-chat"])
    message = _MESSAGES.get(status, f"Status {status} (on demand)")
    if speaks_messages(protocol):
        return codec.encode_error(status, message)
    if not _is_openai(protocol):
        return codec.encode_error(status, message, error_type(status))
    body = codec.encode_error(
        status, message, "requests" if status == 429 else _OPENAI_TYPES.get(status, "server_error")
    )
    inner = body.get("error")
    if isinstance(inner, dict) and status in _OPENAI_CODES:
        inner["code"] = _OPENAI_CODES[status]
    return body


def _is_openai(protocol: str | None) -> bool:
    return protocol in ("openai-chat", "openai-responses", None)


def _is_lines(protocol: str | None) -> bool:
    return protocol in ("ollama-chat", "ollama-generate")


def _error_event(protocol: str | None, number: int) -> bytes:
    """An error as it comes in the middle of a provider's stream."""
    if _is_lines(protocol):
        return orjson.dumps({"error": "an error was encountered while running the model (on demand)"}) + b"\n"
    if speaks_messages(protocol):
        return exception_message("The server had an error (on demand)")
    if protocol == "openai-responses":
        message = "The server had an error (on demand)"
        error = {
            "type": "error",
            "code": "server_error",
            "message": message,
            "param": None,
            "sequence_number": number,
        }
        return b"event: error\ndata: " + orjson.dumps(error) + b"\n\n"
    name = b"event: error\n" if protocol == "anthropic-messages" else b""
    return name + b"data: " + orjson.dumps(_error(protocol, 529 if name else 500)) + b"\n\n"
