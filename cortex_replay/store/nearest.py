"""Which recording comes nearest to a request that has none, and where the two differ."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cortex_replay import canonical
from cortex_replay.canonical import JsonValue
from cortex_replay.errors import LlmError
from cortex_replay.store.store import Store
from cortex_replay.types import LlmRequest

__all__ = ["Difference", "Nearest", "differences", "nearest_fixture"]

_WORD: Final = re.compile(r"\w+")
_SHOWN: Final = 60
_BEFORE: Final = 16


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that is not what was recorded."""

    field: str
    recorded: str
    asked: str

    def __str__(self) -> str:
        return f"{self.field}: {self.recorded} was recorded, {self.asked} is asked"


@dataclass(frozen=True, slots=True)
class Nearest:
    """A recording, and what was asked for it."""

    path: str
    request: LlmRequest


def nearest_fixture(store: Store, request: LlmRequest, *, within_s: float = 0.1) -> Nearest | None:
    """The recording that is most like a request, of those that can be looked at in the time given.

    Those of the same model come first.
    """
    deadline = time.monotonic() + within_s
    asked = _features(request)
    best: tuple[float, Nearest] | None = None
    for stored in sorted(store.list(), key=lambda item: item.model != request.model):
        if time.monotonic() > deadline:
            break
        try:
            recorded = store.get(stored.model, stored.prompt_hash).request
        except LlmError:  # what is wrong with it is not the matter here
            continue
        if recorded is None:
            continue
        score = _likeness(asked, _features(recorded)) + (recorded.model == request.model)
        if best is None or score > best[0]:
            best = score, Nearest(stored.path, recorded)
    return None if best is None else best[1]


def differences(recorded: LlmRequest, asked: LlmRequest) -> Iterator[Difference]:
    """Every field in which two requests differ, in the order in which a model reads them."""
    before: dict[str, JsonValue] = {"model": recorded.model, **recorded.to_dict()}
    after: dict[str, JsonValue] = {"model": asked.model, **asked.to_dict()}
    order = dict.fromkeys(["model", "tools", "system", "messages", *before, *after])
    for name in order:
        if not _same(before.get(name), after.get(name)):
            yield from _within(name, before.get(name), after.get(name))


def _within(where: str, before: JsonValue, after: JsonValue) -> Iterator[Difference]:
    if isinstance(before, list) and isinstance(after, list):
        for i, (one, other) in enumerate(zip(before, after, strict=False)):
            if not _same(one, other):
                yield from _within(f"{where}[{i}]", one, other)
        for i in range(len(after), len(before)):
            yield Difference(f"{where}[{i}]", _shown(before[i]), "nothing")
        for i in range(len(before), len(after)):
            yield Difference(f"{where}[{i}]", "nothing", _shown(after[i]))
    elif isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            if not _same(before.get(name), after.get(name)) or (name in before) != (name in after):
                yield from _within(f"{where}.{name}", before.get(name), after.get(name))
    elif isinstance(before, str) and isinstance(after, str):
        start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
        start = min(len(before), len(after)) if start is None else start
        yield Difference(where, _excerpt(before, start), _excerpt(after, start))
    else:
        yield Difference(where, _shown(before), _shown(after))


def _same(before: JsonValue, after: JsonValue) -> bool:
    """As the key sees it: 1, 1.0 and true are three values."""
    return canonical.compact(before) == canonical.compact(after)


def _excerpt(text: str, start: int) -> str:
    """A text around the place where it differs."""
    begin = max(0, start - _BEFORE)
    piece = text[begin : begin + _SHOWN]
    return repr("…" * (begin > 0) + piece + "…" * (begin + _SHOWN < len(text)))


def _shown(value: JsonValue) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _features(request: LlmRequest) -> tuple[LlmRequest, list[frozenset[str]]]:
    texts = [request.system, *(message.content for message in request.messages)]
    return request, [frozenset(_WORD.findall(text[:4000])) for text in texts]


def _likeness(
    asked: tuple[LlmRequest, list[frozenset[str]]], recorded: tuple[LlmRequest, list[frozenset[str]]]
) -> float:
    """How much two requests have in common: from 0 to about 6."""
    (one, words), (other, other_words) = asked, recorded
    common = sum(_overlap(a, b) for a, b in zip(words, other_words, strict=False))
    likeness = 4 * common / max(len(words), len(other_words))
    for name in ("tools", "json_schema", "temperature", "max_tokens"):
        mine, theirs = getattr(one, name), getattr(other, name)
        likeness += 0.25 * (mine == theirs) + 0.25 * (bool(mine) == bool(theirs))
    return likeness


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    if not one and not other:
        return 1.0
    return len(one & other) / len(one | other)
