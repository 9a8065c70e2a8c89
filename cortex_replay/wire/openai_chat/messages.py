"""Messages of the chat completions API, which others have taken over with small changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cortex_replay.errors import InvalidRequest
from cortex_replay.types import LlmMessage, LlmRole, ToolCall
from cortex_replay.wire.body import (
    Block,
    Body,
    blocks_of,
    content_and_parts,
    fields_part,
    lift_content,
    verbatim_message,
    verbatim_of,
    without_nulls,
    without_unseen,
)
from cortex_replay.wire.calls import arguments_text, lift_calls
from cortex_replay.wire.media import (
    check_fields,
    encode_audio,
    encode_url,
    lift_audio,
    lift_file_data,
    lift_url,
)

__all__ = ["encode_message", "is_field", "lift_message", "reasoning_field"]

_ROLES: Final = {
    "system": LlmRole.SYSTEM,
    "developer": LlmRole.SYSTEM,
    "user": LlmRole.USER,
    "assistant": LlmRole.ASSISTANT,
    "tool": LlmRole.TOOL,
}
_ASSISTANT_FIELDS: Final = {"thinking": "reasoning_content", "refusal": "refusal"}
"""Parts that are no blocks of the content, and where they stand instead."""
_EMPTY: Final = frozenset(
    ["reasoning_content", "reasoning", "refusal", "annotations", "tool_calls", "tool_plan", "citations"]
)


def lift_message(message: Block) -> Iterator[LlmMessage]:
    """The one message that a message is."""
    role = _ROLES.get(str(message.get("role")))
    if role is None:
        yield verbatim_message(message)
        return
    known = ["role", "content"]
    blocks = lift_content(message.get("content"), _lift_block)
    thoughts: list[Block] = []
    if role is LlmRole.ASSISTANT and blocks and (thought := _lift_thought(blocks[0])) is not None:
        thoughts, blocks = [thought], blocks[1:]
    text, parts = content_and_parts(blocks)
    calls: tuple[ToolCall, ...] = ()
    call_id = None
    if role is LlmRole.ASSISTANT:
        known += _empty_fields(message)
        if _has_text(message, "refusal"):
            known.append("refusal")
            parts = (*blocks, {"type": "refusal", "refusal": message["refusal"]})
        reasoning = reasoning_field(message)
        if reasoning is not None:
            known.append(reasoning)
            thoughts.insert(0, {"type": "thinking", "thinking": message[reasoning]})
        plain_calls = lift_calls(message.get("tool_calls"))
        if plain_calls is not None:
            known.append("tool_calls")
            calls = plain_calls
    elif role is LlmRole.TOOL and isinstance(message.get("tool_call_id"), str):
        known.append("tool_call_id")
        call_id = message["tool_call_id"]
    parts = (*thoughts, *parts, *fields_part(message, *known))
    yield LlmMessage(role, text, parts=parts, tool_calls=calls, tool_call_id=call_id)


def reasoning_field(message: Block) -> str | None:
    """The field that holds what the model thought, if one does."""
    return next((name for name in ("reasoning_content", "reasoning") if _has_text(message, name)), None)


def is_field(message: LlmMessage, block: Block) -> bool:
    """Whether a block is sent as a field of its message, and not in the content."""
    kind = str(block.get("type"))
    is_said = message.role is LlmRole.ASSISTANT and isinstance(block.get(kind), str)
    return is_said and kind in _ASSISTANT_FIELDS


def _empty_fields(message: Block) -> list[str]:
    """What servers write into an answer that has none of it, and clients send back."""
    unsaid = [name for name in _EMPTY if message.get(name) in ("", [])]
    return [*unsaid, "prefix"] if message.get("prefix") is False else unsaid


def _has_text(message: Block, name: str) -> bool:
    return isinstance(message.get(name), str) and message[name] != ""


def _lift_thought(block: Block) -> Block | None:
    """The part for a block of thinking: a text, or as Mistral has it a list of texts."""
    match block:
        case {"type": "thinking", "thinking": str()} if len(block) == 2:
            return block
        case {"type": "thinking", "thinking": list(texts), **others} if others in ({}, {"closed": True}):
            plain = [content_and_parts([one]) for one in texts if isinstance(one, dict)]
            if len(plain) == len(texts) and all(said and not parts for said, parts in plain):
                return {"type": "thinking", "thinking": "".join(said for said, _ in plain)}
    return None


def _lift_block(block: Block) -> Block:
    plain = without_unseen(block)
    kind = str(plain.get("type"))
    inner = plain.get(kind)
    if kind == "image_url" and isinstance(inner, str) and len(plain) == 2:
        return {"type": "image", **lift_url(inner)}
    if kind == "document_url" and isinstance(inner, str) and plain.keys() <= {"type", kind, "document_name"}:
        lifted = lift_url(inner) | without_nulls({"filename": plain.get("document_name")})
        return {"type": "document", **lifted} if "data" in lifted else plain
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


def encode_message(message: LlmMessage, where: str, *, thinks_in_blocks: bool = False) -> Body:
    """A message as it is sent.

    Args:
        message: What to send.
        where: Its place in the request.
        thinks_in_blocks: Whether what the model thought is a block of its content, and not a field.
    """
    blocks, fields = blocks_of(message, where)
    if len(blocks) == 1 and (verbatim := verbatim_of(blocks[0])) is not None:
        return verbatim
    encoded: Body = {"role": message.role.value}
    content: list[Block] = []
    for block in blocks:
        kind, is_said = str(block.get("type")), is_field(message, block)
        if is_said and kind == "thinking" and thinks_in_blocks:
            content.append(block)
        elif is_said:
            name = _ASSISTANT_FIELDS[kind]
            encoded[name] = encoded.get(name, "") + block[kind]
        else:
            content.append(_encode_block(block, f"{where}.parts"))
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
        case "document" if isinstance(block.get("document"), dict):
            return block  # Cohere's own
        case "document":
            check_fields(block, "data", "media_type", "file_data", "file_id", "filename", where=where)
            file = without_nulls(block, "type", "data", "media_type")
            if "data" in block:
                file["file_data"] = encode_url(block, where)
            return {"type": "file", "file": file}
        case "thinking" if isinstance(block.get("thinking"), list):
            return block  # Mistral's own
        case "thinking" | "redacted_thinking" | "tool_use" | "verbatim":
            raise InvalidRequest(where, f"openai-chat cannot carry a block of type {block['type']} here")
    return block
