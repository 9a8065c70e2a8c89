"""What splits a cache beside the prompt itself."""

from __future__ import annotations

import json
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import Provider
from cortex_replay.types import LlmMessage, LlmRequest

__all__ = ["settings_of"]

_OPENAI_SETTINGS: Final = ("parallel_tool_calls", "reasoning", "reasoning_effort", "verbosity")
"""What OpenAI turns into words that the model reads first, beside ``text``, which has the form, too."""


def settings_of(request: LlmRequest, provider: Provider) -> dict[Place, str]:
    """What has to be equal for the blocks from a place on to be found, as one text for each place.

    Anthropic: the form of the answer counts for everything, ``speed`` for the system text and what follows;
    the choice of tools, thinking and effort, and whether there are pictures for the messages. OpenAI puts the
    form of the answer, effort and the like before everything. Of the others nothing of the kind is known.
    """
    if provider not in ("anthropic", "openai"):
        return {}
    found = {Place.TOOLS: _text(_form(request))}
    extra = request.extra
    if provider == "openai" and any(name in extra for name in _OPENAI_SETTINGS):
        found[Place.TOOLS] += _text([extra.get(name) for name in _OPENAI_SETTINGS])
    if provider == "anthropic":
        found[Place.SYSTEM] = _text(extra.get("speed"))
        config = extra.get("output_config")
        effort = config.get("effort") if isinstance(config, dict) else None
        choice = [request.tool_choice, extra.get("parallel_tool_calls"), extra.get("thinking"), effort]
        has_pictures = any(message.parts and _has_picture(message) for message in request.messages)
        is_plain = not has_pictures and not any(value is not None for value in choice)
        found[Place.MESSAGES] = "" if is_plain else _text([*choice, has_pictures])
    return {place: text for place, text in found.items() if text}


def _form(request: LlmRequest) -> JsonValue:
    extra = request.extra
    if request.json_schema is None and not extra:
        return None
    config = extra.get("output_config")
    parts = [
        request.json_schema,
        extra.get("response_format"),
        extra.get("text"),
        config.get("format") if isinstance(config, dict) else None,
    ]
    return parts if any(part is not None for part in parts) else None


def _has_picture(message: LlmMessage) -> bool:
    for part in message.parts:
        if isinstance(part, dict):
            inner = part.get("content")
            inside = inner if isinstance(inner, list) else []
            if any(isinstance(one, dict) and one.get("type") == "image" for one in (part, *inside)):
                return True
    return False


def _text(value: JsonValue) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
