"""Lowering: a request as a body of the Messages API."""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole, ToolCall
from cortex_replay.wire.anthropic.lift import WITH_SOURCE
from cortex_replay.wire.anthropic.markers import Markers, simplest_content
from cortex_replay.wire.body import Block, Body, blocks_of, put, verbatim_of
from cortex_replay.wire.plans import MARKER

__all__ = ["encode_request"]


_MISSING: Final = frozenset(["audio", "refusal"])


def encode_request(request: LlmRequest, *, without: AbstractSet[str] = _MISSING) -> Body:
    """The body of a request; blocks of the kinds ``without`` are refused."""
    plan = Markers(request)
    extra = dict(request.extra)
    body: Body = {"model": request.model}
    put(body, "max_tokens", request.max_tokens)
    if "system" in extra:
        body["system"] = plan.odd_system(extra.pop("system"))
    elif request.system:
        body["system"] = plan.system()
    body["messages"] = list(_encode_messages(request, plan, without))
    put(body, "temperature", request.temperature)
    put(body, "top_p", request.top_p)
    put(body, "top_k", request.top_k)
    put(body, "stop_sequences", list(request.stop) or None)
    if request.tools:
        body["tools"] = plan.tools([dict(tool) if isinstance(tool, dict) else tool for tool in request.tools])
    put(body, MARKER, plan.of_prompt)
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
    put(body, "tool_choice", encoded)


def _encode_messages(request: LlmRequest, plan: Markers, without: AbstractSet[str]) -> Iterator[Body]:
    """The messages; tool results and what the user says right after them are one message."""
    results: list[Block] = []
    for i, message in enumerate(request.messages):
        where = f"messages[{i}]"
        if message.role is LlmRole.TOOL:
            results.append(plan.on_result(i, _encode_tool_result(message, i, plan, without)))
            continue
        blocks, fields = blocks_of(message, where)
        if len(blocks) == 1 and (verbatim := verbatim_of(blocks[0])) is not None:
            if results:
                yield {"role": "user", "content": results}
                results = []
            yield verbatim
            continue
        encoded = [_encode_block(block, without) for block in blocks]
        encoded += [_encode_call(call, where) for call in message.tool_calls]
        encoded = plan.on_blocks(i, encoded)
        if results and message.role is LlmRole.USER and encoded:
            encoded = results + encoded
            results = []
        elif results:
            yield {"role": "user", "content": results}
            results = []
        yield {"role": message.role.value, "content": simplest_content(encoded), **fields}
    if results:
        yield {"role": "user", "content": results}


def _encode_block(block: Block, without: AbstractSet[str]) -> Block:
    kind = str(block.get("type"))
    if kind in without:
        raise InvalidRequest("messages", f"anthropic-messages cannot carry this: it has no {kind} blocks")
    if kind not in WITH_SOURCE or "source" in block:
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


def _encode_tool_result(message: LlmMessage, i: int, plan: Markers, without: AbstractSet[str]) -> Block:
    where = f"messages[{i}]"
    if message.tool_call_id is None:
        raise InvalidRequest(f"{where}.tool_call_id", "a tool's result must say which call it answers")
    blocks, fields = blocks_of(message, where)
    result: Block = {"type": "tool_result", "tool_use_id": message.tool_call_id}
    encoded = plan.within_result(i, [_encode_block(block, without) for block in blocks])
    if encoded:
        result["content"] = simplest_content(encoded)
    if message.is_error:
        result["is_error"] = True
    return result | fields
