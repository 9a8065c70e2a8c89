"""One way to a request for every kind of prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cortex_replay import validation as check
from cortex_replay.prompt.arrange import arrange, mark_turns, turns_by_name
from cortex_replay.prompt.blocks import PromptBlock, block_values, with_markers
from cortex_replay.prompt.context import RenderedContext
from cortex_replay.prompt.ir import PromptIR
from cortex_replay.prompt.message import PromptMessage
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.prompt.wire_prompt import WirePrompt
from cortex_replay.types import LlmMessage, LlmRequest, LlmRole, PromptCachePlan

__all__ = ["blocks_for_wire", "to_request"]

_Messages = str | Sequence[PromptMessage | LlmMessage | Mapping[str, Any]]


def to_request(
    prompt: Sequence[PromptBlock] | RenderedContext | PromptIR, *, wire: str, model: str, **fields: Any
) -> LlmRequest:
    """The request that asks ``prompt`` on a wire.

    Args:
        prompt: Blocks, a rendered context or an IR.
        wire: ``anthropic-messages``, ``openai-chat``, ``openai-responses`` or ``ollama-chat``.
        model: The model that is asked.
        **fields: Parameters and tools of the request. Beside blocks also ``messages``, ``system`` (a
            text that follows the blocks) and ``cache``; beside a context also ``cache``.

    Raises:
        InvalidRequest: A field is wrong, or the wire is unknown.
    """
    if isinstance(prompt, RenderedContext | PromptIR):
        return prompt.to_request(wire=wire, model=model, **fields)
    taken = {name: fields.pop(name) for name in ("messages", "system", "cache") if name in fields}
    arranged = blocks_for_wire(prompt, wire, model=model, has_tools=bool(fields.get("tools")), **taken)
    return arranged.to_request(model, **fields)


def blocks_for_wire(
    blocks: Sequence[PromptBlock],
    wire: str,
    *,
    messages: _Messages = (),
    system: str = "",
    model: str = "",
    has_tools: bool = False,
    cache: PromptCachePlan | None = None,
) -> WirePrompt:
    """A system prompt in blocks, with the conversation that follows it, in the order of a wire.

    Args:
        blocks: Each with the policy that says whether the prompt may be cached up to it.
        wire: One of the wires' names.
        messages: The conversation.
        system: Text that follows the blocks and is not cached.
        model: What is asked; the oldest models take no markers.
        has_tools: Whether the request has tools.
        cache: The markers that blocks say nothing about: behind the tools, behind messages, and
            behind the last block even if its own policy is none.
    """
    plan = cache or PromptCachePlan()
    policy, tail = CachePolicy.of_ttl(plan.ttl), CachePolicy.of_tail(plan)
    turns = _turns(messages)
    if system:
        turns.insert(0, [LlmMessage(LlmRole.SYSTEM, system)])
    return arrange(
        wire,
        with_markers(block_values(list(blocks), "blocks"), policy if plan.cache_system else CachePolicy.NONE),
        mark_turns(turns, dict.fromkeys(turns_by_name(turns, plan.breakpoint_message_ids), tail)),
        tools=policy if plan.cache_tools and has_tools else CachePolicy.NONE,
        model=model,
    )


def _turns(messages: _Messages) -> list[list[LlmMessage]]:
    if isinstance(messages, str):
        return [[LlmMessage(LlmRole.USER, messages)]]
    return [
        [message]
        if isinstance(message, LlmMessage)
        else PromptMessage.parse(message, f"messages[{i}]").to_llm_messages()
        for i, message in enumerate(check.items(messages, "messages"))
    ]
