"""Putting a prompt's blocks and messages where a wire has them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cortex_replay.canonical import JsonValue
from cortex_replay.errors import InvalidRequest
from cortex_replay.prompt.blocks import BLANK_LINE, PromptBlock, flatten_blocks
from cortex_replay.prompt.breakpoints import Breakpoint, Place, Placement, can_cache, place_breakpoints
from cortex_replay.prompt.fit import fit
from cortex_replay.prompt.markers import breakpoint_behind
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.prompt.wire_prompt import ANTHROPIC, ONE_BLOCK, WirePrompt, check_wire
from cortex_replay.types import LlmMessage, LlmRole

__all__ = ["MarkedBlock", "MarkedMessage", "arrange", "mark_turns", "turns_by_name"]

MarkedBlock = tuple[PromptBlock, CachePolicy]
MarkedMessage = tuple[LlmMessage, CachePolicy]


def arrange(
    wire: str,
    system: Iterable[MarkedBlock],
    messages: Sequence[MarkedMessage],
    *,
    tools: CachePolicy = CachePolicy.NONE,
    model: str = "",
    extra: Mapping[str, JsonValue] | None = None,
    is_one_block: bool = False,
    note: str = "",
) -> WirePrompt:
    """A prompt for one wire, with as many of the wanted markers as it can carry.

    Anthropic has no system messages: all of them join the system text, in one block behind the
    others. On other wires those that a conversation starts with are system text, and the rest
    stand where they are.

    Args:
        wire: One of :data:`~cortex_replay.prompt.wire_prompt.WIRES`.
        system: The blocks, each with the marker that is wanted behind it. Empty ones are left out.
        messages: In the order of this wire, each with the marker that is wanted behind it.
        tools: The marker that is wanted behind the tools.
        model: What is asked; the oldest models take no markers.
        extra: Parameters that only this wire has.
        is_one_block: Whether all of the system text is one block, with the first marker of them all.
        note: What is left out, and why.

    Raises:
        InvalidRequest: The wire is unknown, or a message that joins the system text is not text.
    """
    is_anthropic = check_wire(wire) == ANTHROPIC
    fitting = [(fit(message, wire), cache) for message, cache in messages]
    joining, staying = _split(fitting, is_anywhere=is_anthropic)
    blocks = [*system, _join_blocks("system messages", map(_system_block, joining))]
    if is_one_block:
        blocks = [_join_blocks(ONE_BLOCK, blocks)]
    blocks = [(block, cache) for block, cache in blocks if block.text]
    takes_markers = is_anthropic and can_cache(model)
    placement = place_breakpoints(_wanted_breakpoints(tools, blocks, staying) if takes_markers else ())
    return WirePrompt(
        wire,
        tuple(block for block, _ in blocks),
        _with_names([message for message, _ in staying], placement),
        placement.kept,
        placement.dropped,
        extra or {},
        note,
    )


def mark_turns(
    turns: Iterable[Sequence[LlmMessage]], markers: Mapping[int, CachePolicy] | None = None
) -> list[MarkedMessage]:
    """The messages of all turns; a marked turn has its marker behind the last of its own."""
    messages: list[MarkedMessage] = []
    for i, turn in enumerate(turns):
        messages += [(message, CachePolicy.NONE) for message in turn]
        if markers is not None and i in markers:
            messages[-1] = (turn[-1], markers[i])
    return messages


def turns_by_name(turns: Iterable[Sequence[LlmMessage]], names: Container[str]) -> set[int]:
    """The turns that a plan names."""
    return {i for i, turn in enumerate(turns) if turn[-1].id is not None and turn[-1].id in names}


def _split(
    messages: Sequence[MarkedMessage], *, is_anywhere: bool
) -> tuple[list[MarkedMessage], list[MarkedMessage]]:
    """The messages that join the system text, and the others."""
    joining: list[MarkedMessage] = []
    staying: list[MarkedMessage] = []
    for message, cache in messages:
        joins = message.role is LlmRole.SYSTEM and (is_anywhere or not staying)
        (joining if joins else staying).append((message, cache))
    return joining, staying


def _system_block(joining: MarkedMessage) -> MarkedBlock:
    """A system message as a block: each of its texts for itself, as a lifted body has them."""
    message, cache = joining
    texts: list[str] = []
    for part in message.parts:
        if not isinstance(part, dict) or part.keys() != {"type", "text"} or part["type"] != "text":
            raise InvalidRequest("messages", "a system message that joins the system text must be text alone")
        texts.append(str(part["text"]))
    return PromptBlock("", BLANK_LINE.join(filter(None, texts)) or message.content), cache


def _join_blocks(label: str, blocks: Iterable[MarkedBlock]) -> MarkedBlock:
    """Several blocks as one, with the first marker that one of them has."""
    marked_blocks = list(blocks)
    policies = [cache for _, cache in marked_blocks if cache.is_cached]
    text = flatten_blocks(block for block, _ in marked_blocks)
    return PromptBlock(label, text), policies[0] if policies else CachePolicy.NONE


def _wanted_breakpoints(
    tools: CachePolicy, blocks: Sequence[MarkedBlock], messages: Sequence[MarkedMessage]
) -> Iterator[Breakpoint]:
    if tools.is_cached:
        yield Breakpoint(Place.TOOLS, 0, tools, "the tools")
    for i, (block, cache) in enumerate(blocks):
        if cache.is_cached:
            yield Breakpoint(Place.SYSTEM, i, cache, f"block {block.label!r}")
    names = [f"block {block.label!r}" for block, _ in blocks]
    sent = [message for message, _ in messages]
    for i, (_, cache) in enumerate(messages):
        found = breakpoint_behind(sent, i, cache, names) if cache.is_cached else None
        if found is not None:
            yield found


def _with_names(messages: list[LlmMessage], placement: Placement) -> tuple[LlmMessage, ...]:
    """The messages, each with a breakpoint under a name of its own, by which a plan points at it."""
    names = [message.id for message in messages]
    for breakpoint_ in placement.kept:
        i = breakpoint_.index
        if breakpoint_.place is Place.MESSAGES and (names[i] is None or names.count(names[i]) > 1):
            name = f"turn-{i + 1}"
            while name in names:
                name += "'"
            names[i] = name
            messages[i] = replace(messages[i], id=name)
    return tuple(messages)
