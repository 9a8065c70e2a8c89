"""What the calls of a run paid again though an earlier call had it: by call, and by block and reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from cortex_replay.history.replay import CacheReplay, ReplayedCall
from cortex_replay.prompt.cache.calls import CacheBlock, Reason, Why
from cortex_replay.prompt.cache.costs import Cost, Tariff
from cortex_replay.prompt.cache.facts import value_of
from cortex_replay.prompt.cache.reasons import describe_reason
from cortex_replay.prompt.diff import short_diff, volatile_kind
from cortex_replay.prompt.policy import CachePolicy

__all__ = ["CacheLoss", "CallLoss", "add_losses", "losses_of"]

_TURNS: Final = "a turn of the conversation"
_ELSEWHERE: Final[frozenset[Why]] = frozenset(["other model", "other key"])
"""Reasons about another cache, which the earlier calls of this cache say nothing about."""


@dataclass(frozen=True, slots=True)
class CallLoss:
    """Why one call paid something again."""

    reason: Reason
    """With what it paid again."""
    before: int | None = None
    """Which call, from 0, had the block as it was; for a block that changed."""

    def __str__(self) -> str:
        return f"{describe_reason(self.reason)}: {self.reason.tokens:,} tokens are paid again"


@dataclass(frozen=True, slots=True)
class CacheLoss:
    """One reason, about one block (or the turns of a conversation), over all calls."""

    why: Why
    block: str
    calls: int
    tokens: int
    """What was paid again, over all of them."""
    cost: Cost
    """What that was more than reading it."""
    first: int
    """The number of the first call that it happened to."""
    looks_like: str | None = None
    """What changed in the block, where that looks like a time or an id."""

    def __str__(self) -> str:
        """For people."""
        text = describe_reason(Reason(self.why, self.block))
        return text if self.looks_like is None else f"{text}, and the difference looks like {self.looks_like}"

    def to_dict(self) -> dict[str, Any]:
        """For a program."""
        return {
            "why": self.why,
            "block": self.block,
            "text": str(self),
            "calls": self.calls,
            "tokens": self.tokens,
            "cost": self.cost.to_dict(),
            "first": self.first,
            "looks_like": self.looks_like,
        }


def losses_of(replay: CacheReplay) -> list[tuple[CallLoss, ...]]:
    """What each call paid again, and why.

    The simulator has a reason for everything that is not read. A loss is what an earlier call had already:
    not the new text of a new conversation; behind a block that changed, what is still the same.
    """
    latest: dict[object, int] = {}
    found = []
    for number, replayed in enumerate(replay.calls):
        found.append(tuple(_losses(replay.calls, replayed, latest)))
        latest[replayed.provider, replayed.recorded.model] = number
        latest.update(dict.fromkeys(replayed.path, number))
    return found


def _losses(
    calls: Sequence[ReplayedCall], here: ReplayedCall, latest: dict[object, int]
) -> Iterator[CallLoss]:
    outcome = here.outcome
    reasons = [] if outcome is None else [reason for reason in outcome.reasons if reason.why != "first"]
    if outcome is None or not reasons or here.has_lost_markers:
        return
    blocks = here.prompt.blocks
    known = next((i for i, node in enumerate(here.path) if node not in latest), len(blocks))
    shared = sum(block.tokens for block in blocks[:known]) - outcome.read
    for reason in reasons:
        if reason.why == "changed":
            root = here.path[known - 1] if known else (here.provider, here.recorded.model)
            before = latest.get(root)
            if before is not None and known < len(blocks) and not _is_over(calls[before], here):
                old = {block.digest for block in _cached_blocks(calls[before])[known:]}
                again = sum(block.tokens for block in blocks[known + 1 :] if block.digest in old)
                if again:
                    yield CallLoss(Reason("changed", reason.block, min(again, reason.tokens)), before)
        else:
            tokens = reason.tokens if reason.why in _ELSEWHERE else min(reason.tokens, shared)
            if tokens > 0:
                yield CallLoss(Reason(reason.why, reason.block, tokens))


def _cached_blocks(replayed: ReplayedCall) -> tuple[CacheBlock, ...]:
    """What a call asked to be cached: up to its last marker, or all where a provider caches by itself."""
    blocks = replayed.prompt.blocks
    if replayed.provider != "anthropic":
        return blocks
    return blocks[: max((i for i, block in enumerate(blocks, start=1) if block.marker.is_cached), default=0)]


def _is_over(before: ReplayedCall, here: ReplayedCall) -> bool:
    """Whether what an earlier call cached had gone in any case."""
    if here.provider != "anthropic":
        return False
    has_hours = any(block.marker is CachePolicy.EPHEMERAL_1H for block in before.prompt.blocks)
    ttl = value_of("anthropic", here.recorded.model, "ttl_1h" if has_hours else "ttl_5m")
    return here.seconds - before.seconds >= ttl


@dataclass(slots=True)
class _Sum:
    first: int
    loss: CallLoss
    """Of the first call."""
    calls: int = 0
    tokens: int = 0
    cost: Fraction = field(default_factory=Fraction)


def add_losses(
    replay: CacheReplay, losses: Sequence[Sequence[CallLoss]], tariff: Tariff
) -> tuple[CacheLoss, ...]:
    """The losses of all calls by reason and block, the dearest first."""
    sums: dict[tuple[Why, str], _Sum] = {}
    for number, (replayed, own) in enumerate(zip(replay.calls, losses, strict=True)):
        for loss in own:
            if replayed.call is None or replayed.outcome is None:
                continue
            reason = loss.reason
            # Every call of a conversation ends with another turn: they are one line.
            block = _TURNS if reason.block.startswith("turn ") else reason.block
            found = sums.setdefault((reason.why, block), _Sum(number, loss))
            found.calls += 1
            found.tokens += reason.tokens
            rates = tariff.rates(replayed.call.provider, replayed.call.model)
            found.cost += rates.cost_of_loss(replayed.outcome, reason.tokens)
    added = [
        CacheLoss(
            why,
            found.loss.reason.block if found.calls == 1 else block,
            found.calls,
            found.tokens,
            Cost(found.cost, tariff.unit, tariff.currency),
            found.first + 1,
            _what_changed(replay, found),
        )
        for (why, block), found in sums.items()
    ]
    return tuple(sorted(added, key=lambda loss: (-loss.cost.value, -loss.tokens, loss.first)))


def _what_changed(replay: CacheReplay, found: _Sum) -> str | None:
    """What the block changed in, the first time, where that looks like something."""
    if found.loss.before is None:
        return None
    now, before = (replay.calls[number].prompt.blocks for number in (found.first, found.loss.before))
    name = found.loss.reason.block
    index = next((i for i, block in enumerate(now) if block.name == name), None)
    if index is None or index >= len(before):
        return None
    texts = [replay.text_of(blocks[index].digest) for blocks in (before, now)]
    return volatile_kind(short_diff(texts[0], texts[1], "before", "now"))
