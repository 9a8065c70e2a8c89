"""Whose rules the cache behind a recorded call follows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from cortex_replay.canonical import JsonValue
from cortex_replay.prompt.cache.calls import Provider

__all__ = ["cache_provider"]

_ANTHROPIC: Final = ("anthropic", "claude")
_OPENAI: Final = ("openai", "azure")
_LOCAL: Final = ("ollama", "llamacpp", "llama.cpp")
_OPENAI_MODEL: Final = re.compile(r"(?:gpt-|chatgpt-|o\d)")


_HOSTS: Final = {"anthropic": (".anthropic.com",), "openai": (".openai.com", ".azure.com")}
_TIMINGS: Final = re.compile(r'"timings":\s*\{[^{}]*"cache_n":')
"""What only llama.cpp's server adds to an answer."""
_ENOUGH: Final = 4096


def cache_provider(
    model: str, meta: Mapping[str, JsonValue], wire_answer: Mapping[str, JsonValue] | None = None
) -> Provider | None:
    """The provider whose cache answered a call, by what its recording says of its origin.

    Claude follows Anthropic's rules wherever it is hosted. How another server
    caches that speaks OpenAI's API is not known: ``None``.

    Args:
        model: The one that was asked for.
        meta: Of the recording.
        wire_answer: The answer as it came, if it was kept.
    """
    if _is_of_llamacpp(wire_answer or {}):
        return "llamacpp"
    wire, name, adapter = (str(meta.get(field) or "") for field in ("wire", "provider", "adapter"))
    is_claude = "claude" in model.lower()
    is_own = name in _ANTHROPIC and wire in ("", "anthropic-messages") and _is_at(meta, "anthropic")
    if is_claude or is_own or adapter == "claude":
        return "anthropic"
    if wire.startswith("ollama") or name in _LOCAL or adapter == "ollama":
        return "llamacpp"
    if wire == "gemini-generate" or name in ("gemini", "vertex"):
        return "gemini"
    if name:
        is_own = _is_at(meta, "openai") or _OPENAI_MODEL.match(model) is not None
        return "openai" if name in _OPENAI and is_own else None
    if wire in ("", "openai-chat", "openai-responses") and _OPENAI_MODEL.match(model):
        return "openai"
    return "gemini" if not wire and model.startswith("gemini-") else None


def _is_at(meta: Mapping[str, JsonValue], provider: str) -> bool:
    """Whether a call went to a provider's own server; where the recording does not say, it did."""
    upstream = meta.get("upstream")
    if not isinstance(upstream, str):
        return True
    try:
        host = urlsplit(upstream).hostname or ""
    except ValueError:
        return False
    return f".{host}".endswith(_HOSTS[provider])


def _is_of_llamacpp(answer: Mapping[str, JsonValue]) -> bool:
    body, events = answer.get("body"), answer.get("events")
    if isinstance(events, list) and events:
        ends = [event.get("text") for event in events[-3:] if isinstance(event, dict)]
        body = "".join(end for end in ends if isinstance(end, str))
    return isinstance(body, str) and _TIMINGS.search(body[-_ENOUGH:]) is not None
