"""Requests as documents: what people read of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole, ToolCall
from cortex_replay.types.parts import stored_part
from cortex_replay.view.documents.cutter import Cutter
from cortex_replay.view.threads import ALONE, Thread

__all__ = ["message_documents", "request_document", "tool_call_document"]

_OWN_FIELDS: Final = frozenset(["system", "messages", "tools"])


def request_document(request: LlmRequest, cut: Cutter, thread: Thread = ALONE) -> dict[str, Any]:
    """What was asked: ``system``, ``messages``, ``tools`` and ``settings`` of a call's document.

    Args:
        request: The whole request.
        cut: Makes texts short and harmless.
        thread: What stands in other documents, and is left out here.
    """
    # Without what may be long: a conversation would be written out for each of its turns.
    rest = replace(request, system="", messages=(), tools=(), cache=None).to_dict()
    settings = {name: value for name, value in rest.items() if name not in _OWN_FIELDS}
    return {
        "system": "" if thread.system_in else cut.text(request.system),
        "messages": message_documents(request.messages[thread.before :], cut),
        "tools": [] if thread.tools_in else [_tool(tool, cut) for tool in request.tools],
        "settings": {
            name: cut.json(value) for name, value in settings.items() if value not in (None, [], {})
        },
    }


def message_documents(messages: Iterable[LlmMessage], cut: Cutter) -> list[dict[str, Any]]:
    """Messages, each with what it has and no more."""
    return [_message(message, cut) for message in messages]


def _message(message: LlmMessage, cut: Cutter) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message.role.value, "text": cut.text(message.content)}
    if message.tool_calls:
        found["tool_calls"] = [tool_call_document(call, cut) for call in message.tool_calls]
    if message.role is LlmRole.TOOL or message.tool_call_id is not None:
        found["tool_call_id"] = message.tool_call_id
        found["is_error"] = message.is_error
    parts = [_part(part, cut) for part in message.parts]
    # The texts of parts are the message's own text already.
    if others := [part for part in parts if part["kind"] != "text"]:
        found["parts"] = others
    return found


def _part(part: JsonValue, cut: Cutter) -> dict[str, str]:
    """A block of a message; of a picture what names it, instead of its bytes."""
    block = stored_part(part)
    if not isinstance(block, dict):
        return {"kind": "part", "text": cut.text(compact(block))}
    kind, thought = str(block.get("type")), block.get("thinking")
    if kind == "text":
        return {"kind": kind, "text": ""}
    if kind == "thinking" and isinstance(thought, str):
        return {"kind": kind, "text": cut.text(thought)}
    rest: dict[str, JsonValue] = {name: value for name, value in block.items() if name != "type"}
    return {"kind": cut.text(kind), "text": cut.text(compact(rest))}


def _tool(tool: JsonValue, cut: Cutter) -> dict[str, Any]:
    """A tool as it was offered; providers that nest it name it inside."""
    inner = tool.get("function") if isinstance(tool, dict) else None
    named = inner if isinstance(inner, dict) else tool if isinstance(tool, dict) else {}
    name, description = named.get("name"), named.get("description")
    return {
        "name": cut.text(name) if isinstance(name, str) else "",
        "description": cut.text(description) if isinstance(description, str) else "",
        "definition": cut.json(tool),
    }


def tool_call_document(call: ToolCall, cut: Cutter) -> dict[str, Any]:
    """A call of a tool, as a model wants it."""
    return {
        "id": None if call.id is None else cut.text(call.id),
        "name": cut.text(call.name),
        "arguments": cut.json(call.arguments),
    }
