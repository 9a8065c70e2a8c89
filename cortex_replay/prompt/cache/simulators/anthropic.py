"""Anthropic's cache: written at markers, found by looking back from them.

The rules are those of ``docs/cache.md``, which also says what the documents leave open and is assumed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import inf
from typing import Final, Literal, NamedTuple

from cortex_replay.prompt.cache.calls import CacheBlock, CacheCall, CacheOutcome, Reason, Why
from cortex_replay.prompt.cache.facts import fact_of, value_of
from cortex_replay.prompt.cache.simulators.paths import PromptPath, PromptPaths
from cortex_replay.prompt.policy import CachePolicy

__all__ = ["AnthropicCache", "CacheState"]

CacheState = frozenset[tuple[int, float, float, float]]
"""What a cache holds: prefixes, each with its time, when that is over, and when it can be read."""

_ROWS: Final = ("tool_use", "tool_result")
"""Blocks of which a row counts as one position."""


@dataclass(slots=True)
class _Entry:
    """A prefix in the cache."""

    ttl: float
    expires: float
    ready: float

    def is_live(self, at: float) -> bool:
        return self.ready <= at < self.expires


class _Marker(NamedTuple):
    block: int
    """The number of the block that it stands on."""
    time: CachePolicy


class _Refusal(Exception):
    """The provider takes no such request because of the block with this index."""


class AnthropicCache:
    """What Anthropic has in its cache after the calls so far."""

    def __init__(self) -> None:
        self._paths = PromptPaths()
        self._entries: dict[int, _Entry] = {}

    def fork(self) -> AnthropicCache:
        """A cache that holds the same, and goes its own way from here."""
        other = AnthropicCache()
        other._paths = self._paths  # numbers for prefixes, the same in both
        other._entries = {node: copy(entry) for node, entry in self._entries.items()}
        return other

    def state_at(self, at: float) -> CacheState:
        """What it holds, to compare with another one that was forked off the same."""
        return frozenset(
            (node, entry.ttl, entry.expires, entry.ready)
            for node, entry in self._entries.items()
            if entry.expires > at
        )

    def ask(self, call: CacheCall) -> CacheOutcome:
        """What it does with the next call; calls come in the order of their times."""
        minimum, is_assumed = fact_of("anthropic", call.model, "minimum")
        if not value_of("anthropic", call.model, "keeps_thinking"):
            call = _forget_thinking(call)
        try:
            markers = _place_markers(call)
        except _Refusal as refusal:
            reason = Reason("refused", call.blocks[refusal.args[0]].name, call.tokens)
            return CacheOutcome(fresh=call.tokens, reasons=(reason,), is_assumed=is_assumed)
        prompt = _Prompt(call, self._paths.walk(call), markers, minimum)
        hit = self._find(prompt)
        reasons = tuple(reason for reason in self._explain(prompt, hit) if reason.tokens)
        self._keep(prompt, hit)
        return _bill(prompt, hit, reasons, is_assumed)

    def _find(self, prompt: _Prompt) -> int:
        """The number of the last block that is read, or -1: the nearest entry that a marker finds."""
        at, nodes = prompt.call.at, prompt.path.nodes
        for marker in reversed(prompt.markers):
            for i in _look_back(prompt.call, marker.block):
                entry = self._entries.get(nodes[i]) if i < prompt.path.known else None
                if entry is not None and entry.is_live(at):
                    return i
        return -1

    def _keep(self, prompt: _Prompt, hit: int) -> None:
        """Refresh what was used, and write what was not there."""
        at, nodes = prompt.call.at, prompt.path.nodes
        for entry in map(self._entries.get, nodes[: hit + 1]):  # a read uses all shorter prefixes, too
            if entry is not None and entry.ready <= at < entry.expires:
                entry.expires = at + entry.ttl
        for marker in prompt.markers:
            node = nodes[marker.block]
            entry = self._entries.get(node)
            if prompt.ends[marker.block] >= prompt.minimum and (entry is None or not entry.is_live(at)):
                # In front of what is read it costs nothing, so it does not live longer than that.
                most = self._entries[nodes[hit]].ttl if marker.block < hit else inf
                self._entries[node] = self._write(prompt.call, marker.time, entry, most)

    def _write(self, call: CacheCall, time: CachePolicy, before: _Entry | None, most: float) -> _Entry:
        ttl = min(most, value_of("anthropic", call.model, _ttl_of(time)))
        entry = _Entry(ttl, call.at + ttl, call.at if call.ready is None else call.ready)
        if before is not None and call.at < before.expires:  # an earlier call is still writing it
            entry.ready = min(entry.ready, before.ready)
            if before.expires > entry.expires:
                entry.ttl, entry.expires = before.ttl, before.expires
        return entry

    def _explain(self, prompt: _Prompt, hit: int) -> Iterator[Reason]:
        """Why the part shared with an earlier call is not read, and why the rest is new."""
        path, ends, blocks = prompt.path, prompt.ends, prompt.call.blocks
        if not blocks:
            return
        shared = path.known - 1
        read = ends[hit] if hit >= 0 else 0
        if not prompt.markers:
            last = shared if shared >= 0 else len(blocks) - 1
            yield Reason("no marker", blocks[last].name, ends[last])
            return
        last = prompt.markers[-1].block
        if ends[last] < prompt.minimum:
            yield Reason("too short", blocks[last].name, ends[last])
            return
        if shared > hit:
            yield self._explain_shared(prompt, hit)
        if shared >= last:
            return
        begin = ends[shared] if shared >= 0 else 0
        if path.split is not None:
            yield Reason(path.split, blocks[shared + 1].name, ends[last] - begin)
        elif shared < 0:
            elsewhere = [i for i, node in enumerate(path.elsewhere) if self._is_live(node, prompt.call.at)]
            if elsewhere:
                yield Reason("other model", blocks[elsewhere[-1]].name, ends[elsewhere[-1]])
            else:
                yield Reason("first", blocks[last].name, ends[last] - read)

    def _explain_shared(self, prompt: _Prompt, hit: int) -> Reason:
        """Why the longest entry of what is shared is not read; without one, why there is none."""
        path, ends, blocks, at = prompt.path, prompt.ends, prompt.call.blocks, prompt.call.at
        read = ends[hit] if hit >= 0 else 0
        for i in range(path.known - 1, hit, -1):
            entry = self._entries.get(path.nodes[i])
            if entry is None:
                continue
            missed = ends[i] - read
            if i > prompt.markers[-1].block:
                return Reason("no marker", blocks[i].name, missed)
            if at >= entry.expires:
                return Reason("ttl", blocks[i].name, missed)
            return Reason("lookback" if entry.is_live(at) else "not ready", blocks[i].name, missed)
        shared = path.known - 1
        why: Why = "too short" if ends[shared] < prompt.minimum else "no marker"
        return Reason(why, blocks[shared].name, ends[shared] - read)

    def _is_live(self, node: int, at: float) -> bool:
        entry = self._entries.get(node)
        return entry is not None and entry.is_live(at)


class _Prompt:
    """A call, laid out."""

    __slots__ = ("call", "ends", "markers", "minimum", "path")

    def __init__(self, call: CacheCall, path: PromptPath, markers: Sequence[_Marker], minimum: float) -> None:
        self.call = call
        self.path = path
        self.markers = markers
        self.minimum = minimum
        self.ends = list(accumulate([block.tokens for block in call.blocks]))
        """The tokens up to the end of each block."""


def _forget_thinking(call: CacheCall) -> CacheCall:
    """A call without the thinking of earlier turns, which end with what a user says.

    The provider does not count it either, so what it had been given of the count goes to the next block.
    """
    thoughts = [i for i, block in enumerate(call.blocks) if block.kind == "thinking"]
    if not thoughts:  # as most calls have none
        return call
    spoken = max((i for i, block in enumerate(call.blocks) if block.kind == "user"), default=-1)
    if thoughts[0] > spoken:
        return call
    kept: list[CacheBlock] = []
    left = 0
    for i, block in enumerate(call.blocks):
        if block.kind == "thinking" and i < spoken:
            left += block.tokens
        else:
            kept.append(replace(block, tokens=block.tokens + left) if left else block)
            left = 0
    return replace(call, blocks=tuple(kept))


def _look_back(call: CacheCall, start: int) -> Iterator[int]:
    """The blocks that are checked from a marker on; a row of calls or of results is one position."""
    left = value_of("anthropic", call.model, "lookback")
    row = ""
    for i in range(start, -1, -1):
        kind = call.blocks[i].kind
        if kind not in _ROWS or kind != row:
            if not left:
                return
            left -= 1
        row = kind
        yield i


def _place_markers(call: CacheCall) -> list[_Marker]:
    """The markers of a call with the automatic one, in order.

    Raises:
        _Refusal: The provider takes no such request.
    """
    blocks, none = call.blocks, CachePolicy.NONE
    markers = [_Marker(i, block.marker) for i, block in enumerate(blocks) if block.marker is not none]
    if call.automatic.is_cached:
        able = (i for i in reversed(range(len(blocks))) if blocks[i].tokens and blocks[i].kind != "thinking")
        last = next(able, None)
        if last is not None and markers and markers[-1].block == last:
            if markers[-1].time is not call.automatic:
                raise _Refusal(last)
        elif last is not None:
            markers = sorted([*markers, _Marker(last, call.automatic)])
    if len(markers) > value_of("anthropic", call.model, "markers"):
        raise _Refusal(markers[-1].block)
    for before, marker in pairwise(markers):
        if (before.time, marker.time) == (CachePolicy.EPHEMERAL_5M, CachePolicy.EPHEMERAL_1H):
            raise _Refusal(marker.block)
    return markers


def _bill(prompt: _Prompt, hit: int, reasons: tuple[Reason, ...], is_assumed: bool) -> CacheOutcome:
    """Read up to what was found, written for an hour up to the last marker of one, then for five minutes."""
    ends = prompt.ends
    read = ends[hit] if hit >= 0 else 0
    written = [
        marker for marker in prompt.markers if marker.block > hit and ends[marker.block] >= prompt.minimum
    ]
    hours = [marker for marker in written if marker.time is CachePolicy.EPHEMERAL_1H]
    hour_end = ends[hours[-1].block] if hours else read
    end = ends[written[-1].block] if written else read
    return CacheOutcome(
        read=read,
        write_5m=end - hour_end,
        write_1h=hour_end - read,
        fresh=(ends[-1] if ends else 0) - end,
        reasons=reasons,
        is_assumed=is_assumed,
    )


def _ttl_of(time: CachePolicy) -> Literal["ttl_5m", "ttl_1h"]:
    return "ttl_1h" if time is CachePolicy.EPHEMERAL_1H else "ttl_5m"
