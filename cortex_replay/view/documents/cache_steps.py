"""What a prompt cache did with each call of a story: what it read, what it wrote, and where it broke."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.differences import explain_difference, is_different
from cortex_replay.history.losses import CallLoss, losses_of
from cortex_replay.history.replay import CacheReplay, ReplayedCall, TooManyBlocks, replay_calls
from cortex_replay.prompt.cache.calls import CacheBlock, CacheOutcome, Why
from cortex_replay.prompt.cache.costs import reported_outcome

__all__ = ["cache_documents", "segments_of"]

_MOST_SEGMENTS: Final = 40
_UNUSED: Final[frozenset[Why]] = frozenset(["no marker", "too short", "refused"])
"""Reasons of a prompt that asks for no cache there: nothing breaks that never was."""


class _Segment(NamedTuple):
    """A part of a prompt that the cache treated as one."""

    name: str
    tokens: int
    place: str
    state: str
    """``read``, ``written`` or ``fresh``; empty where that is not known."""
    mark: str
    """The marker at its end."""


def cache_documents(calls: Sequence[HistoryCall]) -> list[dict[str, Any] | None]:
    """What to say of the cache at each call of a story; ``None`` where nothing is known.

    Args:
        calls: In the order in which they were asked.
    """
    try:
        replay = replay_calls(calls)
    except TooManyBlocks:
        return [None] * len(calls)
    return [
        _document(replay, replayed, losses)
        for replayed, losses in zip(replay.calls, losses_of(replay), strict=True)
    ]


def _document(
    replay: CacheReplay, replayed: ReplayedCall, losses: Sequence[CallLoss]
) -> dict[str, Any] | None:
    reported, simulated = reported_outcome(replayed.recorded.usage), replayed.outcome
    outcome = reported or simulated
    if outcome is None or not replayed.tokens:
        return None
    losses = sorted(losses, key=lambda loss: (loss.reason.why in _UNUSED, -loss.reason.tokens))
    broke = next((loss for loss in losses if loss.reason.why not in _UNUSED), None)
    notes = [str(loss) for loss in losses]
    if reported is not None and is_different(replayed, reported):
        reasons = explain_difference(replayed, reported, replay.text_of)
        notes += [f"the provider differs from our simulation: {reason}" for reason in reasons]
    if said := replayed.recorded.cache_reason:
        notes.append(f"the provider says: {said}")
    return {
        "read": outcome.read,
        "written": outcome.write_5m + outcome.write_1h,
        "tokens": outcome.tokens,
        "share": round(outcome.read / outcome.tokens, 4) if outcome.tokens else 0.0,
        "is_reported": reported is not None,
        "broke_at": None if broke is None else broke.reason.block or "the start",
        "why": notes,
        "lost": sum(loss.reason.tokens for loss in losses),
        "blocks": segments_of(replayed.prompt.blocks, outcome),
    }


def segments_of(blocks: Sequence[CacheBlock], outcome: CacheOutcome | None) -> list[dict[str, Any]]:
    """The blocks of a prompt, for a bar: neighbours that the cache treated alike are one.

    Args:
        blocks: With their sizes.
        outcome: How many tokens from the start were read, and then written; ``None`` if that is not known.
    """
    cut = list(_cut(blocks, outcome))
    alike = groupby(cut, key=lambda one: (one.place, one.state) if one.place == "messages" else one)
    joined: list[_Segment] = []
    for _, group in alike:
        joined += _join(list(group))
    if len(joined) > _MOST_SEGMENTS:
        joined = [_merge(list(group)) for _, group in groupby(joined, key=lambda one: (one.place, one.state))]
    return [segment._asdict() for segment in joined]


def _cut(blocks: Sequence[CacheBlock], outcome: CacheOutcome | None) -> Iterator[_Segment]:
    """Each block, in two where the cache read only its start."""
    ends = _ends(outcome)
    at = 0
    for block in blocks:
        left, mark = block.tokens, str(block.marker) if block.marker.is_cached else ""
        while True:
            state, end = next(((state, end) for state, end in ends if at < end), ends[-1])
            size = min(left, end - at) if end > at else left
            at, left = at + size, left - size
            yield _Segment(block.name, size, block.place.name.lower(), state, "" if left else mark)
            if not left:
                break


def _ends(outcome: CacheOutcome | None) -> list[tuple[str, int]]:
    if outcome is None:
        return [("", 0)]
    written = outcome.read + outcome.write_5m + outcome.write_1h
    return [("read", outcome.read), ("written", written), ("fresh", 0)]


def _join(group: list[_Segment]) -> Iterator[_Segment]:
    """Turns as one segment up to each marker, which is to be seen."""
    start = 0
    for i, segment in enumerate(group, start=1):
        if segment.mark or i == len(group):
            yield _merge(group[start:i])
            start = i


def _merge(group: list[_Segment]) -> _Segment:
    first, last = group[0], group[-1]
    name = first.name if first.name == last.name else f"{first.name} to {last.name}"
    tokens = sum(segment.tokens for segment in group)
    return _Segment(name, tokens, first.place, first.state, last.mark)
