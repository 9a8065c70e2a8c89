"""Lifting: a body of ``generateContent`` as a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmRequest
from cortex_replay.validation import kind_of
from cortex_replay.wire.body import (
    Block,
    Body,
    is_number,
    parameters,
    take,
    take_integer,
    take_stop,
    take_text,
)
from cortex_replay.wire.gemini.messages import lift_contents
from cortex_replay.wire.gemini.spelling import json_schema_of, unify_names
from cortex_replay.wire.systems import join_system

__all__ = ["JSON", "PENALTIES", "lift_request"]

JSON: Final = "application/json"
PENALTIES: Final = {"presencePenalty": "presence_penalty", "frequencyPenalty": "frequency_penalty"}
"""Parameters that other wires have too, under another name."""


def lift_request(body: object) -> LlmRequest:
    rest = unify_names(parameters(body))
    model = take_text(rest, "model")
    contents = rest.pop("contents", None)
    system, odd_system = _lift_system(rest.pop("systemInstruction", None))
    if odd_system is not None:
        rest["system"] = odd_system
    if rest.get("safetySettings") == []:
        del rest["safetySettings"]
    config = take(rest, "generationConfig", lambda v: isinstance(v, dict)) or {}
    choice = _take_choice(rest)
    tools = take(rest, "tools", lambda v: isinstance(v, list)) or []
    schema = _take_schema(config)
    number = take_integer(config, "candidateCount", 0)
    if number not in (None, 1):
        rest["n"] = number
    for theirs, ours in PENALTIES.items():
        if (penalty := take(config, theirs, is_number)) is not None:
            rest[ours] = penalty
    fields = {
        "temperature": take(config, "temperature", is_number),
        "max_tokens": take_integer(config, "maxOutputTokens", 0),
        "stop": take_stop(config, "stopSequences"),
        "top_p": take(config, "topP", is_number),
        "top_k": take_integer(config, "topK", 0),
        "seed": take_integer(config, "seed"),
    }
    if config:
        rest["generationConfig"] = config
    return LlmRequest(
        model=model,
        system=system,
        messages=lift_contents(contents),
        json_schema=schema,
        tools=list(_lift_tools(tools)),
        tool_choice=choice,
        extra=rest,
        **fields,
    )


def _lift_system(system: object) -> tuple[str, list[Block] | None]:
    """The system text, and the parts themselves where they are more than text. Its role says nothing."""
    if system is None:
        return "", None
    if isinstance(system, str):
        return system, None
    parts = _objects(system.get("parts", [])) if isinstance(system, dict) else None
    if not isinstance(system, dict) or not set(system) <= {"role", "parts"} or parts is None:
        raise InvalidRequest("systemInstruction", f"expected a content with parts, not {kind_of(system)}")
    text = join_system([part["text"] for part in parts if isinstance(part.get("text"), str)])
    is_plain = all(set(part) == {"text"} and isinstance(part["text"], str) for part in parts)
    return text, None if is_plain else parts


def _objects(value: object) -> list[Block] | None:
    """A list of objects, if it is one."""
    return value if isinstance(value, list) and all(isinstance(item, dict) for item in value) else None


def _take_schema(config: Body) -> JsonValue:
    """The schema of the answer, in either of its two forms. That it is JSON goes without saying then."""
    names = [name for name in ("responseJsonSchema", "responseSchema") if name in config]
    if config.get("responseMimeType") != JSON or len(names) != 1:
        return None
    del config["responseMimeType"]
    schema: JsonValue = config.pop(names[0])
    return schema if names[0] == "responseJsonSchema" else json_schema_of(schema)


def _lift_tools(tools: list[Any]) -> Iterator[JsonValue]:
    """Functions each for itself, as they are on every other wire; the provider's own tools as they are."""
    for tool in tools:
        declared = _objects(tool.get("functionDeclarations")) if isinstance(tool, dict) else None
        if declared is None or not all(isinstance(function.get("name"), str) for function in declared):
            yield tool
            continue
        yield from map(_lift_function, declared)
        if others := {name: value for name, value in tool.items() if name != "functionDeclarations"}:
            yield others


def _lift_function(function: Block) -> Block:
    plain = dict(function)
    if "parametersJsonSchema" in plain:
        plain["input_schema"] = plain.pop("parametersJsonSchema")
    elif isinstance(plain.get("parameters"), dict):
        plain["input_schema"] = json_schema_of(plain.pop("parameters"))
    return plain


def _take_choice(rest: Body) -> JsonValue:
    config = rest.get("toolConfig")
    if not isinstance(config, dict):
        return None
    others = dict(config)
    calling = others.pop("functionCallingConfig", None)
    if others:
        rest["toolConfig"] = others
    else:
        del rest["toolConfig"]
    if isinstance(calling, dict) and calling.get("allowedFunctionNames") == []:
        calling = {name: value for name, value in calling.items() if name != "allowedFunctionNames"}
    match calling:
        case None:
            return None
        case {"mode": "AUTO", **more} if not more:
            return None
        case {"mode": "ANY", **more} if not more:
            return "required"
        case {"mode": "NONE", **more} if not more:
            return "none"
        case {"mode": "ANY", "allowedFunctionNames": [str(name)], **more} if not more:
            return {"name": name}
    return {"functionCallingConfig": calling}
