"""What a prompt consists of, what providers would cache of it, and where two prompts part.

Sizes are the provider's own where a recording has its count: then the parts share that count in the
proportion of their estimates. What a cache does is simulated by the rules of ``docs/cache.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from cortex_replay.prompt.alignment import align_cuts
from cortex_replay.prompt.cache.calls import Provider
from cortex_replay.prompt.cache.costs import Tariff
from cortex_replay.prompt.cache.edits import EditCost, cost_of_edit, costs_of_edits
from cortex_replay.prompt.cache.layout import Layouts
from cortex_replay.prompt.cache.pairs import ask_after
from cortex_replay.prompt.cache.reasons import why_of
from cortex_replay.prompt.cache.simulator import SIMULATORS
from cortex_replay.prompt.diff import volatile_kind
from cortex_replay.prompt.markers import system_blocks, turn_name
from cortex_replay.prompt.parts import PromptPart, goes_on, parts_of
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.prompt.prefix import part_diff
from cortex_replay.types import LlmRequest, TokenUsage

__all__ = ["CacheHit", "ExplainedPart", "Explanation", "PartChange", "PromptComparison", "compare", "explain"]


@dataclass(frozen=True, slots=True)
class ExplainedPart:
    """A tool, a system block or a turn, with its size and the size of everything up to its end."""

    name: str
    bytes: int
    tokens: int
    up_to_here: int
    breakpoint: CachePolicy
    edit: EditCost | None = None
    """What an edit of it would cost, if anything from its start on is cached."""


@dataclass(frozen=True, slots=True)
class CacheHit:
    """How much of a prompt one provider would have in its cache, and why."""

    provider: Provider
    tokens: int
    why: str
    is_assumed: bool = False
    """Whether the provider's documents do not name this model, and the rules of a related one were taken."""


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

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        plain: dict[str, Any] = {one.name: getattr(self, one.name) for one in fields(self)}
        plain["parts"] = [_plain(part, edit=part.edit) for part in self.parts]
        plain["cached"] = [asdict(hit) for hit in self.cached]
        plain["usage"] = None if self.usage is None else self.usage.to_dict()
        return plain


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
    edit: EditCost | None = None
    """What the change costs, where something that the first had cached is paid again."""

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        plain = _plain(self, edit=self.edit)
        for name in ("parts", "cached"):
            plain[name] = [asdict(value) for value in plain[name]]
        return plain


def explain(
    request: LlmRequest,
    usage: TokenUsage | None = None,
    provider: Provider | None = None,
    tariff: Tariff | None = None,
) -> Explanation:
    """The parts of a request with their sizes, and what each provider would cache of it.

    Args:
        request: With its plan.
        usage: What the provider counted.
        provider: Whose cache an edit would miss; without one nothing is said of edits.
        tariff: What tokens cost; by default an edit is counted in input tokens.
    """
    parts = parts_of(request).parts
    total = _count(request, usage)
    sized = tuple(_measure(parts, total))
    if provider is not None:
        edits = _edits(request, provider, tariff or Tariff(), total)
        sized = tuple(replace(part, edit=edit) for part, edit in zip(sized, edits, strict=True))
    tokens = sized[-1].up_to_here if sized else 0
    cached = _hits(request, request, (total, total))
    return Explanation(request.model, sized, tokens, total is not None, cached, usage)


def compare(
    first: LlmRequest,
    second: LlmRequest,
    usage: tuple[TokenUsage | None, TokenUsage | None] = (None, None),
    provider: Provider | None = None,
    tariff: Tariff | None = None,
) -> PromptComparison:
    """What changed between two prompts, and what the second would still find in the cache.

    Args:
        first: The one that was asked before, with its plan.
        second: The one that is asked then.
        usage: What the provider counted of both.
        provider: Whose cache the change misses; without one nothing is said of its cost.
        tariff: What tokens cost; by default input tokens are counted.
    """
    first, second = align_cuts(first, second), align_cuts(second, first)
    old, new = explain(first, usage[0]), explain(second, usage[1])
    counts = _count(first, usage[0]), _count(second, usage[1])
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
        cached=_hits(first, second, counts),
        settings=tuple(_settings(first, second)),
        edit=provider and cost_of_edit(provider, first, second, tariff or Tariff(), counts),
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


def _hits(
    first: LlmRequest, second: LlmRequest, tokens: tuple[int | None, int | None]
) -> tuple[CacheHit, ...]:
    """What the second would read at each provider, asked right after the first."""
    hits = []
    for provider in SIMULATORS:
        found = ask_after(provider, first, second, tokens)
        hits.append(CacheHit(provider, found.outcome.read, why_of(found), found.outcome.is_assumed))
    return tuple(hits)


def _edits(
    request: LlmRequest, provider: Provider, tariff: Tariff, total: int | None
) -> Iterator[EditCost | None]:
    """What an edit of each part would cost; a part of several blocks has that of its first."""
    rows = Layouts().lay_out(request).rows
    costs = list(costs_of_edits(provider, request, tariff, total))
    before = len(request.tools) + len(system_blocks(request))
    of_turns: dict[str, int] = {}
    for i, row in enumerate(rows[before:], start=before):
        of_turns.setdefault(row.name, i)
    turns = [of_turns.get(turn_name(i, message), len(rows)) for i, message in enumerate(request.messages)]
    for i in [*range(before), *turns]:
        yield costs[i] if i < len(costs) else None


def _plain(value: Any, edit: EditCost | None) -> dict[str, Any]:
    named = {one.name: getattr(value, one.name) for one in fields(value)}
    return named | {"edit": None if edit is None else edit.to_dict()}


def _count(request: LlmRequest, usage: TokenUsage | None) -> int | None:
    """What a provider counted of these parts; some servers give zeros."""
    if usage is None or not usage.prompt_tokens or goes_on(request):
        return None
    return usage.prompt_tokens


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


def _settings(first: LlmRequest, second: LlmRequest) -> Iterator[tuple[str, object, object]]:
    before = {"model": first.model, **first.to_dict()}
    after = {"model": second.model, **second.to_dict()}
    for name in {**before, **after}:
        if name not in ("system", "messages", "tools") and before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)
