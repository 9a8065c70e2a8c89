"""Requests of the chat completions API, OpenAI's and everybody's."""

from __future__ import annotations

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
)
from cortex_replay.wire.calls import encode_tool
from cortex_replay.wire.formats import encode_choice, encode_schema, take_schema
from cortex_replay.wire.openai_chat.markers import ChatMarkers, marks_on_messages
from cortex_replay.wire.openai_chat.messages import encode_message, lift_message
from cortex_replay.wire.plans import MARKER, cache_fields, mark_tools, plan_of, put_cache_fields
from cortex_replay.wire.systems import is_plain_system, join_system, split_leading_system, system_texts

__all__ = ["encode_request", "lift_request"]


def lift_request(body: object) -> LlmRequest:
    rest = parameters(body)
    model = take_text(rest, "model")
    raw_messages = rest.pop("messages", None)
    marks = [*mark_tools(rest.get("tools"))]
    lifted = lift_message_list(raw_messages, "messages", lift_message)
    marks += marks_on_messages(raw_messages, lifted)
    leading, messages = split_leading_system(lifted)
    if not all(map(is_plain_system, leading)):
        rest["system"] = raw_messages[: len(leading)]
    schema = take_schema(rest, "response_format", inner="json_schema")
    max_tokens = take_integer(rest, "max_tokens", 0)
    if max_tokens is None:
        max_tokens = take_integer(rest, "max_completion_tokens", 0)
    return LlmRequest(
        model=model,
        system=join_system(system_texts(leading)),
        messages=messages,
        temperature=take(rest, "temperature", is_number),
        max_tokens=max_tokens,
        json_schema=schema,
        tools=take_tools(rest, is_typed=True),
        tool_choice=lift_choice(rest.pop("tool_choice", None)),
        stop=take_stop(rest, "stop"),
        top_p=take(rest, "top_p", is_number),
        top_k=take_integer(rest, "top_k", 0),
        seed=take_integer(rest, "seed"),
        extra=rest,
        cache=plan_of((), leading, marks, **cache_fields(body)),
    )


def encode_request(request: LlmRequest, max_tokens_field: str) -> Body:
    extra = dict(request.extra)
    markers = ChatMarkers(request)
    body: Body = {"model": request.model}
    leading = extra.pop("system", None)
    if leading is None:
        leading = [{"role": "system", "content": markers.system()}] if request.system else []
    if not isinstance(leading, list):
        raise InvalidRequest("extra.system", "openai-chat cannot carry this: it is no list of messages")
    body["messages"] = leading + [
        markers.message(i, message, encode_message(message, f"messages[{i}]"))
        for i, message in enumerate(request.messages)
    ]
    put(body, "temperature", request.temperature)
    # Where both names were used, the second stands in extra.
    put(body, "max_tokens" if "max_completion_tokens" in extra else max_tokens_field, request.max_tokens)
    put(body, "top_p", request.top_p)
    put(body, "top_k", request.top_k)
    put(body, "seed", request.seed)
    put(body, "stop", list(request.stop) or None)
    if request.tools:
        body["tools"] = markers.tools([encode_tool(tool) for tool in request.tools])
    choice = request.tool_choice
    put(body, "tool_choice", encode_choice(choice, lambda n: {"type": "function", "function": {"name": n}}))
    if request.json_schema is not None:
        form = encode_schema(request, extra)
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    put(body, MARKER, markers.of_prompt)
    put_cache_fields(body, request.cache)
    for name, value in extra.items():
        body.setdefault(name, value)
    return body
