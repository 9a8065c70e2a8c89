"""Messages without what a wire has no place for.

A request whose field a wire cannot carry is refused when it is sent. A prompt is for every wire, so what
a model gets by without is left out here, where the wire is known.
"""

from __future__ import annotations

from dataclasses import replace

from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmMessage

__all__ = ["fit"]


def fit(message: LlmMessage, wire: str) -> LlmMessage:
    """The message as ``wire`` can carry it.

    Only Anthropic marks a tool's result as an error; elsewhere its text has to say so. Ollama has one text
    for each message, and pictures without their type beside it.
    """
    if wire == "anthropic-messages":
        return message
    if message.is_error:
        message = replace(message, is_error=False)
    if wire == "ollama-chat" and message.parts:
        pictures = tuple(_without_type(part) for part in message.parts if not _is_text(part))
        text: tuple[JsonValue, ...] = ({"type": "text", "text": message.content},) if message.content else ()
        message = replace(message, parts=(*text, *pictures) if pictures else ())
    return message


def _is_text(part: JsonValue) -> bool:
    return isinstance(part, dict) and part.keys() == {"type", "text"} and part["type"] == "text"


def _without_type(part: JsonValue) -> JsonValue:
    if not isinstance(part, dict) or part.get("type") != "image":
        return part
    return {name: value for name, value in part.items() if name not in ("media_type", "detail")}
