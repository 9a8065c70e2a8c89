"""What a prompt cache did with each call of a story: what it read, what it wrote, and where it broke."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import Any, Final

from cortex_replay.history.calls import HistoryCall
from cortex_replay.history.differences import explain_difference, is_different
from cortex_replay.history.losses import CallLoss, losses_of
from cortex_replay.history.replay import CacheReplay, ReplayedCall, TooManyBlocks, replay_calls
from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheOutcome, Why
from cortex_replay.prompt.cache.costs import reported_outcome
from cortex_replay.prompt.policy import CachePolicy

__all__ = ["cache_documents", "segments_of"]

_MOST_SEGMENTS: Final = 40
_TURNS: Final = Place.MESSAGES
_UNUSED: Final[frozenset[Why]] = frozenset(["no marker", "too short", "refused"])
"""Reasons of a prompt that asks for no cache there: nothing breaks that never was."""


@dataclass(slots=True)
class _Segment:
    """A part of a prompt that the cache treated as one."""

    first: str
    last: str
    """The names of its first block and its last."""
    tokens: int
    place: Place
    state: str
    """``read``, ``written`` or ``fresh``; empty where that is not known."""
    mark: str
    """The marker at its end."""

    def joins(self, other: _Segment) -> bool:
        """Whether the next one can be told as a part of this one."""
        return not self.mark and self.state == other.state and self.place == other.place

    def add(self, other: _Segment) -> _Segment:
        self.last, self.mark = other.last, other.mark
        self.tokens += other.tokens
        return self

    def to_dict(self) -> dict[str, Any]:
        """For the page."""
        return {
            "name": self.first if self.first == self.last else f"{self.first} to {self.last}",
            "tokens": self.tokens,
            "place": self.place.name.lower(),
            "state": self.state,
            "mark": self.mark,
        }


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
    """The blocks of a prompt, for a bar: turns that the cache treated alike are one, up to each marker.

    Args:
        blocks: With their sizes.
        outcome: How many tokens from the start were read, and then written; ``None`` if that is not known.
    """
    found: list[_Segment] = []
    for segment in _cut(blocks, outcome):
        last = found[-1] if found else None
        if last is not None and segment.place == _TURNS and last.joins(segment):
            last.add(segment)
        else:
            found.append(segment)
    if len(found) > _MOST_SEGMENTS:
        alike = groupby(found, key=lambda segment: (segment.place, segment.state))
        found = [reduce(_Segment.add, group) for _, group in alike]
    return [segment.to_dict() for segment in found]


def _cut(blocks: Sequence[CacheBlock], outcome: CacheOutcome | None) -> Iterator[_Segment]:
    """Each block, in two where the cache read only its start."""
    states = _states(outcome)
    state, end = next(states)
    at = 0
    for block in blocks:
        left, mark = block.tokens, "" if block.marker is CachePolicy.NONE else str(block.marker)
        while end is not None and left and at + left > end:
            if end > at:
                yield _Segment(block.name, block.name, end - at, block.place, state, "")
                left, at = left - (end - at), end
            state, end = next(states)
        at += left
        yield _Segment(block.name, block.name, left, block.place, state, mark)


def _states(outcome: CacheOutcome | None) -> Iterator[tuple[str, int | None]]:
    """What the cache did with a prompt from its start on, and up to which token; the last goes to its end."""
    if outcome is None:
        yield "", None
        return
    yield "read", outcome.read
    yield "written", outcome.read + outcome.write_5m + outcome.write_1h
    yield "fresh", None
