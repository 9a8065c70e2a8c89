"""A fact that changed, in one sentence; and as much of its values as a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from cortex_replay.behaviour.kinds import Kind
from cortex_replay.behaviour.values import Nothing, Value
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.mcp.wording import describe_rewording, quote_short

__all__ = ["excerpts", "tell"]

_LONGEST: Final = 1000
_CONTEXT: Final = 40
_LONGEST_TOLD: Final = 16_384
"""Of texts whose words are compared."""
_MOST_WHOLE: Final = 4096
_LONG: Final = 60
"""Of longer texts, only the words are told that changed."""


class _Sentences(NamedTuple):
    """How a change of a kind of fact is told: one that is new, one that is gone, one that became another."""

    new: str
    gone: str
    other: str = ""


_NO_LONGER: Final = "{place} is no longer called"
_SENTENCES: Final[Mapping[Kind, _Sentences]] = {
    Kind.ERROR: _Sentences(
        "an error instead of an answer: {after}",
        "an answer instead of an error: {before}",
        "another error: {before} became {after}",
    ),
    Kind.REFUSAL: _Sentences("the model refuses to answer", "the model no longer refuses to answer"),
    Kind.SCHEMA: _Sentences(
        "the output breaks its schema: {at}{after}",
        "the output fits its schema again: {at}{before} no longer holds",
        "the output breaks its schema otherwise: {at}{after}",
    ),
    Kind.INVALID_ARGUMENT: _Sentences(
        "{place}: {after}", "{place} fits its schema again: {before} no longer holds", "{place}: {after}"
    ),
    Kind.UNKNOWN_TOOL: _Sentences("{place} is called, and was not offered", _NO_LONGER),
    Kind.TOOL: _Sentences("{place} is called, and was not before", _NO_LONGER),
    Kind.CALL: _Sentences("{place} is one more call", _NO_LONGER),
    Kind.ORDER: _Sentences("", "", "the order of the calls: {before} became {after}"),
    Kind.FORMAT: _Sentences("", "", "the same JSON, written otherwise"),
    Kind.FINISH_REASON: _Sentences("", "", "finish reason: {before} became {after}"),
}


def tell(kind: Kind, place: str, before: Value, after: Value) -> str:
    """What became of a fact, in a sentence without a full stop. It quotes recorded texts."""
    if (sentences := _SENTENCES.get(kind)) is None:
        if kind in (Kind.TEXT, Kind.REASONING):
            return f"{kind.value}: {_rewording(before, after)}"
        return f"{place or kind.value}{_became(before, after)}"
    is_new, is_gone = before is Nothing.ABSENT, after is Nothing.ABSENT
    sentence = sentences.new if is_new else sentences.gone if is_gone else sentences.other
    return sentence.format(place=place, at=f"{place}: " if place else "", before=before, after=after)


def _became(before: Value, after: Value) -> str:
    if before is Nothing.ABSENT:
        return f" is new: {_short(after)}"
    if after is Nothing.ABSENT:
        return f" is gone; it was {_short(before)}"
    if isinstance(before, list) and isinstance(after, list) and len(before) != len(after):
        return f": {len(before)} item{'' if len(before) == 1 else 's'} became {len(after)}"
    is_long = isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _LONG
    return f": {_rewording(before, after)}" if is_long else f": {_short(before)} became {_short(after)}"


def _short(value: Value) -> str:
    if value is None:
        return "null"
    return "nothing" if isinstance(value, Nothing) else quote_short(value)


def _rewording(before: Value, after: Value) -> str:
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _LONGEST_TOLD:
        return f"differs, {len(before):,} characters became {len(after):,}"
    plain = (None if isinstance(value, Nothing) else value for value in (before, after))
    return describe_rewording(*plain)


def excerpts(before: Value, after: Value) -> tuple[JsonValue, JsonValue]:
    """Two values, without what is too long to be read: of a long text, where it begins to differ."""
    was, now = _plain(before), _plain(after)
    if isinstance(was, str) and isinstance(now, str):
        start = max(0, _first_difference(was, now) - _CONTEXT)
        return _cut(was, start), _cut(now, start)
    return _cut(was, 0), _cut(now, 0)


def _plain(value: Value) -> JsonValue:
    """A value; an object or a list that is too long, as text."""
    if isinstance(value, Nothing):
        return None
    if isinstance(value, dict | list) and len(text := compact(value)) > _MOST_WHOLE:
        return text
    return value


def _cut(value: JsonValue, start: int) -> JsonValue:
    if not isinstance(value, str) or len(value) <= _LONGEST:
        return value
    end = start + _LONGEST
    return f"{'…' if start else ''}{value[start:end]}{'…' if end < len(value) else ''}"


def _first_difference(one: str, other: str) -> int:
    """How many characters two texts have in common at their start, in few steps."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
