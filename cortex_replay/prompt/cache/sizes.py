"""How large the blocks of a run are, by what the provider counted.

A provider counts whole prompts, what it read and what it wrote. Each such count is an anchor: it says how
much a prompt holds up to some block; another prompt that begins with the same blocks holds as much there.
Between two anchors the blocks share the difference in proportion to their bytes. What comes behind the last
anchor of a prompt that was not counted is an estimate.

An anchor that cannot be true of a prompt is not used for it: one that is more than a later one, or than the
whole. (Providers drop the thinking of earlier turns, so a longer prompt may count less.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cortex_replay.prompt.cache.calls import CacheBlock, Provider
from cortex_replay.prompt.cache.layout import BlockRow, Layout, share
from cortex_replay.prompt.policy import CachePolicy
from cortex_replay.types import TokenUsage

__all__ = ["PromptSizes", "SizedPrompt", "TracedPrompt"]

_Anchor = tuple[int, int]
"""A number of blocks from the start, and what they hold."""


@dataclass(frozen=True, slots=True)
class TracedPrompt:
    """A prompt with a number for each of its prefixes; equal prefixes have equal numbers in all prompts."""

    layout: Layout
    path: tuple[int, ...]
    """The prefix that ends with each block."""
    tokens: int | None
    """What the provider counted, if it did."""
    cached: Mapping[int, int] = field(default_factory=dict)
    """What it says itself of the prompt up to the block at a position: of others that begin so, the provider
    may have dropped some thinking, or not yet."""


@dataclass(frozen=True, slots=True)
class SizedPrompt:
    """The blocks of a prompt with their sizes."""

    blocks: tuple[CacheBlock, ...]
    tokens: int
    is_counted: bool
    """Whether they add up to what the provider counted."""
    ends: frozenset[int]
    """Up to where, in tokens, the size is a count and no estimate."""


class PromptSizes:
    """The prefixes of the prompts of one run, and the sizes that are known of them.

    Trace every prompt first, in the order in which they were asked; then measure them.
    """

    def __init__(self) -> None:
        self._next: dict[tuple[object, ...], int] = {}
        self._counts: dict[int, int] = {}
        """What a prefix holds, as its prompt was counted."""
        self._cached: dict[int, int] = {}
        """The same, as it was read or written: later calls report exactly this number again."""
        self._marked: set[int] = set()
        """The prefixes that an earlier prompt asked to be cached."""
        self._measured: dict[int, tuple[CacheBlock, ...]] = {}

    def trace(
        self, provider: Provider | None, model: str, layout: Layout, usage: TokenUsage | None
    ) -> TracedPrompt:
        """Note what was counted of a prompt."""
        path = self._path(provider, model, layout.rows)
        tokens = usage.prompt_tokens if usage is not None and usage.prompt_tokens else None
        cached: dict[int, int] = {}
        if path and usage is not None and tokens is not None:
            self._counts.setdefault(path[-1], tokens)
            if provider == "anthropic" and layout.markers:
                cached = self._note_cached(path, layout, usage)
        self._marked.update(path[position] for position in layout.markers)
        return TracedPrompt(layout, path, tokens, cached)

    def _path(self, provider: Provider | None, model: str, rows: Sequence[BlockRow]) -> tuple[int, ...]:
        following = self._next
        here = following.setdefault((provider, model), len(following))
        path = []
        for row in rows:
            step = here, row.digest
            found = following.get(step)
            if found is None:
                found = following[step] = len(following)
            path.append(found)
            here = found
        return tuple(path)

    def _note_cached(self, path: Sequence[int], layout: Layout, usage: TokenUsage) -> dict[int, int]:
        """Anthropic reads and writes up to the last marker, and reads up to one that was written before."""
        read, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        if not 0 < read + written <= usage.prompt_tokens:
            return {}
        last = max(layout.markers)
        own = {last: read + written}
        hours = [i for i, policy in layout.markers.items() if policy is CachePolicy.EPHEMERAL_1H]
        if hours and usage.cache_write_1h_tokens:  # which ends with the last such marker
            own[max(hours)] = read + usage.cache_write_1h_tokens
        self._cached.update({path[position]: count for position, count in own.items()})
        if not read or not written:
            return own
        before = [position for position in range(last) if path[position] in self._marked]
        is_known = any(self._cached.get(path[position]) == read for position in before)
        if before and not is_known:
            so_far, ends = 0, []
            for row in layout.rows:
                so_far += row.estimate
                ends.append(so_far)
            # Several may have been written, and some may have gone: what was read is the one of that size.
            nearest = min(
                before, key=lambda position: abs(ends[position] * usage.prompt_tokens - read * so_far)
            )
            self._cached.setdefault(path[nearest], read)
        return own

    def measure(self, prompt: TracedPrompt) -> SizedPrompt:
        """The sizes of a prompt's blocks."""
        layout, path, tokens = prompt.layout, prompt.path, prompt.tokens
        if not path:
            return SizedPrompt((), 0, tokens is not None, frozenset())
        counts, cached, own = self._counts, self._cached, prompt.cached
        anchors = [
            (i + 1, cached[node] if node in cached else counts[node])
            for i, node in enumerate(path)
            if node in counts or node in cached
        ]
        is_usual = all(cached[path[position]] == count for position, count in own.items())
        if not is_usual:
            anchors = [(end, own.get(end - 1, count)) for end, count in anchors]
        end = len(path)
        if tokens is not None or (anchors and anchors[-1][0] == end):
            whole = anchors.pop()[1] if anchors and anchors[-1][0] == end else 0
            whole = whole if tokens is None else tokens
            kept = _choose_anchors(anchors, whole)
        else:
            whole, kept = None, _choose_anchors(anchors, None)
        is_usual = is_usual and len(kept) == len(anchors)
        is_anchor = is_usual and whole is not None and whole == self._anchor(path[-1])
        blocks = self._measured.get(path[-1]) if is_anchor else None
        if blocks is None:
            start, so_far = kept[-1] if kept else (0, 0)
            rest = layout.rows[start:]
            estimates = [row.estimate for row in rest]
            sizes = estimates if whole is None else share(estimates, whole - so_far)
            blocks = (
                *self._prefix(layout.rows, path, kept, is_usual=is_usual),
                *_blocks(rest, sizes),
            )
            if is_anchor:
                self._measured[path[-1]] = blocks  # what a longer prompt begins with, and the same one is
        size = sum(block.tokens for block in blocks) if whole is None else whole
        if layout.markers:
            marked = list(blocks)
            for position, marker in layout.markers.items():
                marked[position] = _with_marker(marked[position], marker)
            blocks = tuple(marked)
        ends = {count for _, count in kept}
        ends.add(0)
        if whole is not None:
            ends.add(whole)
        return SizedPrompt(blocks, size, tokens is not None, frozenset(ends))

    def _anchor(self, node: int) -> int | None:
        return self._cached.get(node, self._counts.get(node))

    def _prefix(
        self, rows: Sequence[BlockRow], path: Sequence[int], anchors: Sequence[_Anchor], *, is_usual: bool
    ) -> tuple[CacheBlock, ...]:
        """The blocks up to the last anchor. Where all anchors hold, every prompt has the same ones there."""
        known = len(anchors) if is_usual else 0
        while known and path[anchors[known - 1][0] - 1] not in self._measured:
            known -= 1
        start, so_far = anchors[known - 1] if known else (0, 0)
        blocks = self._measured[path[start - 1]] if known else ()
        for end, count in anchors[known:]:
            part = rows[start:end]
            blocks += tuple(_blocks(part, share([row.estimate for row in part], count - so_far)))
            if is_usual:
                self._measured[path[end - 1]] = blocks
            start, so_far = end, count
        return blocks


def _choose_anchors(anchors: Sequence[_Anchor], whole: int | None) -> list[_Anchor]:
    """Those that grow from one to the next, up to the whole. The later ones are believed."""
    kept: list[_Anchor] = []
    most = whole
    for anchor in reversed(anchors):
        if most is None or anchor[1] <= most:
            kept.append(anchor)
            most = anchor[1]
    kept.reverse()
    return kept


def _blocks(rows: Sequence[BlockRow], sizes: Sequence[int]) -> list[CacheBlock]:
    none = CachePolicy.NONE
    return [
        CacheBlock(row.name, row.place, row.digest, size, none, row.kind)
        for row, size in zip(rows, sizes, strict=True)
    ]


def _with_marker(block: CacheBlock, marker: CachePolicy) -> CacheBlock:
    return CacheBlock(block.name, block.place, block.digest, block.tokens, marker, block.kind)
