"""Requests of Ollama's ``/api/chat`` and ``/api/generate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole, ToolCall
from cortex_replay.validation import kind_of
from cortex_replay.wire.body import (
    Block,
    Body,
    blocks_of,
    content_and_parts,
    fields_part,
    is_number,
    is_text_list,
    lift_message_list,
    parameters,
    put,
    take,
    take_integer,
    take_stop,
    take_text,
    take_tools,
    text_block,
    verbatim_message,
    verbatim_of,
    without_nulls,
)
from cortex_replay.wire.calls import encode_tool, lift_calls
from cortex_replay.wire.systems import is_plain_system, join_system, split_leading_system, system_texts

__all__ = ["encode_chat", "encode_generate", "lift_chat", "lift_generate"]

_ROLES: Final = {role.value: role for role in LlmRole}


def lift_chat(body: object) -> LlmRequest:
    rest = parameters(body)
    raw_messages = rest.pop("messages", [])
    lifted = lift_message_list(raw_messages, "messages", _MessageLift())
    leading, messages = split_leading_system(lifted)
    if not all(map(is_plain_system, leading)):
        rest["system"] = raw_messages[: len(leading)]
    return _lift(rest, join_system(system_texts(leading)), messages)


def lift_generate(body: object) -> LlmRequest:
    rest = {name: value for name, value in parameters(body).items() if not _is_unused(name, value)}
    prompt = take_text(rest, "prompt") if "prompt" in rest else ""
    system = take_text(rest, "system") if "system" in rest else ""
    text, parts = content_and_parts(_with_images(prompt, take(rest, "images", is_text_list)))
    return _lift(rest, system, [LlmMessage(LlmRole.USER, text, parts=parts)])


def _is_unused(name: str, value: object) -> bool:
    """Some clients write every parameter of ``/api/generate``, also those that they do not use."""
    return (name in ("suffix", "template") and value == "") or (
        (name == "context" and value == []) or (name == "raw" and value is False)
    )


def _lift(rest: Body, system: str, messages: list[LlmMessage]) -> LlmRequest:
    model = take_text(rest, "model")
    options = take(rest, "options", lambda v: isinstance(v, dict)) or {}
    options = without_nulls(options)
    schema = take(rest, "format", lambda v: isinstance(v, dict))
    if rest.get("format") == "":
        del rest["format"]
    fields = {
        "temperature": take(options, "temperature", is_number),
        "max_tokens": take_integer(options, "num_predict", 0),
        "stop": take_stop(options, "stop"),
        "top_p": take(options, "top_p", is_number),
        "top_k": take_integer(options, "top_k", 0),
        "seed": take_integer(options, "seed"),
    }
    if options:
        rest["options"] = options
    return LlmRequest(
        model=model,
        system=system,
        messages=messages,
        json_schema=schema,
        tools=take_tools(rest, is_typed=True),
        extra=rest,
        **fields,
    )


def _with_images(text: str, images: list[str] | None) -> list[Block]:
    blocks = [text_block(text)] if text or not images else []
    return blocks + [{"type": "image", "data": data} for data in images or ()]


class _MessageLift:
    """Lifts messages in order, to know which tool a result's call was for."""

    def __init__(self) -> None:
        self._tool_names: dict[str, str] = {}

    def __call__(self, message: Block) -> Iterator[LlmMessage]:
        role = _ROLES.get(str(message.get("role")).lower())
        content = message.get("content")
        calls = lift_calls(message.get("tool_calls"))
        if role is None or not isinstance(content, str | None) or calls is None:
            yield verbatim_message(message)
            return
        known = ["role", "content", "tool_calls"]
        images = message.get("images")
        if is_text_list(images):
            known.append("images")
        blocks = _with_images(content or "", images if "images" in known else None)
        text, parts = content_and_parts(blocks)
        if isinstance(thinking := message.get("thinking"), str):
            known.append("thinking")
            parts = ({"type": "thinking", "thinking": thinking}, *parts) if thinking else parts
        call_id = message.get("tool_call_id") if role is LlmRole.TOOL else None
        if isinstance(call_id, str):
            known.append("tool_call_id")
            if self._tool_names.get(call_id) == message.get("tool_name"):
                known.append("tool_name")  # it says again what the id says
        else:
            call_id = None
        self._tool_names |= {call.id: call.name for call in calls if call.id is not None}
        parts = (*parts, *fields_part(message, *known))
        yield LlmMessage(role, text, parts=parts, tool_calls=calls, tool_call_id=call_id)


def encode_chat(request: LlmRequest) -> Body:
    extra = dict(request.extra)
    leading = extra.pop("system", None)
    if leading is None:
        leading = [{"role": "system", "content": request.system}] if request.system else []
    if not isinstance(leading, list):
        raise InvalidRequest("extra.system", f"expected a list of messages, not {kind_of(leading)}")
    tool_names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    messages = [
        _encode_message(message, f"messages[{i}]", tool_names.get)
        for i, message in enumerate(request.messages)
    ]
    return _encode(request, {"model": request.model, "messages": leading + messages}, extra)


def encode_generate(request: LlmRequest) -> Body:
    match request.messages:
        case (message,) if message.role is LlmRole.USER:
            pass
        case _:
            raise InvalidRequest("messages", "ollama-generate carries exactly one user message")
    prompt = _encode_message(message, "messages[0]", lambda _: None)
    body: Body = {"model": request.model, "prompt": prompt.get("content")}
    if request.system:
        body["system"] = request.system
    put(body, "images", prompt.get("images"))
    return _encode(request, body, dict(request.extra))


def _encode(request: LlmRequest, body: Body, extra: Body) -> Body:
    options: Body = {}
    put(options, "temperature", request.temperature)
    put(options, "num_predict", request.max_tokens)
    put(options, "stop", list(request.stop) or None)
    put(options, "top_p", request.top_p)
    put(options, "top_k", request.top_k)
    put(options, "seed", request.seed)
    if isinstance(extra.get("options"), dict):
        options = extra.pop("options") | options
    if options:
        body["options"] = options
    put(body, "format", request.json_schema)
    if request.tools:
        body["tools"] = [encode_tool(tool) for tool in request.tools]
    for name, value in extra.items():
        body.setdefault(name, value)
    return body


def _encode_message(
    message: LlmMessage, where: str, tool_name_of: Callable[[str | None], str | None]
) -> Body:
    blocks, fields = blocks_of(message, where)
    if len(blocks) == 1 and (verbatim := verbatim_of(blocks[0])) is not None:
        return verbatim
    encoded: Body = {"role": message.role.value, "content": message.content}
    images = []
    for block in blocks:
        match block:
            case {"type": "thinking", "thinking": str(thinking)}:
                encoded["thinking"] = encoded.get("thinking", "") + thinking
            case {"type": "image", "media_type": str()}:
                raise InvalidRequest(f"{where}.parts", "Ollama's images have no media_type; leave it out")
            case {"type": "image", "data": data}:
                images.append(data)
            case {"type": "text"}:
                pass  # it is in the content
            case _:
                raise InvalidRequest(
                    f"{where}.parts", f"ollama cannot carry a block of type {block.get('type')}"
                )
    put(encoded, "images", images or None)
    if message.tool_calls:
        encoded["tool_calls"] = [_encode_call(call, i) for i, call in enumerate(message.tool_calls)]
    if message.tool_call_id is not None:
        encoded["tool_call_id"] = message.tool_call_id
        put(encoded, "tool_name", tool_name_of(message.tool_call_id))
    return encoded | fields


def _encode_call(call: ToolCall, index: int) -> Block:
    function = {"index": index, "name": call.name, "arguments": call.arguments}
    return without_nulls({"id": call.id, "function": function})
