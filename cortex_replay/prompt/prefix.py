"""An assertion for tests: the part of a prompt that a provider caches only grew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from cortex_replay.prompt.cache.pairs import LostPrefix, find_lost_prefix
from cortex_replay.prompt.context import RenderedContext
from cortex_replay.prompt.diff import short_diff, volatile_kind
from cortex_replay.prompt.ir import PromptIR
from cortex_replay.prompt.parts import Prompt, PromptPart, PromptParts, parts_of
from cortex_replay.prompt.request import blocks_for_wire
from cortex_replay.prompt.wire_prompt import ANTHROPIC
from cortex_replay.types import LlmRequest

__all__ = ["PrefixChanged", "assert_prefix_stable", "hold_prefix", "part_diff"]

_WHERE_TO: Final = {
    "blocks": "behind the last cached block, into a `PromptBlock.plain`",
    "context": "into the `state_turn`, which is no part of the prefix",
    "ir": "into the `volatile_tail`, behind every breakpoint",
    "request": "behind the last breakpoint, or at the end of the conversation",
}
"""Where in each kind of prompt something that changes belongs."""
_KEEP_THE_ORDER: Final = "Keep what is cached in the order in which it was, and add what is new behind it."
_MARK_IT: Final = "Put a breakpoint behind it, or behind something that follows it."
_KEEP_SETTINGS: Final = (
    "Anthropic splits its cache by the choice of tools, by thinking and effort, by the form of the answer, "
    "and by whether there are pictures. Keep them from call to call."
)
_ANY_MODEL: Final = "claude"
"""All models look back equally far."""


class PrefixChanged(AssertionError):
    """The cacheable prefix of a prompt is not the previous one, or that with something behind it.

    ``part`` is the name of the first part that is not what it was, ``tokens`` the estimated size of
    what was cached from there on.
    """

    def __init__(self, part: str, change: str, diff: str, tokens: int, advice: str) -> None:
        super().__init__(part, change, diff, tokens, advice)
        self.part = part
        self.change = change
        self.diff = diff
        self.tokens = tokens
        self.advice = advice

    def __str__(self) -> str:
        head = f"the cacheable prefix changed: {self.change}"
        cost = f"About {self.tokens:,} tokens that were cached would be paid again."
        return "\n\n".join(filter(None, [f"{head}\n{cost}", self.diff, self.advice]))


def assert_prefix_stable(previous: Prompt, current: Prompt) -> None:
    """Assert that what a provider can have cached of ``previous`` is the start of ``current``.

    :func:`~cortex_replay.prompt.parts.parts_of` says which part of a prompt that is. With breakpoints it must
    also be found again: Anthropic looks back only so far from a breakpoint, and splits its cache by settings.

    Raises:
        PrefixChanged: It is not. The message names the first part that changed and shows how, or says where a
            breakpoint is missing.
        TypeError: The two are not prompts of one kind.
    """
    __tracebackhide__ = True
    hold_prefix(previous, current)


def hold_prefix(previous: Prompt, current: Prompt, clean: Callable[[str], str] = str) -> None:
    """The same, with what a text of a prompt passes before it is quoted; see :func:`assert_prefix_stable`."""
    __tracebackhide__ = True
    before, after = parts_of(previous), parts_of(current)
    if before.kind != after.kind:
        raise TypeError(f"expected two prompts of one kind, not {before.kind} and {after.kind}")
    # What carries no breakpoint is cached where no breakpoint is needed, but not where there were some.
    still_cached = len(after.parts)
    if before.is_marked:
        still_cached = after.reach if after.is_marked else 0
    for i, part in enumerate(before.prefix):
        if i >= still_cached or after.parts[i].material != part.material:
            raise _change_at(before, after, i, clean)
    lost = _find_lost_prefix(previous, current) if before.is_marked else None
    if lost is not None:
        raise _not_found(lost)


def _find_lost_prefix(previous: Prompt, current: Prompt) -> LostPrefix | None:
    promised = previous
    if isinstance(previous, RenderedContext):
        promised = replace(previous, turns=previous.turns[: previous.frozen_prefix_len or None])
    return find_lost_prefix(_request(promised), _request(previous), _request(current))


def _request(prompt: Prompt) -> LlmRequest:
    """What Anthropic is sent of a prompt."""
    if isinstance(prompt, LlmRequest):
        return prompt
    if isinstance(prompt, RenderedContext | PromptIR):
        sent = prompt.for_wire(ANTHROPIC)
    else:
        sent = blocks_for_wire(prompt, ANTHROPIC)
    return LlmRequest(_ANY_MODEL, sent.system_text, sent.messages, cache=sent.cache_plan())


def _not_found(lost: LostPrefix) -> PrefixChanged:
    if lost.why == "settings":
        change = f"{lost.block} is as it was, but other settings have a cache of their own"
        return PrefixChanged(lost.block, change, "", lost.tokens, _KEEP_SETTINGS)
    change = f"{lost.block} is as it was, but too many blocks stand between it and the next breakpoint"
    advice = (
        f"Anthropic looks back {lost.lookback} blocks from a breakpoint, counting its own. "
        f"Put one in between, at most every {lost.lookback} blocks, or ask more often while the prompt grows."
    )
    return PrefixChanged(lost.block, change, "", lost.tokens, advice)


def _change_at(before: PromptParts, after: PromptParts, i: int, clean: Callable[[str], str]) -> PrefixChanged:
    tokens = sum(lost.tokens for lost in before.prefix[i:])
    old = before.parts[i]
    if i >= len(after.parts):
        return PrefixChanged(
            old.name, f"{old.name} is gone", part_diff(old, None, clean), tokens, _KEEP_THE_ORDER
        )
    new = after.parts[i]
    if new.material == old.material:
        change = f"{old.name} is as it was, but no breakpoint stands behind it any more"
        return PrefixChanged(old.name, change, "", tokens, _MARK_IT)
    if _has_part(after, i + 1, old) and not _has_part(before, i + 1, old):
        change = f"{new.name} stands where {old.name} was"
        return PrefixChanged(new.name, change, part_diff(None, new, clean), tokens, _KEEP_THE_ORDER)
    if _has_part(before, i + 1, new) and not _has_part(after, i + 1, new):
        return PrefixChanged(
            old.name, f"{old.name} is gone", part_diff(old, None, clean), tokens, _KEEP_THE_ORDER
        )
    is_same = new.name == old.name
    change = f"{old.name} is not what it was" if is_same else f"{old.name} was replaced by {new.name}"
    diff = part_diff(old, new, clean)
    kind = volatile_kind(diff)
    guess = "" if kind is None else f"What changed looks like {kind}. "
    advice = f"{guess}Put what changes from call to call {_WHERE_TO[before.kind]}."
    return PrefixChanged(old.name, change, diff, tokens, advice)


def _has_part(prompt: PromptParts, start: int, part: PromptPart) -> bool:
    return any(other.material == part.material for other in prompt.parts[start:])


def part_diff(old: PromptPart | None, new: PromptPart | None, clean: Callable[[str], str] = str) -> str:
    """How one part became the other; of one that came or went, the start is enough to know it.

    Args:
        old: As it was; ``None`` if it is new.
        new: As it is; ``None`` if it is gone.
        clean: What the texts pass before they are cut: no rule knows a secret by a piece of it.
    """
    if old is None or new is None:
        texts = [None if part is None else clean(part.text) for part in (old, new)]
        names = ["nothing" if part is None else part.name for part in (old, new)]
        return short_diff(texts[0], texts[1], names[0], names[1], most=8)
    if old.text == new.text:  # the same words in another role, say
        return short_diff(clean(old.material), clean(new.material), old.name, new.name)
    return short_diff(clean(old.text), clean(new.text), old.name, new.name)
