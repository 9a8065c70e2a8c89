"""A request as the blocks that a cache sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cortex_replay.hashing import blake3_hex
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock
from cortex_replay.prompt.markers import breakpoints_of, system_blocks, turn_name
from cortex_replay.prompt.parts import MEDIA_TOKENS, estimate_tokens
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.types import LlmMessage, LlmRequest

__all__ = ["lay_out"]


def lay_out(request: LlmRequest, tokens: int | None = None) -> tuple[CacheBlock, ...]:
    """The blocks of a request: tools, system text, messages.

    Args:
        request: What is asked, with its plan.
        tokens: What the provider counted; the blocks share it in proportion to their estimates.
    """
    marks = {(mark.place, mark.index): mark.cache for mark in breakpoints_of(request).kept}
    rows: list[tuple[str, Place, str, int, CachePolicy]] = []
    for i, tool in enumerate(request.tools):
        written = _json(tool)
        name = tool.get("name") if isinstance(tool, dict) else None
        is_last = i == len(request.tools) - 1
        marker = marks.get((Place.TOOLS, 0), CachePolicy.NONE) if is_last else CachePolicy.NONE
        called = f"tool {name!r}" if isinstance(name, str) else f"tool {i + 1}"
        rows.append((called, Place.TOOLS, written, estimate_tokens(written), marker))
    blocks = system_blocks(request)
    for i, (text, _) in enumerate(blocks):
        called = "system text" if len(blocks) == 1 else f"system block {i + 1}"
        marker = marks.get((Place.SYSTEM, i), CachePolicy.NONE)
        rows.append((called, Place.SYSTEM, text, estimate_tokens(text), marker))
    for i, message in enumerate(request.messages):
        pieces = list(_pieces(message))
        for n, (written, size) in enumerate(pieces):
            is_last = n == len(pieces) - 1
            marker = marks.get((Place.MESSAGES, i), CachePolicy.NONE) if is_last else CachePolicy.NONE
            rows.append((turn_name(i, message), Place.MESSAGES, f"{message.role}{written}", size, marker))
    sizes = _share([row[3] for row in rows], tokens)
    return tuple(
        CacheBlock(name, place, blake3_hex(written.encode()), size, marker)
        for (name, place, written, _, marker), size in zip(rows, sizes, strict=True)
    )


def _pieces(message: LlmMessage) -> Iterator[tuple[str, int]]:
    """What a message is made of, each with its estimated size."""
    plain = message.to_dict()
    parts: list[Any] = [part for part in message.parts if not _is_fields(part)] or [message.content]
    calls = plain.get("tool_calls")
    parts += calls if isinstance(calls, list) else []
    for part in parts:
        written = part if isinstance(part, str) else _json(part)
        is_media = isinstance(part, dict) and ("data" in part or "blake3" in part)
        yield written, MEDIA_TOKENS if is_media else estimate_tokens(written)


def _is_fields(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "fields"


def _share(estimates: list[int], tokens: int | None) -> list[int]:
    """A count shared out in proportion, so that the shares add up to it."""
    whole = sum(estimates)
    if tokens is None or not whole:
        return estimates
    shares, so_far, given = [], 0, 0
    for estimate in estimates:
        so_far += estimate
        end = round(tokens * so_far / whole)
        shares.append(end - given)
        given = end
    return shares


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
