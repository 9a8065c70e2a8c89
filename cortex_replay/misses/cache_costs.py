"""What a miss has to do with the prompt cache: which block was edited, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cortex_replay.config import load_settings
from cortex_replay.history.cache_rules import cache_provider
from cortex_replay.misses.differences import escape_text
from cortex_replay.misses.nearest import Nearest
from cortex_replay.prompt.blocks import BLANK_LINE
from cortex_replay.prompt.cache.calls import Provider
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.prompt.cache.edits import cost_of_edit
from cortex_replay.prompt.markers import breakpoints_of, marks_of, system_blocks
from cortex_replay.prompt.parts import goes_on
from cortex_replay.store.store import Store
from cortex_replay.types import LlmRequest

__all__ = ["cost_lines", "name_system"]


def cost_lines(store: Store, nearest: Nearest, asked: LlmRequest) -> Iterator[str]:
    """What the difference from a recording costs, if its prompt was cached.

    Args:
        store: Whose configuration has the prices.
        nearest: The recording, with its plan.
        asked: What was asked instead, with the plan of the client.
    """
    provider = _provider(nearest)
    if provider is None:
        return
    settings = load_settings(store.root, {}).settings
    tariff = Tariff.for_models([asked.model], settings.prices, settings.currency)
    usage = nearest.usage
    is_counted = usage is not None and usage.prompt_tokens and not goes_on(nearest.request)
    count = usage.prompt_tokens if usage is not None and is_counted else None
    edit = cost_of_edit(provider, _without_key(nearest.request), _without_key(asked), tariff, (count, None))
    if edit is not None:
        yield escape_text(str(edit))


def name_system(recorded: LlmRequest, asked: str) -> str:
    """What to call the system text where it differs: by the label of the block, if it has one."""
    labels = recorded.cache.labels if recorded.cache is not None else ()
    texts = [text for text, _ in system_blocks(recorded)]
    if len(labels) != len(texts) or not any(labels):
        return "system"
    start = 0
    for label, text in zip(labels, texts, strict=True):
        end = start + len(text)
        if not asked.startswith(recorded.system[:end]):
            is_all = asked.endswith(recorded.system[end:])
            block = f"block {label!r}" if label else "a block without a label"
            return f"system, {block}" if is_all else f"system, from {block} on"
        start = end + len(BLANK_LINE)
    return "system"


def _provider(nearest: Nearest) -> Provider | None:
    """Whose cache a recorded prompt was in; none if nothing says that it was in one."""
    request, usage = nearest.request, nearest.usage
    has_markers = bool(marks_of(request) or breakpoints_of(request).kept)
    was_read = usage is not None and bool(usage.cached_tokens or usage.cache_write_tokens)
    if not has_markers and not was_read:
        return None
    return cache_provider(request.model, nearest.meta) or ("anthropic" if has_markers else None)


def _without_key(request: LlmRequest) -> LlmRequest:
    """A request without its cache key, of which a recording has only a hash to compare with."""
    return replace(request, cache=replace(request.cache, key=None)) if request.cache is not None else request
