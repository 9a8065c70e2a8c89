"""Whose rules the cache behind a recorded call follows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.prompt.cache.calls import Provider

__all__ = ["cache_provider"]

_ANTHROPIC: Final = ("anthropic", "claude")
_OPENAI: Final = ("openai", "azure")
_LOCAL: Final = ("ollama", "llamacpp", "llama.cpp")
_OPENAI_MODEL: Final = re.compile(r"(?:gpt-|chatgpt-|o\d)")


def cache_provider(model: str, meta: Mapping[str, JsonValue]) -> Provider | None:
    """The provider whose cache answered a call, by what its recording says of its origin.

    Claude follows Anthropic's rules wherever it is hosted. Of another server that speaks OpenAI's API
    nobody knows how it caches: ``None``.
    """
    wire, name, adapter = (str(meta.get(field) or "") for field in ("wire", "provider", "adapter"))
    is_claude = "claude" in model.lower()
    if is_claude or (name in _ANTHROPIC and wire in ("", "anthropic-messages")) or adapter == "claude":
        return "anthropic"
    if wire.startswith("ollama") or name in _LOCAL or adapter == "ollama":
        return "llamacpp"
    if wire == "gemini-generate" or name in ("gemini", "vertex"):
        return "gemini"
    if name:
        return "openai" if name in _OPENAI else None
    if wire in ("", "openai-chat", "openai-responses") and _OPENAI_MODEL.match(model):
        return "openai"
    return "gemini" if not wire and model.startswith("gemini-") else None
