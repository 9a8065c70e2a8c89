"""Which question takes the place of which, by what the two have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from heapq import nlargest
from typing import Final, NamedTuple, Protocol

from cortex_replay.store.index.index import Row

__all__ = ["Asked", "Pair", "pair_questions"]

_COMPARED: Final = 1000
_LOOKED_AT: Final = 250
"""Characters of a question that are held against those of another."""
_MOST_NEAR: Final = 3
_MOST_PAIRS: Final = 40_000
_ALIKE: Final = 0.6


class Asked(Protocol):
    """What is looked at of a recording."""

    @property
    def row(self) -> Row: ...
    @property
    def model(self) -> str | None: ...
    @property
    def asked(self) -> str: ...
    @property
    def turns(self) -> int: ...
    @property
    def tests(self) -> frozenset[str]: ...


class Pair(NamedTuple):
    """What takes a place."""

    old: int
    """The number of the recording that had it."""
    why: str
    """What the two have in common."""


def pair_questions(added: Sequence[Asked], removed: Sequence[Asked]) -> dict[int, Pair]:
    """Each addition, by its number, with the removed recording that it most likely takes the place of."""
    chosen: dict[int, Pair] = {}
    taken: set[int] = set()
    for find in (_equal_pairs, _alike_pairs):
        new = {i: one for i, one in enumerate(added) if one.asked and i not in chosen}
        old = {j: one for j, one in enumerate(removed) if j not in taken}
        for _, i, j, why in sorted(find(new, old), key=lambda pair: (-pair[0], pair[1], pair[2])):
            if i not in chosen and j not in taken:
                chosen[i] = Pair(j, why)
                taken.add(j)
    return chosen


_Pairs = Iterator[tuple[float, int, int, str]]
"""How likely each pair is, its numbers, and why."""


def _equal_pairs(added: Mapping[int, Asked], removed: Mapping[int, Asked]) -> _Pairs:
    """The same question, asked otherwise or of another model."""
    by_text: dict[str, list[int]] = {}
    for j, old in removed.items():
        by_text.setdefault(old.asked, []).append(j)
    for i, new in added.items():
        for j in by_text.get(new.asked, [])[:_COMPARED]:
            old = removed[j]
            if type(old.row) is not type(new.row):
                continue
            if new.model != old.model:
                yield 3, i, j, f"the same question to {old.model}"
            else:
                yield (4 if new.turns == old.turns else 3.5), i, j, "the same question, asked otherwise"


def _alike_pairs(added: Mapping[int, Asked], removed: Mapping[int, Asked]) -> _Pairs:
    """Questions much like each other, or of the same test. Only the most promising are compared in full, and
    among very many none."""
    if len(added) * len(removed) > _MOST_PAIRS:
        return
    grams = {j: _grams(old.asked) for j, old in removed.items()}
    for i, new in added.items():
        mine = _grams(new.asked)
        same_sort = [j for j, old in removed.items() if type(old.row) is type(new.row)]
        near = nlargest(_MOST_NEAR, same_sort, key=lambda j: len(mine & grams[j]) / len(mine | grams[j]))
        for j in same_sort:
            old = removed[j]
            shared = bool(new.tests & old.tests)
            ratio = _ratio(new.asked, old.asked) if j in near else 0
            if ratio >= _ALIKE:
                yield 1 + ratio + shared / 10, i, j, "a question much like it"
            elif shared:
                yield 1, i, j, "recorded by the same test"


def _grams(text: str) -> frozenset[str]:
    """The pieces of three characters at the start of a text: those that are alike have many in common."""
    start = text[:_LOOKED_AT]
    return frozenset(start[at : at + 3] for at in range(max(1, len(start) - 2)))


def _ratio(new: str, old: str) -> float:
    matcher = SequenceMatcher(None, new[:_LOOKED_AT], old[:_LOOKED_AT], autojunk=False)
    is_hopeless = matcher.real_quick_ratio() < _ALIKE or matcher.quick_ratio() < _ALIKE
    return 0 if is_hopeless else matcher.ratio()
