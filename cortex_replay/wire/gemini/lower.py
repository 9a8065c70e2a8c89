"""Lowering: a request as a body of ``generateContent``, with the model that its path will name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole
from cortex_replay.wire.body import Block, Body, blocks_of, put, verbatim_of
from cortex_replay.wire.gemini.lift import JSON, PENALTIES
from cortex_replay.wire.gemini.messages import PART_FIELDS
from cortex_replay.wire.media import check_fields

__all__ = ["encode_request"]


def encode_request(request: LlmRequest) -> Body:
    extra = dict(request.extra)
    body: Body = {"model": request.model}
    system = extra.pop("system", None)
    if system is not None:
        body["systemInstruction"] = {"parts": system}
    elif request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    body["contents"] = list(_encode_messages(request))
    if request.tools:
        body["tools"] = list(_encode_tools(request.tools))
    config = extra.pop("toolConfig", None)
    if (choice := _encode_choice(request.tool_choice)) is not None:
        config = (config if isinstance(config, dict) else {}) | choice
    put(body, "toolConfig", config)
    put(body, "generationConfig", _encode_config(request, extra) or None)
    for name, value in extra.items():
        body.setdefault(name, value)
    return body


def _encode_config(request: LlmRequest, extra: Body) -> Body:
    config: Body = {}
    put(config, "temperature", request.temperature)
    put(config, "topP", request.top_p)
    put(config, "topK", request.top_k)
    put(config, "maxOutputTokens", request.max_tokens)
    put(config, "stopSequences", list(request.stop) or None)
    put(config, "seed", request.seed)
    put(config, "candidateCount", extra.pop("n", None))
    for theirs, ours in PENALTIES.items():
        put(config, theirs, extra.pop(ours, None))
    if request.json_schema is not None:
        config |= {"responseMimeType": JSON, "responseJsonSchema": request.json_schema}
    others = extra.pop("generationConfig", None)
    return (others if isinstance(others, dict) else {}) | config


def _encode_tools(tools: tuple[JsonValue, ...]) -> Iterator[JsonValue]:
    """The tools; functions that follow each other are declared together."""
    functions: list[JsonValue] = []
    for tool in tools:
        if isinstance(tool, dict) and "name" in tool and "type" not in tool:
            function = dict(tool)
            if "input_schema" in function:
                function["parametersJsonSchema"] = function.pop("input_schema")
            functions.append(function)
            continue
        if functions:
            yield {"functionDeclarations": functions}
            functions = []
        yield tool
    if functions:
        yield {"functionDeclarations": functions}


def _encode_choice(choice: JsonValue) -> Block | None:
    match choice:
        case None:
            return None
        case "required":
            calling: Block = {"mode": "ANY"}
        case "none":
            calling = {"mode": "NONE"}
        case {"name": str(name), **others} if not others:
            calling = {"mode": "ANY", "allowedFunctionNames": [name]}
        case {"functionCallingConfig": calls, **others} if not others:
            return {"functionCallingConfig": calls}
        case _:
            raise InvalidRequest("tool_choice", "gemini-generate cannot carry it")
    return {"functionCallingConfig": calling}


def _encode_messages(request: LlmRequest) -> Iterator[Body]:
    """The contents; results that follow each other are one."""
    names = dict(_call_names(request))
    results: list[Block] = []
    for i, message in enumerate(request.messages):
        where = f"messages[{i}]"
        if message.role is LlmRole.TOOL:
            results.append(_encode_result(message, names.get(message.tool_call_id), where))
            continue
        if results:
            yield {"role": "user", "parts": results}
            results = []
        yield _encode_message(message, where)
    if results:
        yield {"role": "user", "parts": results}


def _call_names(request: LlmRequest) -> Iterator[tuple[str | None, str]]:
    """The function of each call, wherever its message has it."""
    for message in request.messages:
        yield from ((call.id, call.name) for call in message.tool_calls)
        for part in message.parts:
            match part:
                case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
                    yield call_id, name


def _encode_message(message: LlmMessage, where: str) -> Body:
    if message.role is LlmRole.SYSTEM:
        raise InvalidRequest(f"{where}.role", "gemini-generate has no system messages in a conversation")
    blocks, fields = blocks_of(message, where)
    if len(blocks) == 1 and (verbatim := verbatim_of(blocks[0])) is not None:
        return verbatim
    parts = [_encode_block(block, f"{where}.parts") for block in blocks]
    parts += [_call_part(call.id, call.name, call.arguments, where) for call in message.tool_calls]
    role = "model" if message.role is LlmRole.ASSISTANT else "user"
    return {"role": role, "parts": parts or [{"text": ""}], **fields}


def _encode_result(message: LlmMessage, called: str | None, where: str) -> Block:
    blocks, fields = blocks_of(message, where)
    name = fields.pop("name", called)
    if name is None:
        raise InvalidRequest(f"{where}.tool_call_id", "gemini-generate needs the call that a result is for")
    result: Block = {"name": name, "response": {"error" if message.is_error else "output": message.content}}
    put(result, "id", message.tool_call_id)
    media: list[Block] = []
    for block in blocks:
        if block.get("type") == "function_response":
            result["response"] = block.get("response")
        elif block.get("type") != "text":
            media.append(_encode_block(block, f"{where}.parts"))
    put(result, "parts", media or None)
    return {"functionResponse": result | fields}


def _call_part(call_id: Any, name: str, arguments: JsonValue, where: str) -> Block:
    if call_id is None:
        raise InvalidRequest(f"{where}.tool_calls", "a call needs an id, to know its result by")
    if not isinstance(arguments, dict):
        raise InvalidRequest(f"{where}.tool_calls", "gemini-generate carries arguments that are an object")
    return {"functionCall": {"id": call_id, "name": name, "args": arguments}}


def _encode_block(block: Block, where: str) -> Block:
    about = {name: block[name] for name in PART_FIELDS if name in block}
    match block.get("type"):
        case "text":
            check_fields(block, "text", *PART_FIELDS, where=where)
            return {"text": block.get("text"), **about}
        case "thinking":
            check_fields(block, "thinking", "signature", where=where)
            part: Block = {"text": block.get("thinking"), "thought": True}
            put(part, "thoughtSignature", block.get("signature"))
            return part
        case "image" | "audio" | "document":
            check_fields(block, "data", "media_type", "url", "displayName", *PART_FIELDS, where=where)
            return _encode_media(block, where) | about
        case "tool_use":
            check_fields(block, "id", "name", "input", where=where)
            return _call_part(block.get("id"), str(block.get("name")), block.get("input"), where)
        case "part" if isinstance(block.get("part"), dict):
            return dict(block["part"])
    raise InvalidRequest(where, f"gemini-generate cannot carry a block of type {block.get('type')}")


def _encode_media(block: Block, where: str) -> Block:
    inner: Block = {}
    put(inner, "mimeType", block.get("media_type"))
    put(inner, "displayName", block.get("displayName"))
    if "data" in block:
        if "mimeType" not in inner:
            raise InvalidRequest(where, f"this wire needs the media_type of the {block.get('type')}")
        return {"inlineData": inner | {"data": block["data"]}}
    return {"fileData": inner | {"fileUri": block.get("url")}}
