"""The prompts that a cache has seen, as a tree of blocks: two prompts share what stands before they part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cortex_replay.prompt.breakpoints import Place
from cortex_replay.prompt.cache.calls import CacheCall, Why

__all__ = ["PromptPath", "PromptPaths"]

_PLACES: Final = tuple(Place)
_Opening = tuple[str, ...] | None
"""What has to be equal, beside the block, for the first block of a place to be found."""
_Step = tuple[str, _Opening]


class PromptPath(NamedTuple):
    """The way of one call through the tree."""

    nodes: list[int]
    """The prefix that ends with each of its blocks."""
    known: int
    """How many blocks, from the start, an earlier call of this model shares."""
    split: Why | None
    """Why the next one was not there: ``changed``, ``settings``, or nothing if the call only goes on."""
    elsewhere: list[int]
    """The prefixes that it would have had in the cache of another model, if this one had none of them."""


class PromptPaths:
    """Gives every prefix a number, which stands for the model, the settings and all blocks up to it."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, str, _Opening], int] = {}
        self._followers: dict[int, str] = {}
        """The name of the block that came behind a prefix last, where that was new."""
        self._openings: set[tuple[int, str]] = set()
        """The first blocks of places, whatever their settings."""
        self._models: dict[_Step, str] = {}
        """Which model's calls began with a block."""
        self._last: tuple[CacheCall, list[int]] | None = None
        """The call before and its prefixes: the next one mostly goes on from it."""

    def walk(self, call: CacheCall) -> PromptPath:
        """The way of a call; later calls know it, too."""
        root = self._root(call.model)
        nodes = self._known(root, call)
        known = len(nodes)
        split: Why | None = None
        elsewhere: list[int] = []
        if known < len(call.blocks):
            node = nodes[-1] if nodes else root
            steps = list(_steps(call, known))
            split = self._split(node, steps[0], call.blocks[known].name, is_first=not known)
            if not known:
                elsewhere = self._elsewhere(steps)
                self._models[steps[0]] = call.model
            self._extend(node, steps, call, nodes)
        self._last = call, nodes
        return PromptPath(nodes, known, split, elsewhere)

    def _known(self, node: int, call: CacheCall) -> list[int]:
        """The prefixes of a call that are known: its steps, without writing them down, since most are."""
        find = self._nodes.get
        nodes = self._shared_with_last(call)
        shared = len(nodes)
        last: Place | None = None
        if nodes:
            node, last = nodes[-1], call.blocks[shared - 1].place
        for block in call.blocks[shared:]:
            place = block.place
            opening = None if place is last else _opening(call, last, place)
            following = find((node, block.digest, opening))
            if following is None:
                break
            nodes.append(node := following)
            last = place
        return nodes

    def _shared_with_last(self, call: CacheCall) -> list[int]:
        if self._last is None:
            return []
        before, nodes = self._last
        if before.model != call.model or before.settings != call.settings:
            return []
        shared = 0
        for old, new in zip(before.blocks, call.blocks, strict=False):
            if old is not new and (old.digest != new.digest or old.place is not new.place):
                break
            shared += 1
        return nodes[:shared]

    def _root(self, model: str) -> int:
        return self._nodes.setdefault((0, model, None), len(self._nodes) + 1)

    def _follow(self, node: int, steps: Sequence[_Step]) -> list[int]:
        find = self._nodes.get
        nodes: list[int] = []
        for digest, opening in steps:
            following = find((node, digest, opening))
            if following is None:
                break
            nodes.append(node := following)
        return nodes

    def _extend(self, node: int, steps: Sequence[_Step], call: CacheCall, nodes: list[int]) -> None:
        """Note the steps behind what is known."""
        known = len(nodes)
        for i, (digest, opening) in enumerate(steps, start=known):
            self._followers[node] = call.blocks[i].name
            if opening is not None:
                self._openings.add((node, digest))
            following = len(self._nodes) + 1
            self._nodes[node, digest, opening] = following
            nodes.append(node := following)

    def _split(self, node: int, step: _Step, name: str, *, is_first: bool) -> Why | None:
        if step[1] is not None and (node, step[0]) in self._openings:
            return "settings"
        follower = self._followers.get(node)
        # Where nothing is shared, a block of another name begins another prompt and is no change of this one.
        return None if follower is None or (is_first and follower != name) else "changed"

    def _elsewhere(self, steps: Sequence[_Step]) -> list[int]:
        model = self._models.get(steps[0])
        return [] if model is None else self._follow(self._root(model), steps)


def _steps(call: CacheCall, start: int) -> Iterator[_Step]:
    """Its blocks from one on, as the tree tells them apart."""
    last = call.blocks[start - 1].place if start else None
    for block in call.blocks[start:]:
        place = block.place
        yield block.digest, None if place is last else _opening(call, last, place)
        last = place


def _opening(call: CacheCall, last: Place | None, place: Place) -> tuple[str, ...]:
    """What has to be equal for the first block of a place: the settings of all places since the last."""
    first = 0 if last is None else last + 1
    return tuple(call.settings.get(_PLACES[entered], "") for entered in range(first, place + 1))
