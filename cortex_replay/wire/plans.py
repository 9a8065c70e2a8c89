"""What a client tells the cache of a provider, as the plan of a request. No part of it is in the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from cortex_replay.types import CacheMark, CacheTime, LlmMessage, PromptCachePlan
from cortex_replay.wire.body import Block, Body, put
from cortex_replay.wire.systems import BLANK_LINE, system_texts

__all__ = [
    "BREAKPOINT",
    "MARKER",
    "Time",
    "block_count",
    "cache_fields",
    "make_marker",
    "mark_block",
    "mark_tools",
    "marker_time",
    "marks_in",
    "plan_of",
    "put_cache_fields",
]

MARKER: Final = "cache_control"
BREAKPOINT: Final = "prompt_cache_breakpoint"
"""OpenAI's own marker, which lives for half an hour."""
Time = Literal["5m", "30m", "1h"]


def marker_time(block: object) -> Time | None:
    """How long the marker on a block is to hold, five minutes if it does not say; ``None`` without one."""
    if not isinstance(block, dict):
        return None
    if isinstance(block.get(BREAKPOINT), dict):
        return "30m"
    marker = block.get(MARKER)
    if not isinstance(marker, dict):
        return None
    return "1h" if marker.get("ttl") == "1h" else "5m"


def make_marker(time: Time) -> Block:
    """The way back."""
    return {"type": "ephemeral", "ttl": "1h"} if time == "1h" else {"type": "ephemeral"}


def mark_block(block: Block, time: Time) -> Block:
    """A block with a marker, in the form that OpenAI or OpenRouter has for it."""
    return block | ({BREAKPOINT: {"mode": "explicit"}} if time == "30m" else {MARKER: make_marker(time)})


def block_count(message: LlmMessage) -> int:
    """How many blocks a message is sent as: its parts, its text unless these hold it, its calls."""
    parts = [part for part in message.parts if isinstance(part, dict) and part.get("type") != "fields"]
    has_text = bool(message.content) and not any(part.get("type") == "text" for part in parts)
    return len(parts) + has_text + len(message.tool_calls)


def marks_in(
    blocks: Sequence[Mapping[str, Any]], index: int, count: int, *, before: int = 0, behind_last: bool = True
) -> Iterator[CacheMark]:
    """The markers on the blocks of a message.

    Args:
        blocks: As they were sent.
        index: Which message it became.
        count: How many blocks that message has.
        before: How many of them are none of these, and stand before them.
        behind_last: Whether a marker on the last block is one on the message; not within a tool's result.
    """
    if not any(MARKER in block or BREAKPOINT in block for block in blocks):
        return
    if before + len(blocks) > count:  # an empty text is no block, and takes no marker
        blocks = [block for block in blocks if block.get("text") != ""]
    for part, block in enumerate(blocks, before):
        if (time := marker_time(block)) is not None:
            yield CacheMark("message", index, time, None if behind_last and part == count - 1 else part)


def mark_tools(tools: object) -> Iterator[CacheMark]:
    """The markers on tools."""
    for i, tool in enumerate(tools if isinstance(tools, list) else ()):
        if (time := marker_time(tool)) is not None:
            yield CacheMark("tool", i, time)


def cache_fields(body: object) -> dict[str, Any]:
    """What a body says of the cache beside its markers, for :func:`plan_of`."""
    fields = body if isinstance(body, dict) else {}
    options = fields.get("prompt_cache_options")
    options = options if isinstance(options, dict) else {}
    return {
        "whole": marker_time(fields),
        "key": fields.get("prompt_cache_key"),
        "retention": fields.get("prompt_cache_retention"),
        "mode": options.get("mode"),
    }


def put_cache_fields(body: Body, plan: PromptCachePlan | None) -> None:
    """The way back, for those that OpenAI knows."""
    if plan is not None:
        put(body, "prompt_cache_key", plan.key)
        put(body, "prompt_cache_retention", plan.retention)
        put(body, "prompt_cache_options", None if plan.mode is None else {"mode": plan.mode})


def plan_of(
    system: Iterable[tuple[str, Time | None]],
    leading: Sequence[LlmMessage],
    marks: Iterable[CacheMark],
    *,
    whole: Time | None = None,
    key: object = None,
    retention: object = None,
    mode: object = None,
) -> PromptCachePlan | None:
    """The plan of a request; ``None`` where a client says nothing.

    Args:
        system: The blocks of the system text, each with its marker.
        leading: The messages at the start that are system text, too.
        marks: Those on tools and messages, which are counted with the leading ones.
        whole: The marker on the prompt as such.
        key: What OpenAI groups prompts by.
        retention: How long OpenAI is to keep them.
        mode: Whether OpenAI adds a breakpoint of its own.
    """
    of_messages = list(marks)
    texts = [(text, time) for text, time in system if text]
    on_leading: list[dict[int | None, Time]] = [{} for _ in leading]
    for mark in of_messages:
        if mark.place == "message" and mark.index < len(leading):
            on_leading[mark.index][mark.part] = mark.ttl
    for message, marked in zip(leading, on_leading, strict=True):
        texts += _leading_texts(message, marked)
    found = [mark for mark in of_messages if mark.place == "tool"]
    found += [CacheMark("system", i, time) for i, (_, time) in enumerate(texts) if time is not None]
    found += [
        replace(mark, index=mark.index - len(leading))
        for mark in of_messages
        if mark.place == "message" and mark.index >= len(leading)
    ]
    if whole is not None:
        found.append(CacheMark("prompt", 0, whole))
    key = key if isinstance(key, str) and key else None
    retention = retention if isinstance(retention, str) and retention else None
    mode = mode if isinstance(mode, str) and mode else None
    if not found and len(texts) < 2 and (key, retention, mode) == (None, None, None):
        return None
    return PromptCachePlan(
        system_cuts=_cuts([text for text, _ in texts]),
        marks=tuple(found),
        key=key,
        retention=retention,
        mode=mode,
    )


def _leading_texts(
    message: LlmMessage, marked: Mapping[int | None, Time]
) -> Iterator[tuple[str, Time | None]]:
    """The texts of a system message, each with its marker."""
    texts = system_texts([message])
    for i, text in enumerate(texts):
        time = marked.get(i) or (marked.get(None) if i == len(texts) - 1 else None)
        if text:
            yield text, time


def _cuts(texts: Sequence[str]) -> tuple[tuple[int, CacheTime], ...]:
    """Where each of several blocks ends in the one system text."""
    if len(texts) < 2:
        return ()
    cuts: list[tuple[int, CacheTime]] = []
    end = -len(BLANK_LINE)
    for text in texts:
        end += len(BLANK_LINE) + len(text)
        cuts.append((end, "none"))
    return tuple(cuts)
