"""The texts of a request that a model reads as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import is_
from typing import Any, Final, TypeVar

from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmMessage, LlmRequest, ToolCall

__all__ = ["Change", "rewrite_request", "rewrite_texts", "rewrite_value"]

Change = Callable[[str], str]
_T = TypeVar("_T")

_STRUCTURE: Final = frozenset(
    [
        *("type", "role", "name", "media_type"),
        *("id", "tool_use_id", "tool_call_id", "call_id"),
        *("data", "blake3", "signature", "encrypted_content"),
    ]
)
"""Fields of a block that are no text: what says what it is, ids (which are numbered), and bytes."""
_FREE: Final = frozenset(["input", "arguments"])
"""Fields of a block that hold a tool's arguments, whose names are the tool's own."""


def rewrite_texts(request: LlmRequest, change: Change) -> LlmRequest:
    """The request with its system text and the texts of its messages changed.

    It is the very same request when none is.
    """
    return _changed(request, _texts_changed(request, change))


def rewrite_request(request: LlmRequest, change: Change) -> LlmRequest:
    """The request with all its texts changed: also those of tools, of the schema and of other parameters."""
    made = _texts_changed(request, change)
    made["tools"] = _kept(request.tools, [_block(tool, change) for tool in request.tools])
    made["json_schema"] = rewrite_value(request.json_schema, change)
    before = made["extra"]
    extra = {
        name: value if name == "system" else rewrite_value(value, change) for name, value in before.items()
    }
    if not all(map(is_, extra.values(), before.values())):
        made["extra"] = extra
    return _changed(request, made)


def _texts_changed(request: LlmRequest, change: Change) -> dict[str, Any]:
    """The fields of a request whose texts are changed, by name."""
    system = change(request.system)
    messages = _kept(request.messages, [_message(message, change) for message in request.messages])
    extra = request.extra
    if "system" in extra:  # where a system text stands that is more than text
        block = _block(extra["system"], change)
        extra = extra if block is extra["system"] else extra | {"system": block}
    return {
        "system": request.system if system == request.system else system,
        "messages": messages,
        "extra": extra,
    }


def _changed(request: LlmRequest, made: Mapping[str, Any]) -> LlmRequest:
    """The request with other fields; they are checked once."""
    changed = {name: value for name, value in made.items() if value is not getattr(request, name)}
    return replace(request, **changed) if changed else request


def _message(message: LlmMessage, change: Change) -> LlmMessage:
    parts = _kept(message.parts, [_block(part, change) for part in message.parts])
    calls = _kept(message.tool_calls, [_call(call, change) for call in message.tool_calls])
    texts = _texts(message.parts)
    if texts and "".join(texts) == message.content:
        # The same text once more.
        content = message.content if parts is message.parts else "".join(_texts(parts))
    else:
        content = change(message.content)
    if content == message.content and parts is message.parts and calls is message.tool_calls:
        return message
    return replace(message, content=content, parts=parts, tool_calls=calls)


def _kept(before: tuple[_T, ...], after: list[_T]) -> tuple[_T, ...]:
    """The very same items where none is another."""
    return before if all(map(is_, before, after)) else tuple(after)


def _call(call: ToolCall, change: Change) -> ToolCall:
    arguments = rewrite_value(call.arguments, change)
    return call if arguments is call.arguments else replace(call, arguments=arguments)


def rewrite_value(value: JsonValue, change: Change) -> JsonValue:
    """A free value: every text in it, but not the names of its fields.

    It is the very same value when none is changed.
    """
    if isinstance(value, str):
        changed = change(value)
        return value if changed == value else changed
    if isinstance(value, list):
        items = [rewrite_value(item, change) for item in value]
        return value if all(map(is_, items, value)) else items
    if isinstance(value, dict):
        fields = {name: rewrite_value(item, change) for name, item in value.items()}
        return value if all(map(is_, fields.values(), value.values())) else fields
    return value


def _block(value: JsonValue, change: Change) -> JsonValue:
    """A block: every text in it that the model reads as text."""
    if isinstance(value, str):
        changed = value if _is_data_url(value) else change(value)
        return value if changed == value else changed
    if isinstance(value, list):
        items = [_block(item, change) for item in value]
        return value if all(map(is_, items, value)) else items
    if isinstance(value, dict):
        fields = {name: _field(name, item, change) for name, item in value.items()}
        return value if all(map(is_, fields.values(), value.values())) else fields
    return value


def _field(name: str, value: JsonValue, change: Change) -> JsonValue:
    if name in _FREE:
        return rewrite_value(value, change)
    return value if name in _STRUCTURE and isinstance(value, str) else _block(value, change)


def _is_data_url(text: str) -> bool:
    return text.startswith("data:") and ";base64," in text[:200]


def _texts(parts: Iterable[Any]) -> list[str]:
    """The texts of the parts that are text."""
    return [
        part["text"]
        for part in parts
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    ]
