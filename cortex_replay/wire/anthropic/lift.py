"""Lifting: a body of the Messages API as a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.types import CacheMark, LlmMessage, LlmRequest, LlmRole, ToolCall
from cortex_replay.validation import kind_of
from cortex_replay.wire.body import (
    Block,
    Body,
    content_and_parts,
    fields_part,
    is_number,
    lift_choice,
    lift_message_list,
    parameters,
    take,
    take_integer,
    take_stop,
    take_text,
    take_tools,
    text_block,
    verbatim_message,
    without_nulls,
    without_unseen,
)
from cortex_replay.wire.plans import Time, block_count, mark_tools, marker_time, marks_in, plan_of
from cortex_replay.wire.systems import is_plain_system, join_system, split_leading_system, system_texts

__all__ = ["THINKING", "WITH_SOURCE", "lift_request"]

THINKING: Final = frozenset(["thinking", "redacted_thinking"])
WITH_SOURCE: Final = frozenset(["image", "document"])


def lift_request(body: object) -> LlmRequest:
    rest = parameters(body)
    model = take_text(rest, "model")
    given_system = rest.pop("system", "")
    system, odd_system = _lift_system(given_system)
    marks = [*mark_tools(rest.get("tools"))]
    lifter = _MessageLifter(marks)
    leading, messages = split_leading_system(
        lift_message_list(rest.pop("messages", None), "messages", lifter.lift)
    )
    if not all(map(is_plain_system, leading)):
        raise InvalidRequest("messages[0]", "a system message at the start is text; put it into `system`")
    if odd_system is not None:
        rest["system"] = odd_system + [text_block(text) for text in system_texts(leading)]
    if isinstance(servers := rest.get("mcp_servers"), list):  # a token is for the server, not for the model
        rest["mcp_servers"] = [
            without_nulls(server, "authorization_token") if isinstance(server, dict) else server
            for server in servers
        ]
    schema = _take_schema(rest)
    choice = _take_choice(rest)
    return LlmRequest(
        model=model,
        system=join_system([system, *system_texts(leading)]),
        messages=messages,
        temperature=take(rest, "temperature", is_number),
        max_tokens=take_integer(rest, "max_tokens", 0),
        json_schema=schema,
        tools=take_tools(rest),
        tool_choice=choice,
        stop=take_stop(rest, "stop_sequences"),
        top_p=take(rest, "top_p", is_number),
        top_k=take_integer(rest, "top_k", 0),
        extra=rest,
        cache=plan_of(_system_blocks(given_system), leading, marks, whole=marker_time(body)),
    )


def _system_blocks(system: str | list[Block]) -> Iterator[tuple[str, Time | None]]:
    """The texts of a system prompt, each with its marker."""
    if isinstance(system, str):
        yield system, None
        return
    for block in system:
        if isinstance(text := block.get("text"), str):
            yield text, marker_time(block)


def _lift_system(system: object) -> tuple[str, list[Block] | None]:
    """The system text, and the blocks themselves where they are more than text."""
    if isinstance(system, str):
        return system, None
    if not isinstance(system, list) or not all(isinstance(block, dict) for block in system):
        raise InvalidRequest("system", f"expected text or a list of blocks, not {kind_of(system)}")
    blocks = [without_unseen(block) for block in system]
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


class _MessageLifter:
    """Lifts messages one after the other, and notes the markers on them."""

    def __init__(self, marks: list[CacheMark]) -> None:
        self._marks = marks
        self._count = 0

    def lift(self, message: Block) -> Iterator[LlmMessage]:
        for lifted, blocks in _lift_message(message):
            if lifted.role is LlmRole.TOOL:
                self._note_result(lifted, blocks[0])
            else:
                self._marks += marks_in(blocks, self._count, block_count(lifted))
            self._count += 1
            yield lifted

    def _note_result(self, message: LlmMessage, result: Block) -> None:
        """The marker on a result stands behind the message; what is within it may have its own."""
        content = result.get("content")
        if isinstance(content, list):
            within = marks_in(content, self._count, block_count(message), behind_last=False)
            self._marks += within
        if (time := marker_time(result)) is not None:
            self._marks.append(CacheMark("message", self._count, time))


def _lift_message(message: Block) -> Iterator[tuple[LlmMessage, list[Block]]]:
    """What a message becomes: each with the blocks that it was."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system") or not isinstance(content, str | list):
        yield verbatim_message(message), []
        return
    fields = fields_part(message, "role", "content")
    if isinstance(content, str):
        yield LlmMessage(role, content, parts=fields), []
        return
    if not all(isinstance(block, dict) for block in content):
        raise InvalidRequest("content", "expected a list of objects")
    if role == "assistant":
        yield _lift_assistant(content, fields), content
        return
    results = [block for block in content if _is_tool_result(block)]
    yield from ((_lift_tool_result(result), [result]) for result in results)
    others = [block for block in content if not _is_tool_result(block)]
    if others or fields or not results:
        text, parts = content_and_parts([_lift_block(block) for block in others])
        yield LlmMessage(role, text, parts=(*parts, *fields)), others


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
    known = ("type", "tool_use_id", "content", "is_error")
    return LlmMessage(
        LlmRole.TOOL,
        text,
        parts=(*parts, *fields_part(block, *known)),
        tool_call_id=block["tool_use_id"],
        is_error=block.get("is_error") is True,
    )


def _lift_block(block: Block) -> Block:
    plain = without_unseen(block)
    source = plain.get("source")
    if str(plain.get("type")) in WITH_SOURCE and isinstance(source, dict):
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
    kind = str(block.get("type"))
    if kind in THINKING:
        return 1
    if kind == "text" and isinstance(block.get("text"), str):
        return 2
    is_plain_call = kind == "tool_use" and set(block) == {"type", "id", "name", "input"}
    return 3 if is_plain_call and isinstance(block["id"], str) and isinstance(block["name"], str) else None
