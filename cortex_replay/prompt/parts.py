"""A prompt as the parts that a provider reads one after another, with their sizes.

A token is estimated at four bytes of UTF-8, rounded up for each part, and an image or a recording
at :data:`MEDIA_TOKENS`. Tokenizers differ by a third in both directions; it is good enough to tell
what a change costs, and it is the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from cortex_replay import validation as check
from cortex_replay.prompt.blocks import PromptBlock, block_values
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.context import RenderedContext
from cortex_replay.prompt.ir import PromptIR
from cortex_replay.prompt.markers import (
    breakpoints_of,
    can_carry_marker,
    marks_of,
    system_blocks,
    system_name,
    turn_name,
)
from cortex_replay.prompt.message import PromptMessage
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.prompt.segments import SegmentRole
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole

__all__ = ["MEDIA_TOKENS", "Prompt", "PromptPart", "PromptParts", "estimate_tokens", "goes_on", "parts_of"]

Prompt = RenderedContext | PromptIR | LlmRequest | Sequence[PromptBlock]

MEDIA_TOKENS: Final = 1600
"""What Anthropic counts at most for an image; nobody can tell from the bytes alone."""

_BODY_ORDER: Final = (
    SegmentRole.STABLE_PREFIX,
    SegmentRole.DYNAMIC_CONTEXT,
    SegmentRole.SYSTEM_REMAINDER,
    SegmentRole.CONVERSATION,
    SegmentRole.VOLATILE_TAIL,
)


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A block, a tool or a turn."""

    name: str
    """For people, such as ``block 'policy'`` or ``turn 3 (user)``."""
    text: str
    """What it says, for people."""
    material: str
    """Equal for two parts exactly when the provider reads the same."""
    bytes: int
    tokens: int
    """Its estimated size."""
    cache: CachePolicy = CachePolicy.NONE
    """The marker behind it, where the prompt is a request with a plan."""


@dataclass(frozen=True, slots=True)
class PromptParts:
    """A prompt's parts in the order in which they are read."""

    kind: Literal["blocks", "context", "ir", "request"]
    parts: tuple[PromptPart, ...]
    cacheable: int
    """How many of them, from the start, have to stay as they are for a provider to keep them."""
    is_marked: bool
    """Whether a breakpoint says so; without any, it is what providers cache by themselves."""
    reach: int
    """How many of them, from the start, this prompt can read from a cache: up to its last breakpoint."""

    @property
    def prefix(self) -> tuple[PromptPart, ...]:
        """The parts that can be cached."""
        return self.parts[: self.cacheable]


_KEPT_BY: Final = ("previous_response_id", "conversation")
"""Where a body of OpenAI's Responses names what the provider holds."""


def goes_on(request: LlmRequest) -> bool:
    """Whether a request is only the end of its prompt: the provider has what comes before."""
    return any(request.extra.get(name) is not None for name in _KEPT_BY)


def estimate_tokens(text: str) -> int:
    """A text's size in tokens: its bytes in UTF-8 divided by four, rounded up."""
    return -(-len(text.encode()) // 4)


def parts_of(prompt: Prompt) -> PromptParts:
    """The parts of a prompt, and how many of them can be cached.

    * Of **blocks**: up to the last one with a policy, or all of them if none has one.
    * Of a **context**: the two system parts and the frozen turns, or every turn if none is frozen; not the
      state.
    * Of an **IR**: what its plan marks last, in Anthropic's order; without a plan for system or
      messages, the system text and the stable prefix.
    * Of a **request**: the model, the tools, the system text and the messages, up to what its plan
      marks last, or all of them without a plan, as providers do that cache by themselves.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(prompt, RenderedContext):
        return _context_parts(prompt)
    if isinstance(prompt, PromptIR):
        return _ir_parts(prompt)
    if isinstance(prompt, LlmRequest):
        return _request_parts(prompt)
    if isinstance(prompt, list | tuple) and all(isinstance(block, PromptBlock) for block in prompt):
        return _blocks_parts(block_values(prompt, "blocks"))
    kinds = "a RenderedContext, a PromptIR, an LlmRequest or a list of PromptBlocks"
    raise TypeError(f"expected {kinds}, not {check.kind_of(prompt)}")


def _blocks_parts(blocks: Iterable[PromptBlock]) -> PromptParts:
    sent = [block for block in blocks if block.text]
    cached = [i + 1 for i, block in enumerate(sent) if block.cache.is_cached]
    parts = tuple(_text_part(f"block {block.label!r}", block.text) for block in sent)
    cacheable = cached[-1] if cached else len(sent)
    return PromptParts("blocks", parts, cacheable, bool(cached), cacheable)


def _context_parts(context: RenderedContext) -> PromptParts:
    system = [
        _text_part("system_stable", context.system_stable),
        _text_part("system_knowledge", context.system_knowledge),
    ]
    turns = [_turn_part(turn, i) for i, turn in enumerate(context.turns)]
    parts = (*system, *turns)
    # Turns behind the frozen ones may still change, though they are cached while they do not.
    kept = len(system) + min(context.frozen_prefix_len or len(turns), len(turns))
    return PromptParts("context", parts, kept, is_marked=True, reach=len(parts))


def _ir_parts(ir: PromptIR) -> PromptParts:
    body = [(role, i, turn) for role in _BODY_ORDER for i, turn in enumerate(ir.run(role))]
    # Anthropic, for which plans are, reads system messages before all others.
    turns = sorted(body, key=lambda item: item[2].role is not LlmRole.SYSTEM)
    blocks = ir.nonblank_blocks()
    text = ir.sent_text()
    system = [_text_part(f"block {block.label!r}", block.text) for block in blocks]
    if not blocks and text:
        system = [_text_part("system text", text)]
    ends = [i + 1 for i, block in enumerate(blocks) if block.cache.is_cached]
    joining = sum(turn.role is LlmRole.SYSTEM for _, _, turn in turns)
    if ir.cache.cache_system:
        ends.append(len(system) + (0 if blocks else joining))
    for i, (_, _, turn) in enumerate(turns):
        if turn.id in ir.cache.breakpoint_message_ids:
            carriers = [k for k in range(i + 1) if can_carry_marker(turns[k][2].to_llm_messages()[-1])]
            behind = carriers[-1] + 1 if carriers else 0
            # System messages are one block, whichever of them is marked.
            ends.append(len(system) + (joining if 0 < behind <= joining else behind))
    is_marked = any(ends)
    if not is_marked:
        turns = [item for item in body if item[0] is SegmentRole.STABLE_PREFIX]
        if blocks and text:  # other wires are sent the text instead
            system.insert(0, _text_part("system text", text))
        ends = [len(system) + len(turns)]
    parts = (*system, *(_turn_part(turn, i, f"{role} ") for role, i, turn in turns))
    return PromptParts("ir", parts, max(ends), is_marked, max(ends))


def _request_parts(request: LlmRequest) -> PromptParts:
    model = PromptPart("the model", request.model, request.model, 0, 0)
    tools = [_tool_part(tool, i) for i, tool in enumerate(request.tools)]
    blocks = system_blocks(request)
    system = [
        _text_part(system_name(request.cache, i, len(blocks)), text) for i, (text, _) in enumerate(blocks)
    ]
    messages = [
        _message_part(turn_name(i, message), [message], _json(message.to_dict()))
        for i, message in enumerate(request.messages)
    ]
    first = {Place.TOOLS: 1, Place.SYSTEM: 1 + len(tools)}
    first[Place.MESSAGES] = first[Place.SYSTEM] + len(system)
    parts = [model, *tools, *system, *messages]
    behind = {first[mark.place] + mark.index: mark.cache for mark in marks_of(request)}
    for kept in breakpoints_of(request).kept:
        last_tool = len(tools) - 1 if kept.place is Place.TOOLS else 0
        behind.setdefault(first[kept.place] + kept.index + last_tool, kept.cache)
    for i, cache in behind.items():
        parts[i] = replace(parts[i], cache=cache)
    cacheable = max(behind) + 1 if behind else len(parts)
    return PromptParts("request", tuple(parts), cacheable, bool(behind), cacheable)


def _text_part(name: str, text: str) -> PromptPart:
    return PromptPart(name, text, text, len(text.encode()), estimate_tokens(text))


def _tool_part(tool: Any, index: int) -> PromptPart:
    # In the order in which its fields are sent: another order is another prefix.
    name = tool.get("name") if isinstance(tool, dict) else None
    written = _json(tool)
    shown = json.dumps(tool, ensure_ascii=False, indent=2)
    known = f"tool {name!r}" if isinstance(name, str) else f"tool {index + 1}"
    return PromptPart(known, shown, written, len(written.encode()), estimate_tokens(written))


def _turn_part(turn: PromptMessage, index: int, segment: str = "") -> PromptPart:
    messages = turn.to_llm_messages()
    name = segment + turn_name(index, LlmMessage(turn.role, "", id=turn.id))
    return _message_part(name, messages, turn.turn_bytes().decode())


def _message_part(name: str, messages: Sequence[LlmMessage], material: str) -> PromptPart:
    plain = [message.to_dict() for message in messages]
    is_text = len(plain) == 1 and plain[0].keys() <= {"role", "content", "tool_call_id"}
    shown = messages[0].content if is_text else json.dumps(plain, ensure_ascii=False, indent=2)
    media = sum(
        isinstance(part, dict) and ("data" in part or "blake3" in part) for m in messages for part in m.parts
    )
    size = messages[0].content if is_text else _json(plain)
    return PromptPart(name, shown, material, len(size.encode()), estimate_tokens(size) + MEDIA_TOKENS * media)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
