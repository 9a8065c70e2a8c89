"""A request as a call that a provider's cache sees."""

from __future__ import annotations

from dataclasses import replace

from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, Provider
from cortex_replay.prompt.cache.layout import Layouts, share
from cortex_replay.prompt.cache.settings import settings_of
from cortex_replay.types import LlmRequest, PromptCachePlan

__all__ = ["estimate_call", "to_call"]

_NO_PLAN = PromptCachePlan()


def to_call(
    request: LlmRequest,
    provider: Provider,
    blocks: tuple[CacheBlock, ...],
    layouts: Layouts,
    *,
    is_estimate: bool,
    at: float = 0.0,
    ready: float | None = None,
    reply: tuple[CacheBlock, ...] = (),
) -> CacheCall:
    """A request whose blocks have their sizes.

    Args:
        request: What is asked, with its plan.
        provider: Whose cache it is.
        blocks: Those of the request.
        layouts: What laid them out.
        is_estimate: Whether their sizes are estimates.
        at: When it is asked, in seconds.
        ready: When its answer begins; at once where that is not known.
        reply: The answer, as the turn that follows.
    """
    plan = request.cache or _NO_PLAN
    return CacheCall(
        provider,
        request.model,
        at,
        blocks,
        ready=ready,
        settings=settings_of(request, provider),
        key=plan.key or "",
        retention=plan.retention or "",
        explicit=_count_kept(request, plan, layouts),
        adds_breakpoint=plan.mode != "explicit",
        reply=reply,
        is_estimate=is_estimate,
    )


def estimate_call(
    request: LlmRequest, provider: Provider, layouts: Layouts, *, tokens: int | None = None, at: float = 0.0
) -> CacheCall:
    """A request whose blocks are as large as their bytes say, or share a count in that proportion.

    Args:
        request: What is asked, with its plan.
        provider: Whose cache it is.
        layouts: What knows the texts that calls share.
        tokens: What the provider counted, where that is known.
        at: When it is asked, in seconds.
    """
    layout = layouts.lay_out(request)
    sizes = layout.estimates if tokens is None else share(layout.estimates, tokens)
    return to_call(request, provider, layout.blocks(sizes), layouts, is_estimate=tokens is None, at=at)


def _count_kept(request: LlmRequest, plan: PromptCachePlan, layouts: Layouts) -> int:
    """How many blocks stand in a prompt that a client had Gemini keep."""
    if plan.kept_messages is None:
        return 0
    return len(layouts.lay_out(replace(request, messages=request.messages[: plan.kept_messages])).rows)
