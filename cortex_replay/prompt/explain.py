"""What a prompt consists of, what providers would cache of it, and where two prompts part.

Sizes are the provider's own where a recording has its count: then the parts share that count in the
proportion of their estimates. The rules of providers are theirs to change; ``docs/prompts.md`` says which
are assumed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from cortex_replay.prompt.blocks import BLANK_LINE
from cortex_replay.prompt.diff import volatile_kind
from cortex_replay.prompt.markers import system_blocks
from cortex_replay.prompt.parts import PromptPart, parts_of
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.prompt.prefix import part_diff
from cortex_replay.types import CacheTime, LlmRequest, PromptCachePlan, TokenUsage

__all__ = ["CacheHit", "ExplainedPart", "Explanation", "PartChange", "PromptComparison", "compare", "explain"]

OPENAI_LEAST: Final = 1024
"""A shorter prefix is not cached by OpenAI."""
OPENAI_STEP: Final = 128
ANTHROPIC_LEAST: Final = 1024
"""A shorter prefix is not cached by Anthropic; some models ask for two or four times as much."""


@dataclass(frozen=True, slots=True)
class ExplainedPart:
    """A tool, a system block or a turn, with its size and the size of everything up to its end."""

    name: str
    bytes: int
    tokens: int
    up_to_here: int
    breakpoint: CachePolicy


@dataclass(frozen=True, slots=True)
class CacheHit:
    """How much of a prompt one provider would have in its cache, and why."""

    provider: Literal["anthropic", "openai", "ollama"]
    tokens: int
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A prompt in parts."""

    model: str
    parts: tuple[ExplainedPart, ...]
    tokens: int
    is_counted: bool
    """Whether ``tokens`` is the provider's own count; otherwise it is an estimate."""
    cached: tuple[CacheHit, ...]
    """What a second call with the same prompt would read."""
    usage: TokenUsage | None
    """What the provider counted when this was recorded."""


@dataclass(frozen=True, slots=True)
class PartChange:
    """One part in two prompts."""

    name: str
    change: Literal["same", "changed", "added", "removed"]
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class PromptComparison:
    """Two prompts, the second asked after the first."""

    parts: tuple[PartChange, ...]
    shared_parts: int
    shared_tokens: int
    """Up to the first difference, which may be in the middle of a part."""
    first_change: str | None
    """The name of the first part that is not what it was; ``None`` when the second only goes on."""
    diff: str
    looks_like: str | None
    """What changed, when it looks like a time or an id."""
    cached: tuple[CacheHit, ...]
    """What the second would read from the cache that the first left."""
    settings: tuple[tuple[str, object, object], ...]
    """Other fields of the two requests that differ: no part of the prefix, but of the key."""


def explain(request: LlmRequest, usage: TokenUsage | None = None) -> Explanation:
    """The parts of a request with their sizes, and what each provider would cache of it."""
    parts = parts_of(request).parts
    total = usage.prompt_tokens if usage is not None and usage.prompt_tokens else None
    sized = tuple(_measure(parts, total))
    tokens = sized[-1].up_to_here if sized else 0
    marked = [(part.up_to_here, part) for part in sized if part.breakpoint.is_cached]
    ollama_reason = "by itself, while the model stays loaded and no other prompt comes between"
    cached = (
        _anthropic_hit(marked, len(sized)),
        _openai_hit(tokens, "by itself, from the start, in steps of 128"),
        CacheHit("ollama", tokens, ollama_reason),
    )
    return Explanation(request.model, sized, tokens, total is not None, cached, usage)


def compare(
    first: LlmRequest,
    second: LlmRequest,
    usage: tuple[TokenUsage | None, TokenUsage | None] = (None, None),
) -> PromptComparison:
    """What changed between two prompts, and what the second would still find in the cache."""
    first, second = _align_cuts(first, second), _align_cuts(second, first)
    old, new = explain(first, usage[0]), explain(second, usage[1])
    # The model is a part without a size: another model has another cache.
    old_parts, new_parts = parts_of(first).parts, parts_of(second).parts
    shared = 0
    for a, b in zip(old_parts, new_parts, strict=False):
        if a.material != b.material:
            break
        shared += 1
    tokens = 0 if shared < 2 else new.parts[shared - 2].up_to_here
    first_change, diff = None, ""
    if shared < len(old_parts):
        before = old_parts[shared]
        after = new_parts[shared] if shared < len(new_parts) else None
        first_change = before.name
        diff = part_diff(before, after)
        if after is not None and shared:
            tokens += _shared_size(before, after, new.parts[shared - 1].tokens)
    return PromptComparison(
        parts=tuple(_changes(old_parts, new_parts, old, new, shared)),
        shared_parts=max(0, shared - 1),
        shared_tokens=tokens,
        first_change=first_change,
        diff=diff,
        looks_like=volatile_kind(diff) if diff else None,
        cached=_hits_after(old, new, shared - 1, tokens),
        settings=tuple(_settings(first, second)),
    )


def _measure(parts: Sequence[PromptPart], total: int | None) -> Iterator[ExplainedPart]:
    """The parts but for the model's name; with a total, its share for each, so that they add up to it."""
    estimates = [part.tokens for part in parts[1:]]
    if total is not None and estimates and not any(estimates):
        estimates[-1] = 1
    whole = sum(estimates)
    so_far = up_to_here = 0
    for part, estimate in zip(parts[1:], estimates, strict=True):
        so_far += estimate
        end = so_far if total is None else round(total * so_far / whole) if whole else 0
        yield ExplainedPart(part.name, part.bytes, end - up_to_here, end, part.cache)
        up_to_here = end


def _anthropic_hit(marked: Sequence[tuple[int, ExplainedPart]], count: int) -> CacheHit:
    if not count:
        return CacheHit("anthropic", 0, "the prompt is empty")
    if not marked:
        return CacheHit("anthropic", 0, "no breakpoint was recorded with this prompt")
    tokens, part = marked[-1]
    if tokens < ANTHROPIC_LEAST:
        return CacheHit("anthropic", 0, f"the breakpoint behind {part.name} comes before 1,024 tokens")
    return CacheHit("anthropic", tokens, f"up to the breakpoint behind {part.name} ({part.breakpoint})")


def _openai_hit(tokens: int, why: str) -> CacheHit:
    if tokens < OPENAI_LEAST:
        return CacheHit("openai", 0, "prefixes of less than 1,024 tokens are not cached")
    return CacheHit("openai", tokens - tokens % OPENAI_STEP, why)


def _hits_after(old: Explanation, new: Explanation, shared: int, tokens: int) -> tuple[CacheHit, ...]:
    if shared < 0:
        why = "another model has a cache of its own"
        return (CacheHit("anthropic", 0, why), CacheHit("openai", 0, why), CacheHit("ollama", 0, why))
    read_from = max((i for i, part in enumerate(new.parts) if part.breakpoint.is_cached), default=-1)
    marked = [i for i, part in enumerate(old.parts) if part.breakpoint.is_cached]
    written = [i for i in marked if i < shared]
    found = [i for i in written if i <= read_from]
    if written and not found:
        why = "the second has no breakpoint at or behind what the first cached"
        anthropic = CacheHit("anthropic", 0, why)
    elif marked and not written:
        why = "every breakpoint of the first stands behind the first difference"
        anthropic = CacheHit("anthropic", 0, why)
    else:
        anthropic = _anthropic_hit([(old.parts[i].up_to_here, old.parts[i]) for i in found], len(old.parts))
    return (
        anthropic,
        _openai_hit(tokens, "the prefix that both have, in steps of 128"),
        CacheHit("ollama", tokens, "the prefix that both have"),
    )


def _changes(
    old_parts: Sequence[PromptPart],
    new_parts: Sequence[PromptPart],
    old: Explanation,
    new: Explanation,
    shared: int,
) -> Iterator[PartChange]:
    """Each part once: those of one name are one part, wherever they stand."""
    for i in range(1, shared):
        yield PartChange(old_parts[i].name, "same", old.parts[i - 1].tokens, new.parts[i - 1].tokens)
    rest = max(shared, 1)
    behind: dict[str, list[int]] = {}
    for i, part in enumerate(new_parts[rest:], start=rest):
        behind.setdefault(part.name, []).append(i)
    for i, part in enumerate(old_parts[rest:], start=rest):
        size = old.parts[i - 1].tokens
        if not behind.get(part.name):
            yield PartChange(part.name, "removed", size, 0)
            continue
        j = behind[part.name].pop(0)
        is_same = new_parts[j].material == part.material
        yield PartChange(part.name, "same" if is_same else "changed", size, new.parts[j - 1].tokens)
    for j in sorted(j for left in behind.values() for j in left):
        yield PartChange(new_parts[j].name, "added", 0, new.parts[j - 1].tokens)


def _shared_size(before: PromptPart, after: PromptPart, size: int) -> int:
    """How much of a part that changed is still what it was, up to the first difference."""
    if before.text == after.text:  # the same words in another role
        return 0
    common = _common_start(before.text, after.text)
    return size * len(common) // max(1, len(after.text))


def _common_start(before: str, after: str) -> str:
    for i, (a, b) in enumerate(zip(before, after, strict=False)):
        if a != b:
            return before[:i]
    return min(before, after, key=len)


def _align_cuts(request: LlmRequest, other: LlmRequest) -> LlmRequest:
    """A request with its system text also cut where the other's is, so that their parts can be compared."""
    text = request.system
    own = dict(_cuts(request))
    for end, _ in _cuts(other):
        if end == len(text) or (end < len(text) and text.startswith(BLANK_LINE, end)):
            own.setdefault(end, "none")
    if len(own) < 2:
        return request
    plan = replace(request.cache or PromptCachePlan(), system_cuts=tuple(sorted(own.items())))
    return replace(request, cache=plan)


def _cuts(request: LlmRequest) -> Iterator[tuple[int, CacheTime]]:
    end = -len(BLANK_LINE)
    for text, cache in system_blocks(request):
        end += len(BLANK_LINE) + len(text)
        yield end, cache.value


def _settings(first: LlmRequest, second: LlmRequest) -> Iterator[tuple[str, object, object]]:
    before = {"model": first.model, **first.to_dict()}
    after = {"model": second.model, **second.to_dict()}
    for name in {**before, **after}:
        if name not in ("system", "messages", "tools") and before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)
