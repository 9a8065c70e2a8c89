"""Prompts as values with parts: blocks, rendered contexts, the IR. `docs/prompts.md` is the guide.

Providers cache byte-identical prefixes. Here a prompt knows its parts, each wire's order is made
from them in one place, and :func:`assert_prefix_stable` tells a test when the prefix broke.
Everything is a value or a function on values; nothing here sends, reads or writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cortex_replay.prompt.blocks import PromptBlock, flatten_blocks
from cortex_replay.prompt.breakpoints import (
    MOST_BREAKPOINTS,
    Breakpoint,
    Place,
    Placement,
    place_breakpoints,
)
from cortex_replay.prompt.context import PrefixFingerprint, RenderedContext
from cortex_replay.prompt.ir import PromptIR
from cortex_replay.prompt.message import PromptMessage
from cortex_replay.prompt.parts import (
    MEDIA_TOKENS,
    PromptPart,
    PromptParts,
    estimate_tokens,
    parts_of,
)
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.prompt.prefix import PrefixChanged, assert_prefix_stable
from cortex_replay.prompt.request import blocks_for_wire, to_request
from cortex_replay.prompt.segments import Continuation, Segment, SegmentRole
from cortex_replay.prompt.wire_prompt import WIRES, WirePrompt
from cortex_replay.types import CacheMark, PromptCachePlan

if TYPE_CHECKING:
    from cortex_replay.prompt.cache.assertions import assert_cache
    from cortex_replay.prompt.cache.checks import CacheCostExceeded, CacheMissed

__all__ = [
    "MEDIA_TOKENS",
    "MOST_BREAKPOINTS",
    "WIRES",
    "Breakpoint",
    "CacheCostExceeded",
    "CacheMark",
    "CacheMissed",
    "CachePolicy",
    "Continuation",
    "Place",
    "Placement",
    "PrefixChanged",
    "PrefixFingerprint",
    "PromptBlock",
    "PromptCachePlan",
    "PromptIR",
    "PromptMessage",
    "PromptPart",
    "PromptParts",
    "RenderedContext",
    "Segment",
    "SegmentRole",
    "WirePrompt",
    "assert_cache",
    "assert_prefix_stable",
    "blocks_for_wire",
    "estimate_tokens",
    "flatten_blocks",
    "parts_of",
    "place_breakpoints",
    "to_request",
]


def __getattr__(name: str) -> object:
    """Only some tests simulate a cache, and sending a prompt needs none of it."""
    if name == "assert_cache":
        from cortex_replay.prompt.cache.assertions import assert_cache  # noqa: PLC0415

        return assert_cache
    if name in ("CacheCostExceeded", "CacheMissed"):
        from cortex_replay.prompt.cache import checks  # noqa: PLC0415

        return getattr(checks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
