"""Which tool call of one answer is which of another: one more call shifts no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cortex_replay.behaviour.values import identity
from cortex_replay.canonical import JsonValue
from cortex_replay.types import ToolCall

__all__ = ["Slot", "align_calls", "order_of"]

_MOST_PAIRS: Final = 4096
"""So many pairs of calls are looked at to find those most alike; beyond, calls are taken in order."""


class Slot(NamedTuple):
    """A call that several answers may make: a tool, and which of its calls."""

    name: str
    number: int

    @property
    def place(self) -> str:
        return f"{self.name} #{self.number}"


@dataclass(slots=True)
class _Known:
    """A slot, and the arguments that were seen in it."""

    slot: Slot
    arguments: JsonValue
    seen: set[object] = field(default_factory=set)


def align_calls(answers: Sequence[Sequence[ToolCall]]) -> list[dict[Slot, ToolCall]]:
    """The calls of each answer by their slot, in the order of the answer.

    Equal calls share a slot wherever they stand. The others of one name are put together in their order, the
    most alike first.
    """
    known: dict[str, list[_Known]] = {}
    return [_align(calls, known) for calls in answers]


def _align(calls: Sequence[ToolCall], known: dict[str, list[_Known]]) -> dict[Slot, ToolCall]:
    slots: list[Slot | None] = [None] * len(calls)
    by_name: dict[str, list[int]] = {}
    for at, call in enumerate(calls):
        by_name.setdefault(call.name, []).append(at)
    for name, places in by_name.items():
        of_name = known.setdefault(name, [])
        found = _match([calls[at].arguments for at in places], of_name)
        for at, match in zip(places, found, strict=True):
            arguments = calls[at].arguments
            there = match or _Known(Slot(name, len(of_name) + 1), arguments)
            if match is None:
                of_name.append(there)
            there.seen.add(identity(arguments))
            slots[at] = there.slot
    return {slot: call for slot, call in zip(slots, calls, strict=True) if slot is not None}


def _match(arguments: Sequence[JsonValue], known: Sequence[_Known]) -> list[_Known | None]:
    """For the calls of one name, what each is; ``None`` for one more."""
    equal: dict[object, list[_Known]] = {}
    for one in reversed(known):
        for seen in one.seen:
            equal.setdefault(seen, []).append(one)
    taken: set[int] = set()
    found: list[_Known | None] = []
    for value in arguments:
        alike = equal.get(identity(value), [])
        while alike and alike[-1].slot.number in taken:
            alike.pop()
        found.append(alike.pop() if alike else None)
        if (there := found[-1]) is not None:
            taken.add(there.slot.number)
    free = [one for one in known if one.slot.number not in taken]
    left = [at for at, there in enumerate(found) if there is None]
    for new, old in _pairs([arguments[at] for at in left], [one.arguments for one in free]):
        found[left[new]] = free[old]
    return found


def _pairs(new: Sequence[JsonValue], old: Sequence[JsonValue]) -> list[tuple[int, int]]:
    """Pairs in the order of both sides, as many and as much alike as possible."""
    if len(new) * len(old) > _MOST_PAIRS:
        return list(zip(range(len(new)), range(len(old)), strict=False))
    best = [[0.0] * (len(old) + 1)]
    others = [_features(value) for value in old]
    for value in map(_features, new):
        row = [0.0]
        for j, other in enumerate(others):
            row.append(max(best[-1][j + 1], row[j], best[-1][j] + 1 + _likeness(value, other)))
        best.append(row)
    pairs: list[tuple[int, int]] = []
    i, j = len(new), len(old)
    while i and j:
        if best[i][j] == best[i - 1][j]:
            i -= 1
        elif best[i][j] == best[i][j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    return pairs[::-1]


def _features(arguments: JsonValue) -> dict[str, object]:
    fields = arguments if isinstance(arguments, dict) else {"": arguments}
    return {name: identity(value) for name, value in fields.items()}


def _likeness(one: dict[str, object], other: dict[str, object]) -> float:
    """The share of fields that are equal."""
    names = one.keys() | other.keys()
    shared = sum(name in one and name in other and one[name] == other[name] for name in names)
    return shared / len(names) if names else 1.0


def order_of(slots: Sequence[dict[Slot, ToolCall]]) -> list[list[Slot]]:
    """The order in which each answer makes the calls that all of them make."""
    common = set.intersection(*(set(one) for one in slots)) if slots else set()
    return [[slot for slot in one if slot in common] for one in slots]
