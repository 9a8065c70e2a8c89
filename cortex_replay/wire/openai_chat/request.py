"""Requests of the chat completions API, OpenAI's and everybody's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole, ToolCall
from cortex_replay.wire.body import (
    Block,
    Body,
    blocks_of,
    content_and_parts,
    fields_part,
    is_number,
    lift_choice,
    lift_content,
    lift_message_list,
    parameters,
    put,
    take,
    take_integer,
    take_stop,
    take_text,
    take_tools,
    verbatim_message,
    verbatim_of,
    without_nulls,
)
from cortex_replay.wire.calls import arguments_text, encode_tool, lift_calls
from cortex_replay.wire.formats import encode_choice, encode_schema, take_schema
from cortex_replay.wire.media import (
    check_fields,
    encode_audio,
    encode_url,
    lift_audio,
    lift_file_data,
    lift_url,
)
from cortex_replay.wire.systems import is_plain_system, join_system, split_leading_system, system_texts

__all__ = ["encode_request", "lift_request"]

_ROLES: Final = {
    "system": LlmRole.SYSTEM,
    "developer": LlmRole.SYSTEM,
    "user": LlmRole.USER,
    "assistant": LlmRole.ASSISTANT,
    "tool": LlmRole.TOOL,
}


def lift_request(body: object) -> LlmRequest:
    rest = parameters(body)
    model = take_text(rest, "model")
    raw_messages = rest.pop("messages", None)
    leading, messages = split_leading_system(lift_message_list(raw_messages, "messages", _lift_message))
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
    )


def _lift_message(message: Block) -> Iterator[LlmMessage]:
    role = _ROLES.get(str(message.get("role")))
    if role is None:
        yield verbatim_message(message)
        return
    known = ["role", "content"]
    blocks = lift_content(message.get("content"), _lift_block)
    text, parts = content_and_parts(blocks)
    calls: tuple[ToolCall, ...] = ()
    call_id = None
    if role is LlmRole.ASSISTANT:
        known += _empty_fields(message)
        if _has_text(message, "refusal"):
            known.append("refusal")
            parts = (*blocks, {"type": "refusal", "refusal": message["refusal"]})
        reasoning = next((n for n in ("reasoning_content", "reasoning") if _has_text(message, n)), None)
        if reasoning is not None:
            known.append(reasoning)
            parts = ({"type": "thinking", "thinking": message[reasoning]}, *parts)
        plain_calls = lift_calls(message.get("tool_calls"))
        if plain_calls is not None:
            known.append("tool_calls")
            calls = plain_calls
    elif role is LlmRole.TOOL and isinstance(message.get("tool_call_id"), str):
        known.append("tool_call_id")
        call_id = message["tool_call_id"]
    parts = (*parts, *fields_part(message, *known))
    yield LlmMessage(role, text, parts=parts, tool_calls=calls, tool_call_id=call_id)


def _empty_fields(message: Block) -> list[str]:
    """What servers write into an answer that has none of it, and clients send back."""
    names = ("reasoning_content", "reasoning", "refusal", "annotations", "tool_calls")
    return [name for name in names if message.get(name) in ("", [])]


def _has_text(message: Block, name: str) -> bool:
    return isinstance(message.get(name), str) and message[name] != ""


def _lift_block(block: Block) -> Block:
    plain = without_nulls(block, "cache_control")
    kind = str(plain.get("type"))
    inner = plain.get(kind)
    if not isinstance(inner, dict) or len(plain) != 2:
        return plain
    inner = without_nulls(inner)
    if kind == "image_url" and isinstance(inner.get("url"), str):
        if inner.get("detail") == "auto":
            del inner["detail"]
        return {"type": "image", **lift_url(inner.pop("url")), **inner}
    if kind == "input_audio":
        return lift_audio(inner) or plain
    if kind == "file":
        return {"type": "document", **lift_file_data(inner.pop("file_data", None)), **inner}
    return plain


def encode_request(request: LlmRequest, max_tokens_field: str) -> Body:
    extra = dict(request.extra)
    body: Body = {"model": request.model}
    leading = extra.pop("system", None)
    if leading is None:
        leading = [{"role": "system", "content": request.system}] if request.system else []
    if not isinstance(leading, list):
        raise InvalidRequest("extra.system", "openai-chat cannot carry this: it is no list of messages")
    body["messages"] = leading + [
        _encode_message(m, f"messages[{i}]") for i, m in enumerate(request.messages)
    ]
    put(body, "temperature", request.temperature)
    # Where both names were used, the second stands in extra.
    put(body, "max_tokens" if "max_completion_tokens" in extra else max_tokens_field, request.max_tokens)
    put(body, "top_p", request.top_p)
    put(body, "top_k", request.top_k)
    put(body, "seed", request.seed)
    put(body, "stop", list(request.stop) or None)
    if request.tools:
        body["tools"] = [encode_tool(tool) for tool in request.tools]
    choice = request.tool_choice
    put(body, "tool_choice", encode_choice(choice, lambda n: {"type": "function", "function": {"name": n}}))
    if request.json_schema is not None:
        form = encode_schema(request, extra)
        body["response_format"] = {"type": "json_schema", "json_schema": form}
    for name, value in extra.items():
        body.setdefault(name, value)
    return body


def _encode_message(message: LlmMessage, where: str) -> Body:
    blocks, fields = blocks_of(message, where)
    if len(blocks) == 1 and (verbatim := verbatim_of(blocks[0])) is not None:
        return verbatim
    encoded: Body = {"role": message.role.value}
    if message.role is LlmRole.ASSISTANT:
        for kind, name in (("thinking", "reasoning_content"), ("refusal", "refusal")):
            for block in [block for block in blocks if block.get("type") == kind]:
                encoded[name] = encoded.get(name, "") + str(block.get(kind))
                blocks.remove(block)
    content = [_encode_block(block, f"{where}.parts") for block in blocks]
    text, parts = content_and_parts(content)
    encoded["content"] = list(parts) or text
    if message.role is LlmRole.ASSISTANT and not content and (message.tool_calls or "refusal" in encoded):
        encoded["content"] = None
    if message.tool_calls:
        encoded["tool_calls"] = [_encode_call(call, where) for call in message.tool_calls]
    if message.role is LlmRole.TOOL:
        if message.tool_call_id is None:
            raise InvalidRequest(f"{where}.tool_call_id", "a tool's result must say which call it answers")
        encoded["tool_call_id"] = message.tool_call_id
    return encoded | fields


def _encode_call(call: ToolCall, where: str) -> Block:
    if call.id is None:
        raise InvalidRequest(f"{where}.tool_calls", "openai-chat needs an id for every tool call")
    function = {"name": call.name, "arguments": arguments_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _encode_block(block: dict[str, Any], where: str) -> Block:
    match block.get("type"):
        case "image":
            check_fields(block, "data", "media_type", "url", "detail", where=where)
            inner = without_nulls({"url": encode_url(block, where), "detail": block.get("detail")})
            return {"type": "image_url", "image_url": inner}
        case "audio":
            check_fields(block, "data", "media_type", where=where)
            return {"type": "input_audio", "input_audio": encode_audio(block)}
        case "document":
            check_fields(block, "data", "media_type", "file_data", "file_id", "filename", where=where)
            file = without_nulls(block, "type", "data", "media_type")
            if "data" in block:
                file["file_data"] = encode_url(block, where)
            return {"type": "file", "file": file}
        case "thinking" | "redacted_thinking" | "tool_use" | "verbatim":
            raise InvalidRequest(where, f"openai-chat cannot carry a block of type {block['type']} here")
    return block
