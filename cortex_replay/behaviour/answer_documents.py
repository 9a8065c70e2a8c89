"""An answer as the page shows it, beside the one that it is compared with."""

from __future__ import annotations

from typing import Any, Final

from cortex_replay.behaviour.facts import Said
from cortex_replay.behaviour.values import Clean, clean_value
from cortex_replay.canonical import compact
from cortex_replay.errors import ResponseParse
from cortex_replay.mcp.scripts import is_script
from cortex_replay.mcp.summaries import end_of_script
from cortex_replay.store.fixture import Answer
from cortex_replay.types import TokenUsage
from cortex_replay.wire.recording import body_of

__all__ = ["answer_document"]

_LONGEST: Final = 256 * 1024
"""Of a text; the recording has all of it."""


def answer_document(said: Said, clean: Clean) -> dict[str, Any]:
    """An ``AnswerDocument`` of the page. A stream is left out.

    Args:
        said: The answer.
        clean: What cuts secrets out of texts.
    """
    if isinstance(said, Answer):
        return {
            "text": clean(said.text)[:_LONGEST],
            "reasoning": clean(said.reasoning or "")[:_LONGEST],
            "tool_calls": [clean_value(call.to_dict(), clean) for call in said.tool_calls],
            "parsed": clean_value(said.parsed_json, clean),
            "finish_reason": said.finish_reason,
            "spent": None if said.usage is None else _spent(said.usage),
            "stream": None,
            "status": None,
        }
    status = said.get("status")
    return {
        "text": clean(_text(said))[:_LONGEST],
        "reasoning": "",
        "tool_calls": [],
        "parsed": None,
        "finish_reason": None,
        "spent": None,
        "stream": None,
        "status": status if isinstance(status, int) else None,
    }


def _text(wire: Said) -> str:
    """What came back of a call that asked no model, or failed."""
    assert not isinstance(wire, Answer)  # noqa: S101
    if is_script(wire):
        return end_of_script(wire)
    if "frames" in wire:
        return compact(wire["frames"])
    try:
        return body_of(wire).decode(errors="replace")
    except ResponseParse:
        return ""


def _spent(usage: TokenUsage) -> dict[str, int]:
    return {
        "prompt": usage.prompt_tokens,
        "completion": usage.completion_tokens,
        "cached": usage.cached_tokens or 0,
        "cache_write": usage.cache_write_tokens or 0,
    }
