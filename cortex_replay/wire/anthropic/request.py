"""Requests of the Messages API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cortex_replay.canonical import JsonValue
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
    is_whole,
    lift_choice,
    lift_message_list,
    lift_tool,
    optional,
    parameters,
    required_text,
    take,
    take_stop,
    text_block,
    verbatim_message,
    verbatim_of,
    without_nulls,
)
from cortex_replay.wire.systems import is_plain_system, join_system, split_leading_system, system_texts

__all__ = ["encode_request", "lift_request"]

_THINKING: Final = frozenset(["thinking", "redacted_thinking"])
_WITH_SOURCE: Final = frozenset(["image", "document"])


def lift_request(body: object) -> LlmRequest:
    rest = parameters(body)
    model = required_text(rest, "model")
    system, odd_system = _lift_system(rest.pop("system", ""))
    messages = lift_message_list(rest.pop("messages", None), "messages", _lift_message)
    leading, messages = split_leading_system(messages)
    if not all(map(is_plain_system, leading)):
        raise InvalidRequest("messages[0]", "a system message at the start is text; put it into `system`")
    if odd_system is not None:
        rest["system"] = odd_system
    schema = _take_schema(rest)
    choice = _take_choice(rest)
    return LlmRequest(
        model=model,
        system=join_system([system, *system_texts(leading)]),
        messages=messages,
        temperature=take(rest, "temperature", is_number),
        max_tokens=take(rest, "max_tokens", is_whole),
        json_schema=schema,
        tools=[lift_tool(tool) for tool in take(rest, "tools", lambda v: isinstance(v, list)) or ()],
        tool_choice=choice,
        stop=take_stop(rest, "stop_sequences"),
        top_p=take(rest, "top_p", is_number),
        top_k=take(rest, "top_k", is_whole),
        extra=rest,
    )


def _lift_system(system: object) -> tuple[str, list[Block] | None]:
    """The system text, and the blocks themselves where they are more than text."""
    if isinstance(system, str):
        return system, None
    if not isinstance(system, list) or not all(isinstance(block, dict) for block in system):
        raise InvalidRequest("system", f"expected text or a list of blocks, not {kind_of(system)}")
    blocks = [without_nulls(block, "cache_control") for block in system]
    text = join_system([block["text"] for block in blocks if isinstance(block.get("text"), str)])
    is_plain = all(len(content_and_parts([block])[1]) == 0 for block in blocks)
    return text, None if is_plain else blocks


def _take_schema(rest: Body) -> JsonValue:
    """The schema of ``output_config.format``, or of the older ``output_format``."""
    config = rest.get("output_config")
    if isinstance(config, dict) and (schema := _schema_in(config.get("format"))) is not None:
        others = without_nulls(config, "format")
        if others:
            rest["output_config"] = others
        else:
            del rest["output_config"]
        return schema
    if (schema := _schema_in(rest.get("output_format"))) is not None:
        del rest["output_format"]
    return schema


def _schema_in(form: object) -> JsonValue:
    is_schema = isinstance(form, dict) and form.get("type") == "json_schema"
    if not isinstance(form, dict) or not is_schema or set(without_nulls(form)) != {"type", "schema"}:
        return None
    schema: JsonValue = form["schema"]
    return schema


def _take_choice(rest: Body) -> JsonValue:
    choice = rest.pop("tool_choice", None)
    if isinstance(choice, dict):
        choice = without_nulls(choice)
        is_single = choice.pop("disable_parallel_tool_use", False)
        if is_single is True and "parallel_tool_calls" not in rest:
            rest["parallel_tool_calls"] = False
    return lift_choice(choice)


def _lift_message(message: Block) -> Iterator[LlmMessage]:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system") or not isinstance(content, str | list):
        yield verbatim_message(message)
        return
    fields = fields_part(message, "role", "content")
    if isinstance(content, str):
        yield LlmMessage(role, content, parts=fields)
        return
    if not all(isinstance(block, dict) for block in content):
        raise InvalidRequest("content", "expected a list of objects")
    if role == "assistant":
        yield _lift_assistant(content, fields)
        return
    results = [block for block in content if _is_tool_result(block)]
    yield from map(_lift_tool_result, results)
    others = [_lift_block(block) for block in content if not _is_tool_result(block)]
    if others or fields or not results:
        text, parts = content_and_parts(others)
        yield LlmMessage(role, text, parts=(*parts, *fields))


def _is_tool_result(block: Block) -> bool:
    return block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str)


def _lift_tool_result(block: Block) -> LlmMessage:
    content = block.get("content")
    parts: tuple[Block, ...] = ()
    if isinstance(content, list) and all(isinstance(inner, dict) for inner in content):
        text, parts = content_and_parts([_lift_block(inner) for inner in content])
    elif content is None or isinstance(content, str):
        text = content or ""
    else:
        raise InvalidRequest("content", f"expected text or a list of blocks, not {kind_of(content)}")
    known = ("type", "tool_use_id", "content", "is_error", "cache_control")
    return LlmMessage(
        LlmRole.TOOL,
        text,
        parts=(*parts, *fields_part(block, *known)),
        tool_call_id=block["tool_use_id"],
        is_error=block.get("is_error") is True,
    )


def _lift_block(block: Block) -> Block:
    plain = without_nulls(block, "cache_control")
    source = plain.get("source")
    if plain.get("type") in _WITH_SOURCE and isinstance(source, dict):
        lifted = _lift_source(source)
        if lifted is not None:
            del plain["source"]
            return plain | lifted
    return plain


def _lift_source(source: Block) -> Block | None:
    match without_nulls(source):
        case {"type": "base64", "media_type": str(media_type), "data": str(data), **others} if not others:
            return {"media_type": media_type, "data": data}
        case {"type": "text", "media_type": str(media_type), "data": str(text), **others} if not others:
            # Plain text is all there is so far.
            return {"text": text} if media_type == "text/plain" else {"media_type": media_type, "text": text}
        case {"type": "url", "url": str(url), **others} if not others:
            return {"url": url}
        case {"type": "file", "file_id": str(file_id), **others} if not others:
            return {"file_id": file_id}
    return None


def _lift_assistant(content: list[Block], fields: tuple[Block, ...]) -> LlmMessage:
    blocks = [_without_default_caller(_lift_block(block)) for block in content]
    order = [_rank(block) for block in blocks]
    if None in order or order != sorted(order, key=lambda rank: rank or 0):
        text, _ = content_and_parts(blocks)
        return LlmMessage(LlmRole.ASSISTANT, text, parts=(*blocks, *fields))
    thinking = [block for block in blocks if _rank(block) == 1]
    text, parts = content_and_parts([block for block in blocks if _rank(block) == 2])
    calls = [
        ToolCall(id=block["id"], name=block["name"], arguments=block["input"])
        for block in blocks
        if _rank(block) == 3
    ]
    return LlmMessage(LlmRole.ASSISTANT, text, parts=(*thinking, *parts, *fields), tool_calls=calls)


def _without_default_caller(block: Block) -> Block:
    """Answers say who made a call, and clients send it back; nearly always it was the model itself."""
    is_default = block.get("type") == "tool_use" and block.get("caller") == {"type": "direct"}
    return without_nulls(block, "caller") if is_default else block


def _rank(block: Block) -> int | None:
    """Where a block stands in the order thinking, text, tool use; ``None`` for any other."""
    kind = block.get("type")
    if kind in _THINKING:
        return 1
    if kind == "text" and isinstance(block.get("text"), str):
        return 2
    is_plain_call = kind == "tool_use" and set(block) == {"type", "id", "name", "input"}
    return 3 if is_plain_call and isinstance(block["id"], str) and isinstance(block["name"], str) else None


def encode_request(request: LlmRequest) -> Body:
    plan = _Markers(request)
    extra = dict(request.extra)
    body: Body = {"model": request.model}
    optional(body, "max_tokens", request.max_tokens)
    if "system" in extra:
        body["system"] = extra.pop("system")
    elif request.system:
        body["system"] = plan.system(request.system)
    body["messages"] = list(_encode_messages(request, plan))
    optional(body, "temperature", request.temperature)
    optional(body, "top_p", request.top_p)
    optional(body, "top_k", request.top_k)
    optional(body, "stop_sequences", list(request.stop) or None)
    if request.tools:
        body["tools"] = plan.tools([dict(tool) if isinstance(tool, dict) else tool for tool in request.tools])
    _encode_choice(body, request, extra)
    if request.json_schema is not None:
        config = extra.pop("output_config", {})
        form = {"type": "json_schema", "schema": request.json_schema}
        body["output_config"] = (config if isinstance(config, dict) else {}) | {"format": form}
    for name, value in extra.items():
        body.setdefault(name, value)
    return body


def _encode_choice(body: Body, request: LlmRequest, extra: Body) -> None:
    choice: JsonValue = request.tool_choice
    encoded: JsonValue
    match choice:
        case None:
            encoded = None
        case "required":
            encoded = {"type": "any"}
        case "none":
            encoded = {"type": "none"}
        case {"name": str(name), **others} if not others:
            encoded = {"type": "tool", "name": name}
        case _:
            encoded = choice
    if extra.get("parallel_tool_calls") is False:
        del extra["parallel_tool_calls"]
        inner = encoded if isinstance(encoded, dict) else {"type": "auto"}
        encoded = {**inner, "disable_parallel_tool_use": True}
    optional(body, "tool_choice", encoded)


def _encode_messages(request: LlmRequest, plan: _Markers) -> Iterator[Body]:
    """The messages; tool results and what the user says right after them are one message."""
    results: list[Block] = []
    for i, message in enumerate(request.messages):
        where = f"messages[{i}]"
        if message.role is LlmRole.TOOL:
            results.append(plan.on_block(message, _encode_tool_result(message, where)))
            continue
        blocks, fields = blocks_of(message, where)
        if len(blocks) == 1 and (verbatim := verbatim_of(blocks[0])) is not None:
            if results:
                yield {"role": "user", "content": results}
                results = []
            yield verbatim
            continue
        encoded = [_encode_block(block) for block in blocks]
        encoded += [_encode_call(call, where) for call in message.tool_calls]
        if results and message.role is LlmRole.USER and encoded:
            encoded = results + encoded
            results = []
        elif results:
            yield {"role": "user", "content": results}
            results = []
        yield {"role": message.role.value, "content": plan.on_content(message, encoded), **fields}
    if results:
        yield {"role": "user", "content": results}


def _encode_block(block: Block) -> Block:
    kind = block.get("type")
    if kind in ("audio", "refusal"):
        raise InvalidRequest("messages", f"anthropic-messages cannot carry this: it has no {kind} blocks")
    if kind not in _WITH_SOURCE or "source" in block:
        return block
    plain = dict(block)
    source: Block
    if "data" in plain:
        source = {"type": "base64", "media_type": plain.pop("media_type", None), "data": plain.pop("data")}
    elif "text" in plain:
        media_type = plain.pop("media_type", "text/plain")
        source = {"type": "text", "media_type": media_type, "data": plain.pop("text")}
    elif "url" in plain:
        source = {"type": "url", "url": plain.pop("url")}
    elif "file_id" in plain:
        source = {"type": "file", "file_id": plain.pop("file_id")}
    else:
        return block
    return {"type": kind, "source": source, **plain}


def _encode_call(call: ToolCall, where: str) -> Block:
    if call.id is None:
        raise InvalidRequest(f"{where}.tool_calls", "anthropic-messages needs an id for every tool call")
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}


def _encode_tool_result(message: LlmMessage, where: str) -> Block:
    if message.tool_call_id is None:
        raise InvalidRequest(f"{where}.tool_call_id", "a tool's result must say which call it answers")
    blocks, fields = blocks_of(message, where)
    result: Block = {"type": "tool_result", "tool_use_id": message.tool_call_id}
    encoded = [_encode_block(block) for block in blocks]
    if encoded:
        result["content"] = _shortened(encoded)
    if message.is_error:
        result["is_error"] = True
    return result | fields


def _shortened(blocks: list[Block]) -> str | list[Block]:
    """A single plain text as a string."""
    text, parts = content_and_parts(blocks)
    return list(parts) or text


class _Markers:
    """Places the cache markers of a request's plan, at most as many as the provider takes."""

    MOST: Final = 4

    def __init__(self, request: LlmRequest) -> None:
        plan = request.cache
        self._marker: Block | None = None
        self._marks_tools = self._marks_system = False
        self._message_ids: frozenset[str] = frozenset()
        if plan is None:
            return
        self._marker = {"type": "ephemeral"} | ({} if plan.ttl is None else {"ttl": plan.ttl})
        known = [message.id for message in request.messages if message.id is not None]
        for name in plan.breakpoint_message_ids:
            if name not in known:
                raise InvalidRequest("cache.breakpoint_message_ids", f"no message has the id {name!r}")
        # A marker caches everything before it, so the last ones cache the most.
        wanted: list[str | None] = [None] * (plan.cache_tools and bool(request.tools))
        wanted += [""] * (plan.cache_system and bool(request.system))
        wanted += [name for name in known if name in plan.breakpoint_message_ids]
        kept = wanted[-self.MOST :]
        self._marks_tools, self._marks_system = None in kept, "" in kept
        self._message_ids = frozenset(name for name in kept if name)

    def system(self, text: str) -> str | list[Block]:
        return [self._marked(text_block(text))] if self._marks_system else text

    def tools(self, tools: list[Any]) -> list[Any]:
        if self._marks_tools and isinstance(tools[-1], dict):
            tools[-1] = self._marked(tools[-1])
        return tools

    def on_block(self, message: LlmMessage, block: Block) -> Block:
        return self._marked(block) if message.id is not None and message.id in self._message_ids else block

    def on_content(self, message: LlmMessage, blocks: list[Block]) -> str | list[Block]:
        if blocks and message.id is not None and message.id in self._message_ids:
            return [*blocks[:-1], self._marked(blocks[-1])]
        return _shortened(blocks)

    def _marked(self, block: Block) -> Block:
        return block | {"cache_control": self._marker}
