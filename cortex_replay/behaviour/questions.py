"""One question, and what its calls got, one after the other: answers, and errors in their places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from cortex_replay.behaviour.compare import by_importance, compare_answers
from cortex_replay.behaviour.differences import Difference
from cortex_replay.behaviour.facts import Said
from cortex_replay.behaviour.kinds import TIERS, Kind
from cortex_replay.behaviour.values import Clean, clean_value, place_of, varying
from cortex_replay.behaviour.wording import excerpts, tell
from cortex_replay.canonical import JsonValue
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import Fixture, FixtureKey
from cortex_replay.store.review import Recording
from cortex_replay.types import LlmRequest

__all__ = ["Question", "compare_questions"]

_PARTS: Final = {
    "system": "the system text",
    "messages": "the messages",
    "tools": "the tools",
    "json_schema": "the schema of the output",
    "model": "the model",
}
_SHOWN: Final = ("model", "system")
"""What a reader is shown of it; of the rest, the question itself."""


@dataclass(frozen=True, slots=True)
class Question:
    """A key of one side of a store, with all recordings under it that changed."""

    recordings: tuple[Recording, ...]

    @property
    def first(self) -> Recording:
        """The one that says what was asked: the fixture, if there is one."""
        return next((one for one in self.recordings if isinstance(one.said, Fixture)), self.recordings[0])

    @property
    def request(self) -> LlmRequest | None:
        return self.first.request

    @property
    def hash(self) -> FixtureKey | None:
        """What the question is found by."""
        said = self.first.said
        return said.key if isinstance(said, Fixture) else None

    @property
    def is_readable(self) -> bool:
        return all(one.said is not None for one in self.recordings)

    @property
    def answers(self) -> list[tuple[int, Said]]:
        """What each call got, by its number from 1. A failure says which it was; answers fill the others."""
        failures: dict[int, Said] = {}
        answers: list[Said] = []
        for one in self.recordings:
            if isinstance(one.said, Exchange):
                if one.said.n is None:
                    answers += one.said.wires
                else:
                    failures[one.said.n] = one.said.wire
            elif one.said is not None:
                answers += one.said.answers
        found = list(failures.items())
        number = 0
        for answer in answers:
            number += 1
            while number in failures:
                number += 1
            found.append((number, answer))
        return sorted(found, key=lambda pair: pair[0])

    @property
    def body(self) -> JsonValue:
        """What an exchange asked."""
        said = self.first.said
        return (said.request or {}).get("body") if isinstance(said, Exchange) else None


def compare_questions(before: Question, after: Question, clean: Clean) -> list[Difference]:
    """What differs between two recordings of a question, or of one and the question that takes its place.

    Args:
        before: The recordings of then.
        after: The recordings of now.
        clean: What cuts secrets out of texts.
    """
    if not before.is_readable or not after.is_readable:
        side = "before" if not before.is_readable else "now"
        text = f"what was recorded {side} cannot be trusted, so nothing can be said"
        return [Difference(TIERS[Kind.UNREADABLE], Kind.UNREADABLE.value, "", None, None, text)]
    return by_importance([*_answers(before, after, clean), *_asked(before, after, clean)])


def _answers(before: Question, after: Question, clean: Clean) -> Iterator[Difference]:
    old, new = dict(before.answers), dict(after.answers)
    numbers = sorted(old.keys() | new.keys())
    for number in numbers:
        place = f"answer {number}" if len(numbers) > 1 else ""
        if number in old and number in new:
            found = compare_answers(old[number], new[number], after.request, before.request, clean=clean)
            yield from (_within(place, one) for one in found)
        else:
            is_new = number in new
            text = f"{place or 'the answer'} is {'new' if is_new else 'gone'}"
            yield Difference(
                TIERS[Kind.CALL], Kind.CALL.value, place, not is_new or None, is_new or None, text
            )


def _within(place: str, one: Difference) -> Difference:
    if not place:
        return one
    return replace(one, place=f"{place} {one.place}".rstrip(), text=f"{place}: {one.text}")


def _asked(before: Question, after: Question, clean: Clean) -> Iterator[Difference]:
    """What the program asks otherwise. What a tool is asked is behaviour; how a prompt is put is words."""
    for path, found in varying([before.body, after.body]):
        place, values = place_of(path), [clean_value(value, clean) for value in found]
        text = tell(Kind.ARGUMENT, place, *values)
        yield Difference(TIERS[Kind.ARGUMENT], Kind.ARGUMENT.value, place, *excerpts(*values), text)
    if before.request is None or after.request is None or before.hash == after.hash:
        return  # what one key stands for, such as the ids of calls, is one question
    old, new = ({"model": one.model, **one.to_dict()} for one in (before.request, after.request))
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if changed:
        text = f"the program asks otherwise: {', '.join(_PARTS.get(name, name) for name in changed)}"
        is_short = changed[0] in _SHOWN
        was = old[changed[0]] if is_short else before.first.asked
        now = new[changed[0]] if is_short else after.first.asked
        yield Difference(
            TIERS[Kind.QUESTION],
            Kind.QUESTION.value,
            "",
            *excerpts(clean_value(was, clean), clean_value(now, clean)),
            text,
        )
