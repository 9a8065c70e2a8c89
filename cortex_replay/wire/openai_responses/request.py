"""Requests of the Responses API.

Its input is a flat list of items. The items of one assistant turn (reasoning, a message, function
calls, in this order) are one message here, as they are on every other wire.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import CacheMark, LlmMessage, LlmRequest, LlmRole, ToolCall
from cortex_replay.validation import kind_of
from cortex_replay.wire.body import (
    DROPPED_WITHIN,
    Block,
    Body,
    blocks_of,
    content_and_parts,
    fields_part,
    is_number,
    lift_choice,
    lift_content,
    parameters,
    put,
    take,
    take_integer,
    take_text,
    take_tools,
    verbatim_message,
    verbatim_of,
    without_nulls,
    without_unseen,
)
from cortex_replay.wire.calls import arguments_of, arguments_text
from cortex_replay.wire.formats import encode_choice, encode_schema, take_schema
from cortex_replay.wire.media import (
    check_fields,
    encode_audio,
    encode_url,
    lift_audio,
    lift_file_data,
    lift_url,
)
from cortex_replay.wire.openai_responses.markers import ResponsesMarks, mark_content
from cortex_replay.wire.plans import block_count, cache_fields, marks_in, plan_of, put_cache_fields
from cortex_replay.wire.systems import is_plain_system, join_system, split_leading_system, system_texts

__all__ = ["encode_request", "lift_request"]

_ROLES: Final = {
    "system": LlmRole.SYSTEM,
    "developer": LlmRole.SYSTEM,
    "user": LlmRole.USER,
    "assistant": LlmRole.ASSISTANT,
}
_FROM_THE_CALLER: Final = ("_output", "_response")
"""How the types of items end that answer the model."""


def lift_request(body: object) -> LlmRequest:
    rest = parameters(body)
    model = take_text(rest, "model")
    instructions = take(rest, "instructions", lambda v: isinstance(v, str)) or ""
    items = rest.pop("input", [])
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    elif isinstance(items, list):
        items = [_seen(item) for item in items]
    lifted, marks = _lift_items(items)
    leading, messages = split_leading_system(lifted)
    if not all(map(is_plain_system, leading)):
        head = [{"role": "system", "content": instructions}] if instructions else []
        rest["system"] = head + [without_nulls(item, "id", "status") for item in items[: len(leading)]]
    return LlmRequest(
        model=model,
        system=join_system([instructions, *system_texts(leading)]),
        messages=messages,
        temperature=take(rest, "temperature", is_number),
        max_tokens=take_integer(rest, "max_output_tokens", 0),
        json_schema=_take_schema(rest),
        tools=take_tools(rest, is_typed=True),
        tool_choice=lift_choice(rest.pop("tool_choice", None)),
        top_p=take(rest, "top_p", is_number),
        extra=rest,
        cache=plan_of([(instructions, None)], leading, marks, **cache_fields(body)),
    )


def _seen(item: object) -> object:
    if not isinstance(item, dict) or item.keys().isdisjoint(DROPPED_WITHIN):
        return item
    return {name: value for name, value in item.items() if name not in DROPPED_WITHIN}


def _take_schema(rest: Body) -> JsonValue:
    text = rest.get("text")
    if not isinstance(text, dict):
        return None
    text = rest["text"] = without_nulls(text)
    schema = take_schema(text, "format", extra=rest)
    if not text:
        del rest["text"]
    return schema


def _lift_items(items: object) -> tuple[list[LlmMessage], list[CacheMark]]:
    """The messages, and the breakpoints on their blocks."""
    if not isinstance(items, list):
        raise InvalidRequest("input", f"expected text or a list, not {kind_of(items)}")
    messages: list[LlmMessage] = []
    marks: list[CacheMark] = []
    turn = _Turn(messages)
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidRequest(f"input[{i}]", f"expected an object, not {kind_of(item)}")
        try:
            _lift_item(item, turn, messages)
        except InvalidRequest as error:
            raise InvalidRequest(f"input[{i}].{error.field}", error.reason) from None
        content = item.get("content", item.get("output"))
        is_of_caller = not turn.is_open  # the model's own have none
        if is_of_caller and isinstance(content, list) and all(isinstance(block, dict) for block in content):
            marks += marks_in(content, len(messages) - 1, block_count(messages[-1]))
    turn.end()
    return messages, marks


class _Turn:
    """Gathers the items of one assistant turn: first what has no form here, a message, calls."""

    def __init__(self, messages: list[LlmMessage]) -> None:
        self._messages = messages
        self._start()

    def _start(self) -> None:
        self._items: list[Block] = []
        self._message: tuple[str, tuple[Block, ...]] | None = None
        self._calls: list[ToolCall] = []

    @property
    def is_open(self) -> bool:
        """Whether there is anything in it."""
        return bool(self._items or self._message is not None or self._calls)

    def item(self, item: Block) -> None:
        if self._message is not None or self._calls:
            self.end()
        self._items.append({"type": "verbatim", "verbatim": item})

    def message(self, text: str, parts: tuple[Block, ...]) -> None:
        if self._message is not None or self._calls:
            self.end()
        self._message = text, parts

    def call(self, call: ToolCall) -> None:
        self._calls.append(call)

    def end(self) -> None:
        if self.is_open:
            text, parts = self._message or ("", ())
            parts = (*self._items, *parts)
            self._messages.append(LlmMessage(LlmRole.ASSISTANT, text, parts=parts, tool_calls=self._calls))
            self._start()


def _lift_item(item: Block, turn: _Turn, messages: list[LlmMessage]) -> None:
    kind = item.get("type", "message")
    if kind == "message" and (role := _ROLES.get(str(item.get("role")))) is not None:
        text, parts = content_and_parts(lift_content(item.get("content"), _lift_block))
        parts = (*parts, *fields_part(item, "type", "role", "content", "id", "status"))
        if role is LlmRole.ASSISTANT:
            turn.message(text, parts)
        else:
            turn.end()
            messages.append(LlmMessage(role, text, parts=parts))
    elif kind == "function_call" and (call := _lift_call(item)) is not None:
        turn.call(call)
    elif kind == "function_call_output" and isinstance(item.get("call_id"), str):
        turn.end()
        text, parts = content_and_parts(lift_content(item.get("output"), _lift_block))
        parts = (*parts, *fields_part(item, "type", "call_id", "output", "id", "status"))
        messages.append(LlmMessage(LlmRole.TOOL, text, parts=parts, tool_call_id=item["call_id"]))
    elif isinstance(kind, str) and kind.endswith(_FROM_THE_CALLER):
        turn.end()
        messages.append(verbatim_message(item))
    else:
        turn.item(item)


def _lift_call(item: Block) -> ToolCall | None:
    match without_nulls(item, "id", "status"):
        case {"type": _, "call_id": str(call_id), "name": str(name), "arguments": arguments, **others} if (
            not others
        ):
            return ToolCall(id=call_id, name=name, arguments=arguments_of(arguments))
    return None


def _lift_block(block: Block) -> Block:
    plain = without_unseen(block)
    kind = plain.get("type")
    if kind in ("input_text", "output_text", "text"):
        unsaid = [name for name in ("annotations", "logprobs") if plain.get(name) == []]
        return without_nulls(plain, "logprobs", *unsaid) | {"type": "text"}
    if kind == "input_image":
        if plain.get("detail") == "auto":
            del plain["detail"]
        url = plain.pop("image_url", None)
        return plain | {"type": "image"} | (lift_url(url) if isinstance(url, str) else {})
    if kind == "input_file":
        if isinstance(url := plain.pop("file_url", None), str):
            plain["url"] = url
        plain |= lift_file_data(plain.pop("file_data", None))
        return plain | {"type": "document"}
    if kind == "input_audio" and len(plain) == 2:
        return lift_audio(plain.get("input_audio")) or plain
    return plain


def encode_request(request: LlmRequest) -> Body:
    extra = dict(request.extra)
    body: Body = {"model": request.model}
    items: list[Body] = []
    marks = ResponsesMarks(request)
    leading: Any = extra.pop("system", None)
    if isinstance(leading, list):
        items += leading
    elif request.system and not marks.of_system:
        body["instructions"] = request.system
    elif request.system:  # a breakpoint stands on a block, and these are none
        items.append({"type": "message", "role": "system", "content": marks.system()})
    for i, message in enumerate(request.messages):
        items += _encode_message(message, f"messages[{i}]", marks.of_message(i))
    body["input"] = items
    put(body, "temperature", request.temperature)
    put(body, "max_output_tokens", request.max_tokens)
    put(body, "top_p", request.top_p)
    if request.tools:
        body["tools"] = [_encode_tool(tool) for tool in request.tools]
    put(body, "tool_choice", encode_choice(request.tool_choice, lambda n: {"type": "function", "name": n}))
    if request.json_schema is not None:
        text = extra.pop("text", {})
        form = {"type": "json_schema", **encode_schema(request, extra)}
        body["text"] = {"format": form} | (text if isinstance(text, dict) else {})
    put_cache_fields(body, request.cache)
    for name, value in extra.items():
        body.setdefault(name, value)
    return body


def _encode_tool(tool: JsonValue) -> JsonValue:
    if not isinstance(tool, dict) or "type" in tool:
        return tool
    function: Block = {"type": "function", **tool}
    if "input_schema" in function:
        function["parameters"] = function.pop("input_schema")
    return function


def _encode_message(message: LlmMessage, where: str, marked: Collection[int | None] = ()) -> list[Body]:
    blocks, fields = blocks_of(message, where)
    items = [inner for block in blocks if (inner := verbatim_of(block)) is not None]
    content = [_encode_block(b, message.role, f"{where}.parts") for b in blocks if verbatim_of(b) is None]
    content = mark_content(content, marked)
    if message.role is LlmRole.TOOL:
        if message.tool_call_id is None:
            raise InvalidRequest(f"{where}.tool_call_id", "a tool's result must say which call it answers")
        output = {"type": "function_call_output", "call_id": message.tool_call_id}
        return [*items, output | {"output": _simplest_content(content)} | fields]
    if content or fields or not (items or message.tool_calls):
        # The type may be left out by the standard, but not every server knows that.
        head = {"type": "message", "role": message.role.value}
        items.append(head | {"content": _simplest_content(content)} | fields)
    for call in message.tool_calls:
        if call.id is None:
            raise InvalidRequest(f"{where}.tool_calls", "openai-responses needs an id for every tool call")
        text = arguments_text(call.arguments)
        items.append({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": text})
    return items


def _simplest_content(content: list[Block]) -> str | list[Block]:
    """A single plain text as a string."""
    if not content:
        return ""
    kind = str(content[0].get("type"))
    if len(content) == 1 and kind in ("input_text", "output_text") and len(content[0]) == 2:
        text: str = content[0]["text"]
        return text
    return content


def _encode_block(block: dict[str, Any], role: LlmRole, where: str) -> Block:
    match block.get("type"):
        case "text":
            text = {"type": "output_text" if role is LlmRole.ASSISTANT else "input_text"}
            return block | text if isinstance(block.get("text"), str) else block
        case "image":
            check_fields(block, "data", "media_type", "url", "file_id", "detail", where=where)
            image = without_nulls(block, "data", "media_type", "url")
            return image | {"type": "input_image", **without_nulls({"image_url": encode_url(block, where)})}
        case "document":
            check_fields(
                block, "data", "media_type", "file_data", "url", "file_id", "filename", "detail", where=where
            )
            file = without_nulls(block, "data", "media_type", "url") | {"type": "input_file"}
            if "data" in block:
                return file | {"file_data": encode_url(block, where)}
            return file | without_nulls({"file_url": block.get("url")})
        case "audio":
            check_fields(block, "data", "media_type", where=where)
            return {"type": "input_audio", "input_audio": encode_audio(block)}
        case "thinking" | "redacted_thinking" | "tool_use":
            raise InvalidRequest(where, f"openai-responses cannot carry a block of type {block['type']}")
    return block
