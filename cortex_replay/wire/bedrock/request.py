"""Requests of Converse, and of Nova's own API, which is nearly the same.

A body is read as one of Anthropic's Messages API that says the same, and written back from one: what the two
have in common is in one place, and so is the form that a conversation has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmRequest
from cortex_replay.validation import kind_of
from cortex_replay.wire.anthropic.lift import lift_request as lift_messages
from cortex_replay.wire.anthropic.lower import encode_request as encode_messages
from cortex_replay.wire.bedrock.blocks import (
    CACHE_POINT,
    blocks_to_converse,
    is_cache_point,
    mark_before,
    marked_from_converse,
)
from cortex_replay.wire.body import Block, Body, without_nulls

__all__ = ["encode_converse", "encode_nova", "lift_converse", "lift_nova"]

_LIMITS: Final = {
    "maxTokens": "max_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "stopSequences": "stop_sequences",
}
_TOP_K: Final = "topK"
_FURTHER: Final = "additionalModelRequestFields"
_OWN: Final = frozenset(
    [
        *("additionalModelResponseFieldPaths", "guardrailConfig", "promptVariables"),
        *("inferenceConfig", "toolConfig", "outputConfig", _FURTHER),
    ]
)
"""What a body of Converse has at its top, beside what has a field in every request."""
_TAKEN: Final = _OWN | frozenset(
    [
        *("model", "messages", "system", "tools", "tool_choice", "output_format", "stream"),
        *_LIMITS.values(),
    ]
)
"""What a model's own parameters cannot be called at the top of a body: it means something else there."""
_SCHEMA_VERSION: Final = "messages-v1"
_SCHEMA_NAME: Final = "answer"


def lift_converse(body: object) -> LlmRequest:
    """The request that a body of Converse makes."""
    rest = _rest_of(body)
    further = rest.pop(_FURTHER, None)
    made = _messages_body(rest)
    if isinstance(further, dict):
        _lift_further(made, without_nulls(further))
    elif further is not None:
        made[_FURTHER] = further
    return lift_messages(made)


def lift_nova(body: object) -> LlmRequest:
    """The request that a body of Nova's own makes."""
    rest = _rest_of(body)
    if rest.get("schemaVersion") == _SCHEMA_VERSION:
        del rest["schemaVersion"]
    return lift_messages(_messages_body(rest, top_k="top_k"))


def _rest_of(body: object) -> Body:
    if not isinstance(body, dict):
        raise InvalidRequest("body", f"expected an object, not {kind_of(body)}")
    return without_nulls(body)


def _messages_body(rest: Body, *, top_k: str | None = None) -> Body:
    """A body of the Messages API, from one without a model's own parameters."""
    made: Body = {}
    names = _LIMITS if top_k is None else {**_LIMITS, _TOP_K: top_k}
    _take_all(made, rest, "inferenceConfig", names)
    if "system" in rest:
        made["system"] = marked_from_converse(rest.pop("system"), "system")
    messages = rest.pop("messages", None)
    if not isinstance(messages, list):
        raise InvalidRequest("messages", f"expected a list, not {kind_of(messages)}")
    made["messages"] = [_lift_message(message, f"messages[{i}]") for i, message in enumerate(messages)]
    _lift_tools(made, rest)
    _lift_schema(made, rest)
    if clash := next((name for name in rest if name in made), None):
        raise InvalidRequest(clash, "is no parameter here")
    return made | rest


def _take_all(made: Body, rest: Body, place: str, names: Mapping[str, str]) -> None:
    """Take parameters out of where they stand; what is left there counts as it is."""
    holder = rest.get(place)
    if not isinstance(holder, dict):
        return
    holder = without_nulls(holder)
    for theirs, ours in names.items():
        if theirs in holder:
            made[ours] = holder.pop(theirs)
    if holder:
        rest[place] = holder
    else:
        del rest[place]


def _lift_message(message: object, where: str) -> Block:
    if not isinstance(message, dict):
        raise InvalidRequest(where, f"expected an object, not {kind_of(message)}")
    return {**message, "content": marked_from_converse(message.get("content"), f"{where}.content")}


def _lift_tools(made: Body, rest: Body) -> None:
    config = rest.get("toolConfig")
    if not isinstance(config, dict):
        return
    config = without_nulls(config)
    tools = config.get("tools")
    if isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools):
        del config["tools"]
        lifted = [None if is_cache_point(tool) else _lift_tool(tool) for tool in tools]
        made["tools"] = mark_before(lifted, tools)
    match config.get("toolChoice"):
        case {"auto": dict(auto), **others} if not others and not auto:
            del config["toolChoice"]
        case {"any": dict(required), **others} if not others and not required:
            del config["toolChoice"]
            made["tool_choice"] = {"type": "any"}
        case {"tool": {"name": str(name), **more}, **others} if not others and not more:
            del config["toolChoice"]
            made["tool_choice"] = {"type": "tool", "name": name}
    if config:
        rest["toolConfig"] = config
    else:
        del rest["toolConfig"]


def _lift_tool(tool: Block) -> Block:
    plain = without_nulls(tool)
    match plain:
        case {"toolSpec": dict(spec), **others} if not others and "type" not in spec:
            lifted = without_nulls(spec)
            match lifted.get("inputSchema"):
                case {"json": schema, **more} if not more:
                    del lifted["inputSchema"]
                    lifted["input_schema"] = schema
            return lifted
    name = next(iter(plain), "")
    return {"type": name, name: plain[name]} if len(plain) == 1 and name != "type" else plain


def _lift_schema(made: Body, rest: Body) -> None:
    match rest.get("outputConfig"):
        case {
            "textFormat": {
                "type": "json_schema",
                "structure": {"jsonSchema": {"schema": str(text), **fields}, **more},
                **others,
            },
            **further,
        } if not more and not others and not further and fields.keys() <= {"name", "description"}:
            try:
                schema = orjson.loads(text)
            except orjson.JSONDecodeError:
                return
            if schema is None:
                return
            del rest["outputConfig"]
            made["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
            if fields.get("description") is not None:
                made["schema_description"] = fields["description"]


def _lift_further(made: Body, further: Body) -> None:
    """A model's own parameters stand beside all others, as they do in its own API."""
    if "top_k" not in further:
        _take_all(made, further, "inferenceConfig", {_TOP_K: "top_k"})
    config = further.get("output_config")
    if isinstance(config, dict) and "format" not in config and "output_config" in made:
        made["output_config"] = {**further.pop("output_config"), **made["output_config"]}
    for name in [name for name in further if name not in _TAKEN and name not in made]:
        made[name] = further.pop(name)
    if further:
        made[_FURTHER] = further


def encode_converse(request: LlmRequest) -> Body:
    """The body that makes a request."""
    body, rest = _converse_body(request)
    further = rest.pop(_FURTHER, {})
    if not isinstance(further, dict):
        raise InvalidRequest(f"extra.{_FURTHER}", "expected an object")
    for name in [name for name in rest if name not in _OWN]:
        further = {**further, name: rest.pop(name)}
    if request.top_k is not None and "nova" in request.model and "top_k" in further:
        inner = further.get("inferenceConfig", {})
        top_k = further.pop("top_k")
        further["inferenceConfig"] = {**(inner if isinstance(inner, dict) else {}), _TOP_K: top_k}
    if further:
        body[_FURTHER] = further
    return _join(body, rest)


def encode_nova(request: LlmRequest) -> Body:
    """The body that makes a request of Nova."""
    body, rest = _converse_body(request)
    if "top_k" in rest:
        body["inferenceConfig"] = {**body.get("inferenceConfig", {}), _TOP_K: rest.pop("top_k")}
    return _join({"schemaVersion": _SCHEMA_VERSION, **body}, rest)


def _join(body: Body, rest: Body) -> Body:
    """A body with what counted as it was, put back to where it stood."""
    for name, value in rest.items():
        known = body.get(name)
        both = isinstance(known, dict) and isinstance(value, dict)
        body[name] = {**known, **value} if both else body.get(name, value)  # type: ignore[dict-item]
    return body


def _converse_body(request: LlmRequest) -> tuple[Body, Body]:
    """What both APIs write alike, and what else a body of the Messages API says."""
    rest = encode_messages(request, without=frozenset(["refusal"]))
    body: Body = {"model": rest.pop("model")}
    if "system" in rest:
        body["system"] = blocks_to_converse(rest.pop("system"), "system")
    body["messages"] = [
        {**message, "content": blocks_to_converse(message.get("content"), f"messages[{i}]")}
        for i, message in enumerate(rest.pop("messages"))
    ]
    limits = {theirs: rest.pop(ours) for theirs, ours in _LIMITS.items() if ours in rest}
    if limits:
        body["inferenceConfig"] = limits
    config = _encode_tools(rest)
    if config:
        body["toolConfig"] = config
    if request.json_schema is not None:
        outputs = rest.pop("output_config")
        form: Block = {"schema": orjson.dumps(request.json_schema).decode(), "name": _SCHEMA_NAME}
        if "schema_description" in rest:
            form["description"] = rest.pop("schema_description")
        structure = {"jsonSchema": form}
        body["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": structure}}
        if others := {name: value for name, value in outputs.items() if name != "format"}:
            rest["output_config"] = others
    return body, rest


def _encode_tools(rest: Body) -> Block:
    config: Block = {}
    tools: list[Any] = []
    for tool in rest.pop("tools", []):
        marker = tool.get("cache_control") if isinstance(tool, dict) else None
        tools.append(_encode_tool(tool))
        if isinstance(marker, dict):
            tools.append({CACHE_POINT: {"type": "default", **without_nulls(marker, "type")}})
    if tools:
        config["tools"] = tools
    match rest.pop("tool_choice", None):
        case None:
            pass
        case {"type": "any", **others} if not others:
            config["toolChoice"] = {"any": {}}
        case {"type": "tool", "name": name, **others} if not others:
            config["toolChoice"] = {"tool": {"name": name}}
        case _:
            reason = "bedrock-converse can ask for any tool or for one, and for nothing else"
            raise InvalidRequest("tool_choice", reason)
    return config


def _encode_tool(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    plain = {name: value for name, value in tool.items() if name != "cache_control"}
    kind = plain.get("type")
    if isinstance(kind, str) and set(plain) == {"type", kind}:
        return {kind: plain[kind]}
    if "input_schema" in plain:
        plain["inputSchema"] = {"json": plain.pop("input_schema")}
    return {"toolSpec": plain}
