"""What was said in a call of an MCP server, and how it ended, on one line each."""

from __future__ import annotations

import json
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.history.mcp_calls import McpCall

__all__ = ["arguments_line", "message_line", "result_line", "text_line"]

_LEAST_LINE: Final = 24
_MOST_READ: Final = 64 * 1024
"""Of a text that is shown in one line."""


def result_line(call: McpCall) -> str:
    """How a call ended; empty if it did not."""
    return "" if call.end is None else message_line({call.end[0]: call.end[1]})


def message_line(message: dict[str, JsonValue]) -> str:
    """A message of a recording."""
    match message:
        case {"notification": {"method": "notifications/progress", "params": dict(said)}}:
            of = f" of {said['total']}" if "total" in said else ""
            text = f": {said['message']}" if "message" in said else ""
            return f"progress {said.get('progress')}{of}{text}"
        case {"notification": {"method": str(method), **rest}}:
            return f"says {method.removeprefix('notifications/')}{_details(rest.get('params'))}"
        case {"request": {"method": str(method), **rest}}:
            return f"asks the client {method}{_details(rest.get('params'))}"
        case {"answer": {"to": to, **rest}}:
            name = "error" if "error" in rest else "result"
            return f"the client answers request {to}: {_value_text(name, rest.get(name))}"
        case {"result": value}:
            is_error = isinstance(value, dict) and value.get("isError") is True
            return f"{'tool error' if is_error else 'result'}: {_value_text('result', value)}"
        case {"error": value}:
            return f"error: {_value_text('error', value)}"
        case {"cancelled": value}:
            reason = value.get("reason") if isinstance(value, dict) else None
            return f"the client gives up{f': {reason}' if reason else ''}"
    return ""


def _value_text(name: str, value: object) -> str:
    """What a result or an error says, as a person would put it."""
    match name, value:
        case "error", {"message": str(text), **rest}:
            return f"{text} ({rest.get('code')})"
        case _, {"content": content}:
            return _content_text(content)
        case _, {"contents": [*contents]}:
            return _content_text([{"resource": item} for item in contents])
        case _, {"tools": [*items]} | {"resources": [*items]} | {"prompts": [*items]}:
            return ", ".join(str(item.get("name")) for item in items if isinstance(item, dict))
        case _, {"serverInfo": {"name": str(server), **rest}}:
            return f"{server} {rest.get('version', '')}".rstrip()
    return _json(value)


def _content_text(content: object) -> str:
    blocks = content if isinstance(content, list) else [content]
    return " ".join(map(_block_text, blocks)) or "nothing"


def _block_text(block: object) -> str:
    match block:
        case {"text": str(text)}:
            return text_line(text)
        case {"resource": {"uri": str(uri), "text": str(text)}}:
            return f"{uri}: {text_line(text)}"
        case {"resource": {"uri": str(uri)}}:
            return f"[{uri}]"
        case {"type": str(kind)}:
            return f"[{kind}]"
    return _json(block)


def _details(parameters: object) -> str:
    if not isinstance(parameters, dict):
        return ""
    match parameters:
        case {"level": str(level), "data": data}:
            return f" ({level}): {data if isinstance(data, str) else _json(data)}"
        case {"messages": [*_, {"content": content}]}:
            return f": {_content_text(content)}"
        case {"message": str(text)}:
            return f": {text}"
    shown = {name: value for name, value in parameters.items() if name != "_meta"}
    return f" {_json(shown)}" if shown else ""


def arguments_line(arguments: JsonValue) -> str:
    """The arguments of a call, as they stand between its brackets."""
    if not isinstance(arguments, dict):
        return "" if arguments is None else _json(arguments)
    return ", ".join(f"{name}={_json(value)}" for name, value in arguments.items())


def text_line(text: str) -> str:
    """The first line, and how many follow; all in one where the first says nothing, as in JSON."""
    text = text[:_MOST_READ].strip()
    first, *rest = text.splitlines() or [""]
    if rest and len(first) < _LEAST_LINE:
        return " ".join(text.split())
    return f"{first} (+{len(rest)} line{'s' * (len(rest) > 1)})" if rest else first


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
