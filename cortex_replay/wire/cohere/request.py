"""Requests of Cohere's chat API: messages as in chat completions, parameters under names of its own."""

from __future__ import annotations

from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmRequest
from cortex_replay.wire.body import (
    Body,
    is_number,
    lift_choice,
    lift_message_list,
    parameters,
    put,
    take,
    take_integer,
    take_stop,
    take_text,
    take_tools,
    without_nulls,
)
from cortex_replay.wire.calls import encode_tool
from cortex_replay.wire.openai_chat.messages import encode_message, lift_message
from cortex_replay.wire.systems import is_plain_system, join_system, split_leading_system, system_texts

__all__ = ["encode_request", "lift_request"]

_CHOICES: Final = {"REQUIRED": "required", "NONE": "none"}


def lift_request(body: object) -> LlmRequest:
    rest = parameters(body)
    rest.pop("priority", None)  # how soon it is answered, and not what
    model = take_text(rest, "model")
    raw_messages = rest.pop("messages", None)
    leading, messages = split_leading_system(lift_message_list(raw_messages, "messages", lift_message))
    if not all(map(is_plain_system, leading)):
        rest["system"] = raw_messages[: len(leading)]
    choice = rest.pop("tool_choice", None)
    return LlmRequest(
        model=model,
        system=join_system(system_texts(leading)),
        messages=messages,
        temperature=take(rest, "temperature", is_number),
        max_tokens=take_integer(rest, "max_tokens", 0),
        json_schema=_take_schema(rest),
        tools=take_tools(rest, is_typed=True),
        tool_choice=_CHOICES.get(choice, choice) if isinstance(choice, str) else lift_choice(choice),
        stop=take_stop(rest, "stop_sequences"),
        top_p=take(rest, "p", is_number),
        top_k=take_integer(rest, "k", 0),
        seed=take_integer(rest, "seed"),
        extra=rest,
    )


def _take_schema(rest: Body) -> JsonValue:
    """The schema of ``response_format``, which has been called both ways."""
    form = rest.get("response_format")
    fields = without_nulls(form, "type") if isinstance(form, dict) else {}
    if not isinstance(form, dict) or form.get("type") != "json_object" or len(fields) != 1:
        return None
    schema: JsonValue = fields.get("json_schema", fields.get("schema"))
    if schema is not None:
        del rest["response_format"]
    return schema


def encode_request(request: LlmRequest) -> Body:
    extra = dict(request.extra)
    body: Body = {"model": request.model}
    leading = extra.pop("system", None)
    if leading is None:
        leading = [{"role": "system", "content": request.system}] if request.system else []
    if not isinstance(leading, list):
        raise InvalidRequest("extra.system", "cohere-chat cannot carry this: it is no list of messages")
    body["messages"] = leading + [
        encode_message(message, f"messages[{i}]", thinks_in_blocks=True)
        for i, message in enumerate(request.messages)
    ]
    put(body, "temperature", request.temperature)
    put(body, "max_tokens", request.max_tokens)
    put(body, "p", request.top_p)
    put(body, "k", request.top_k)
    put(body, "seed", request.seed)
    put(body, "stop_sequences", list(request.stop) or None)
    if request.tools:
        body["tools"] = [encode_tool(tool) for tool in request.tools]
    choice = request.tool_choice
    put(body, "tool_choice", choice.upper() if isinstance(choice, str) else choice)
    if request.json_schema is not None:
        body["response_format"] = {"type": "json_object", "json_schema": request.json_schema}
    for name, value in extra.items():
        body.setdefault(name, value)
    return body
