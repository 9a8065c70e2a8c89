"""What a provider holds of the prompts that it has seen, as a tree: a branch for each block that differed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, CacheOutcome, Reason, Why
from cortex_replay.prompt.cache.facts import Known

__all__ = ["PromptTree", "TextOf", "Trail", "count_shared", "explain_rest"]

TextOf = Callable[[str], str]
"""What a block says, by its digest; an empty text where that is not known."""

_BRANCHES: Final = 16
"""How many branches are looked into for a block that begins alike: what is found is an estimate, and a prompt
that thousands of calls share has thousands of them."""


@dataclass(slots=True)
class _Node:
    """A prompt up to the end of a block."""

    branches: dict[tuple[tuple[str, ...], str], _Node] = field(default_factory=dict)
    until: float = -math.inf
    """When it is gone."""
    ready: float = math.inf
    """From when on it can be read."""

    def is_alive(self, at: float) -> bool:
        return self.ready <= at < self.until

    @property
    def was_written(self) -> bool:
        return self.until > -math.inf


@dataclass(frozen=True, slots=True)
class Trail:
    """A call on its way down the tree."""

    nodes: tuple[_Node, ...]
    """One for each block, known before or not."""
    known: int
    """How many of the blocks an earlier call had at the same place, behind the same blocks."""
    fork: Why | None
    """Why the next block was not known, if anything else was there."""
    elsewhere: int = 0
    """How many of the blocks another model or key has, where that is why."""

    def alive(self, at: float) -> int:
        """How many blocks can be read one after the other."""
        count = 0
        while count < self.known and self.nodes[count].is_alive(at):
            count += 1
        return count

    def was_written(self, index: int) -> bool:
        """Whether an earlier call wrote the prompt up to here."""
        return self.nodes[index].was_written

    def is_alive(self, index: int, at: float) -> bool:
        """Whether the prompt up to here can be read."""
        return self.nodes[index].is_alive(at)

    def gone(self, index: int, at: float) -> Why:
        """Why what was written here cannot be read."""
        return "ttl" if self.nodes[index].until <= at else "not ready"

    def write(self, indices: Sequence[int], call: CacheCall, seconds: float, *, refresh: bool = True) -> None:
        """Keep the prompt up to the end of these blocks; what was kept before may live on from now."""
        ready = call.at if call.ready is None else call.ready
        for node in (self.nodes[index] for index in indices):
            if node.until <= call.at:
                node.ready, node.until = ready, call.at + seconds
                continue
            node.ready = min(node.ready, ready)
            if refresh:
                node.until = max(node.until, call.at + seconds)


class _Place(NamedTuple):
    """Whose prompts are kept together."""

    model: str
    key: str


class PromptTree:
    """The tree. Each model and each cache key has its own root: what one keeps, no other finds."""

    def __init__(self, text_of: TextOf | None = None) -> None:
        self._text_of = text_of
        self._roots: dict[_Place, _Node] = {}
        self._first: dict[str, dict[_Place, None]] = {}
        """Where prompts are kept that begin with a block, the latest last."""

    def follow(self, call: CacheCall) -> Trail:
        """The way of a call, with a branch for what is new."""
        place = _Place(call.model, call.key)
        node = self._roots.setdefault(place, _Node())
        nodes: list[_Node] = []
        known = 0
        fork: Why | None = None
        elsewhere = 0
        settings = _settings_up_to(call)
        for block in call.blocks:
            step = settings[block.place], block.digest
            after = node.branches.get(step)
            if after is None:
                if known == len(nodes):
                    other, elsewhere = (None, 0) if nodes else self._elsewhere(call, place)
                    fork = other or _fork(node, block)
                after = node.branches[step] = _Node()
            elif known == len(nodes):
                known += 1
            nodes.append(after)
            node = after
        if call.blocks:
            places = self._first.setdefault(call.blocks[0].digest, {})
            places.pop(place, None)
            places[place] = None
        return Trail(tuple(nodes), known, fork, elsewhere)

    def _elsewhere(self, call: CacheCall, place: _Place) -> tuple[Why | None, int]:
        """Which of the others has most of a prompt that nothing is known of here, and how many blocks."""
        others = islice(reversed(self._first.get(call.blocks[0].digest, {})), _BRANCHES)
        kept = {other: self._kept_blocks(call, other) for other in others}
        most = max(kept, key=kept.__getitem__, default=None)
        if most is None or not kept[most]:
            return None, 0
        return ("other model" if most.model != place.model else "other key"), kept[most]

    def _kept_blocks(self, call: CacheCall, place: _Place) -> int:
        """How many blocks of a call are kept at a place."""
        node = self._roots[place]
        settings = _settings_up_to(call)
        kept = 0
        for i, block in enumerate(call.blocks, start=1):
            after = node.branches.get((settings[block.place], block.digest))
            if after is None:
                break
            if after.until > call.at:
                kept = i
            node = after
        return kept

    def ask(
        self, call: CacheCall, trail: Trail, *, minimum: Known, step: int, seconds: float, refresh: bool
    ) -> CacheOutcome:
        """Read what is shared with earlier prompts, and keep the whole of this one.

        Args:
            call: What is asked.
            trail: Its way down the tree.
            minimum: Nothing shorter is kept or read.
            step: What is read is a multiple of it.
            seconds: How long the prompt is kept.
            refresh: Whether what is read lives on from now.
        """
        least = int(minimum.value)
        alive = trail.alive(call.at)
        part = self._count_part(call, trail, alive)
        shared = sum(block.tokens for block in call.blocks[:alive]) + part
        read = shared - shared % step if shared >= least else 0
        reason = explain_rest(call, trail, alive)
        is_too_little = reason is not None and trail.elsewhere and reason.tokens < least
        reasons = [] if reason is None or is_too_little else [reason]
        if call.tokens < least or 0 < shared < least:
            reasons.append(Reason("too short", tokens=shared or call.tokens))
        if call.tokens >= least:
            trail.write(range(len(call.blocks)), call, seconds, refresh=refresh)
        return CacheOutcome(
            read=read,
            fresh=call.tokens - read,
            reasons=tuple(reasons),
            is_assumed=minimum.is_assumed,
            is_estimate=bool(part) and read > 0,
        )

    def _count_part(self, call: CacheCall, trail: Trail, index: int) -> int:
        """About how many tokens of a block can be read since another that is kept began like it."""
        if self._text_of is None or index >= len(call.blocks):
            return 0
        block = call.blocks[index]
        text = self._text_of(block.digest)
        before = self._roots[_Place(call.model, call.key)] if index == 0 else trail.nodes[index - 1]
        settings = _settings_up_to(call)[block.place]
        most = 0
        for (others, digest), node in islice(reversed(before.branches.items()), _BRANCHES + 1):
            if others == settings and digest != block.digest and node.is_alive(call.at):
                most = max(most, count_shared(block, text, self._text_of(digest)))
        return most


def _settings_up_to(call: CacheCall) -> list[tuple[str, ...]]:
    """What counts for the blocks of each place: a setting counts on, even where its place has no block."""
    texts = [call.settings.get(place, "") for place in Place]
    return [tuple(texts[: place + 1]) for place in Place]


def _fork(node: _Node, block: CacheBlock) -> Why | None:
    if not node.branches:
        return None
    latest = islice(reversed(node.branches), _BRANCHES)
    return "settings" if any(digest == block.digest for _, digest in latest) else "changed"


def count_shared(block: CacheBlock, text: str, other: str) -> int:
    """How much of a block another text begins like, its size being spread evenly over its own text."""
    if not text:
        return 0
    low, high = 0, min(len(text), len(other))
    while low < high:  # slices are compared at once; a loop over characters would take most of the time
        middle = (low + high + 1) // 2
        if text[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return block.tokens * low // len(text)


def explain_rest(call: CacheCall, trail: Trail, read: int) -> Reason | None:
    """Why a call could not read on behind so many blocks; none where nothing else had ever been there."""
    rest = call.blocks[read:]
    if not rest:
        return None
    name, size = rest[0].name, sum(block.tokens for block in rest)
    if read < trail.known and trail.was_written(read):
        gone = sum(block.tokens for block in call.blocks[read : trail.known])
        return Reason(trail.gone(read, call.at), name, gone)
    if trail.fork is not None:
        if trail.elsewhere:
            size = sum(block.tokens for block in call.blocks[: trail.elsewhere])
        return Reason(trail.fork, name, size)
    return Reason("first", name, size) if read == 0 and trail.known == 0 else None
