"""Tools and their calls, as OpenAI writes them and many others after it."""

from __future__ import annotations

from typing import Any

import orjson

from cortex_replay.canonical import JsonValue
from cortex_replay.types import ToolCall
from cortex_replay.types.tools import arguments_value
from cortex_replay.wire.body import Block, without_nulls
from cortex_replay.wire.shape import text

__all__ = ["arguments_of", "arguments_text", "decode_call", "encode_tool", "lift_calls"]


def arguments_of(value: JsonValue) -> JsonValue:
    """The arguments of a call, which OpenAI writes as a text and others as a value."""
    return arguments_value(value) if isinstance(value, str) else value


def arguments_text(value: JsonValue) -> str:
    """The text for a value, its keys in the order in which they came."""
    if isinstance(value, str) and arguments_value(value) == value:
        return value
    return orjson.dumps(value).decode()


def decode_call(call_id: str, function: Block) -> ToolCall:
    """A call of an answer, from the object that names the function."""
    arguments = arguments_of(function.get("arguments") or "")
    return ToolCall(id=call_id or None, name=text(function, "name"), arguments=arguments)


def lift_calls(calls: object) -> tuple[ToolCall, ...] | None:
    """The calls of a message, if all of them are calls of functions."""
    if calls is None:
        return ()
    if not isinstance(calls, list):
        return None
    lifted = [_lift_call(call) for call in calls]
    return tuple(call for call in lifted if call is not None) if None not in lifted else None


def _lift_call(call: Any) -> ToolCall | None:
    if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
        return None
    outer = without_nulls(call, "index", "function")
    function = without_nulls(call["function"], "index")
    call_id, name = outer.pop("id", ""), function.pop("name", None)
    arguments: JsonValue = function.pop("arguments", {})
    is_function = outer.pop("type", "function") == "function"
    if outer or function or not is_function or not isinstance(call_id, str) or not isinstance(name, str):
        return None
    return ToolCall(id=call_id or None, name=name, arguments=arguments_of(arguments))


def encode_tool(tool: JsonValue) -> JsonValue:
    """A tool in its wrapper; one that has a type of its own is sent as it is."""
    if not isinstance(tool, dict) or "type" in tool:
        return tool
    function = dict(tool)
    if "input_schema" in function:
        function["parameters"] = function.pop("input_schema")
    return {"type": "function", "function": function}
