"""The rules under which a recorded request and one that missed are the same: what ``learn`` makes.

A rule is made of a difference only if one shape fits both sides of it, and if there is a word beside it to
know the place by. Then it is tried: with all rules, both requests must have one key. Since equal values share
a number and different ones do not, what was equal and now differs is a change, whatever its shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from cortex_replay.bindings import NOWHERE, Binder, Filling, PlaceRule, Surroundings
from cortex_replay.bindings.placeholders import CLOSE, OPEN
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.misses.differences import (
    Difference,
    Hunk,
    differences,
    hunks,
    plain_form,
)
from cortex_replay.misses.known_noise import known_noise_of
from cortex_replay.misses.noise import Noise, Place, noise_of
from cortex_replay.types import LlmRequest

__all__ = ["Change", "Lesson", "compare", "compare_calls", "covers", "fewest", "with_rules"]

Call = dict[str, JsonValue]
_MOST_ROUNDS: Final = 40
"""A round finds the first differences of each text; with these bound, the next one finds the next."""
_MOST_CONTEXT: Final = 40
_LONGEST: Final = 600
"""Of what is looked at on either side of a difference."""
_MOST_CHANGES: Final = 50
_VOLATILE: Final = re.compile(rf"[{OPEN}{CLOSE}]|(?<![^\W_])\d+(?:[.:]\d+)*")
"""What may be another one next time: what is bound, and a number that is no part of a name."""
_CLAUSE_START: Final = re.compile(r"""[^\s"'`]*[/\\][^\s"'`]*["'`]?\s*|[.:;,!?|>()\[\]{}-]+\s*""")
"""What a clause may begin behind: punctuation, or a path, which is somewhere else elsewhere."""
_TELLING: Final = re.compile(r"[^\W\d_]{3}|[^\W\d_]{2}\W{0,2}[:=#]")
"""A word, or an abbreviation with a colon behind it: enough to know a place by."""


@dataclass(frozen=True, slots=True)
class Change:
    """A difference that is not noise."""

    difference: Difference
    why: str
    rule: PlaceRule | None = None
    """What would make it noise, if a person says that it is."""

    @classmethod
    def of(cls, part: str, why: str) -> Change:
        """A change of which nothing is to be shown but where it is."""
        return cls(Difference(part, "…", "…"), why)

    def __str__(self) -> str:
        return f"{self.difference}\n    {self.why}"


@dataclass(frozen=True, slots=True)
class Lesson:
    """What was learned from a recorded request and one that was asked."""

    rules: tuple[PlaceRule, ...] = ()
    """Those that make them one."""
    changes: tuple[Change, ...] = ()
    """What stands against it."""


def compare(recorded: LlmRequest, asked: LlmRequest, binder: Binder, names: Collection[str] = ()) -> Lesson:
    """Tell noise from changes.

    Args:
        recorded: A request as it is stored.
        asked: One that was sent, normalised.
        binder: What binds its values, by the rules that hold already.
        names: The bindings that were applied when it was recorded.
    """
    if recorded.model != asked.model:
        return Lesson(changes=(Change(Difference("model", recorded.model, asked.model), "another model"),))

    def bind(binder: Binder) -> _Trial:
        # As rekey sees it: nobody knows where it was recorded.
        stored = Binder(binder.rules, NOWHERE).bind_stored(recorded, names).request
        bound = binder.bind(asked)
        is_same = stored.prompt_hash() == bound.request.prompt_hash()
        return _Trial(plain_form(stored), plain_form(bound.request), bound.filling, is_same)

    return _learn(binder, bind)


def compare_calls(recorded: Call, asked: Call, binder: Binder, names: Collection[str] = ()) -> Lesson:
    """The same for calls that are recorded as they are; a rule reaches their bodies.

    Args:
        recorded: A call as it is stored.
        asked: One that was sent, with what is known bound in its path and query.
        binder: What binds values of its body, by the rules that hold already.
        names: The bindings that were applied when it was recorded.
    """

    def bind(binder: Binder) -> _Trial:
        stored, _ = Binder(binder.rules, NOWHERE).bind_stored_value(recorded["body"], names)
        bound, binding = binder.bind_value(asked["body"])
        before, after = {**recorded, "body": stored}, {**asked, "body": bound}
        return _Trial(before, after, binding.filling, compact(before) == compact(after))

    return _learn(binder, bind)


class _Trial(NamedTuple):
    """Two requests, bound by some rules."""

    recorded: Mapping[str, JsonValue]
    asked: Mapping[str, JsonValue]
    filling: Filling
    is_same: bool


def _learn(binder: Binder, bind: Callable[[Binder], _Trial]) -> Lesson:
    """Add rules for what differs, until nothing does or one difference is no noise."""
    rules: tuple[PlaceRule, ...] = ()
    for _ in range(_MOST_ROUNDS):
        trial = bind(with_rules(binder, rules))
        if trial.is_same:
            return Lesson(fewest(rules))
        new: list[PlaceRule] = []
        changes: list[Change] = []
        for found in _findings(trial, binder.surroundings):
            if isinstance(found, Change):
                changes.append(found)
                if len(changes) >= _MOST_CHANGES:
                    return Lesson(changes=tuple(changes))
            elif not any(covers(rule, found) for rule in (*binder.rules.rules, *rules, *new)):
                new = [rule for rule in new if not covers(found, rule)] + [found]
        if changes and not new:  # with a rule more, a value that comes again may be no difference any more
            return Lesson(changes=tuple(changes))
        if not new:
            left = differences(trial.recorded, trial.asked)
            why = "each is a value of its kind, but not equal where they were equal, or the other way round"
            return Lesson(changes=tuple(Change(one, why) for one in left))
        rules = (*rules, *new)
    return Lesson(changes=(Change.of("request", "it differs in too many places"),))


def with_rules(binder: Binder, rules: Sequence[PlaceRule]) -> Binder:
    """A binder with further rules."""
    if not rules:
        return binder
    return Binder(replace(binder.rules, rules=(*binder.rules.rules, *rules)), binder.surroundings)


def covers(rule: PlaceRule, other: PlaceRule) -> bool:
    """Whether a rule finds all that another finds."""
    is_wider = other.before.endswith(rule.before) and other.after.startswith(rule.after)
    return rule.bind == other.bind and is_wider


def fewest(rules: Sequence[PlaceRule]) -> tuple[PlaceRule, ...]:
    """The rules without those that another covers."""
    kept: list[PlaceRule] = []
    for rule in rules:
        if not any(covers(other, rule) for other in kept):
            kept = [other for other in kept if not covers(rule, other)] + [rule]
    return tuple(kept)


def _findings(trial: _Trial, known: Surroundings) -> Iterator[PlaceRule | Change]:
    for difference in differences(trial.recorded, trial.asked):
        before, after = difference.recorded, difference.asked
        if isinstance(before, str) and isinstance(after, str):
            yield from _in_text(difference, before, after, trial.filling, known)
        else:
            yield Change(difference, _why_no_text(before, after))


def _why_no_text(before: object, after: object) -> str:
    numbers = (int, float)
    if isinstance(before, numbers) and isinstance(after, numbers):
        return "a number by itself, not one in a text: no rule reaches it"
    return "a part that is there on one side only, or of another kind"


def _in_text(
    difference: Difference, before: str, after: str, filling: Filling, known: Surroundings
) -> Iterator[PlaceRule | Change]:
    moved = 0
    covered = 0
    for hunk in hunks(before, after):
        start = hunk.start + moved
        moved += len(hunk.after) - len(hunk.before)
        if hunk.end <= covered and covered > hunk.start:
            continue  # a part of the value before
        for one, place, counterpart in _pieces(before, after, hunk, start, filling):
            found = known_noise_of(place, counterpart, known) or noise_of(place, counterpart)
            line = one.start - place.start
            yield _judge(difference, one, found, covered - line)
            if found is not None:
                covered = max(covered, line + found.recorded.end)


def _pieces(
    before: str, after: str, hunk: Hunk, start: int, filling: Filling
) -> Iterator[tuple[Hunk, Place, Place]]:
    """What differs, each on its line: as a whole, if that has a shape, else word by word."""
    if "\n" not in hunk.before and "\n" not in hunk.after:
        places = _places(before, after, hunk, start, filling)
        old, new = hunk.before.split(), hunk.after.split()
        if noise_of(*places) is not None or len(old) != len(new) or len(old) < 2:
            yield hunk, *places
            return
    old, new = re.split(r"(\s+)", hunk.before), re.split(r"(\s+)", hunk.after)
    if len(old) != len(new) or old[1::2] != new[1::2]:
        yield hunk, Place(hunk.before, 0, len(hunk.before)), Place(hunk.after, 0, len(hunk.after))
        return
    at, there = hunk.start, start
    for one, other in zip(old, new, strict=True):
        if one != other:
            piece = Hunk(one, other, at, at + len(one))
            yield piece, *_places(before, after, piece, there, filling)
        at, there = at + len(one), there + len(other)


def _places(before: str, after: str, hunk: Hunk, start: int, filling: Filling) -> tuple[Place, Place]:
    """The line of the recording, and the line that came, with its values in it."""
    end = start + len(hunk.after)
    top, bottom = _line(before, hunk.start, hunk.end)
    high, low = _line(after, start, end)
    names = tuple({re.split("[#:]", token)[0] for token in filling.values})
    left, value, right = (
        filling.text(text, names) for text in (after[high:start], after[start:end], after[end:low])
    )
    asked = Place(left + value + right, len(left), len(left) + len(value))
    return Place(before[top:bottom], hunk.start - top, hunk.end - top), asked


def _line(text: str, start: int, end: int) -> tuple[int, int]:
    """Where the line begins and ends that a part of a text stands on, as far as a value may reach."""
    top, bottom = max(0, start - _LONGEST), min(len(text), end + _LONGEST)
    stop = text.find("\n", end, bottom)
    above = text.rfind("\n", top, start)
    return top if above < 0 else above + 1, bottom if stop < 0 else stop


def _judge(difference: Difference, hunk: Hunk, noise: Noise | None, top: int) -> PlaceRule | Change:
    if noise is None:
        return Change(_shown(difference, hunk.before, hunk.after), "text, which is no value with a shape")
    old, new = noise.recorded, noise.asked
    before, after = _context(old, new, top)
    shown = _shown(difference, old.text, new.text)
    if not _TELLING.search(before) and not _TELLING.search(after):
        alone = f"a value of the shape {noise.name}, but no word beside it to know its place by"
        return Change(shown, noise.doubt or alone)
    if _TELLING.search(before):
        after = ""
    rule = PlaceRule(bind=noise.name, before=before, after=after, learned=difference.part)
    return Change(shown, noise.doubt, rule) if noise.doubt else rule


def _shown(difference: Difference, before: str, after: str) -> Difference:
    return Difference(difference.part, before, after)


def _context(recorded: Place, asked: Place, top: int) -> tuple[str, str]:
    """What stands on both sides of a value, in both runs, and is not volatile itself.

    Args:
        recorded: The value, as it is stored.
        asked: As it came.
        top: Where the value before it ends.
    """
    left = _common_end(recorded.line[max(0, top) : recorded.start], asked.line[: asked.start])
    at = recorded.start - len(left)
    left = _VOLATILE.split(left)[-1]
    if len(left) == recorded.start - at and at and recorded.line[at - 1].isalnum():
        left = re.sub(r"\A\w+", "", left)  # no half a word
    right = _common_end(recorded.line[recorded.end :][::-1], asked.line[asked.end :][::-1])[::-1]
    cut = _VOLATILE.split(right)[0]
    end = recorded.end + len(right)
    if cut == right and recorded.line[end : end + 1].isalnum():
        cut = re.sub(r"\w+\Z", "", cut)
    return _clause(left), cut


def _clause(text: str) -> str:
    """The end of a text from where it says enough: a whole sentence would make a rule for that one alone."""
    starts = [0, *(match.end() for match in _CLAUSE_START.finditer(text))]
    return next((text[at:] for at in reversed(starts) if _TELLING.search(text, at)), text).lstrip()


def _common_end(one: str, other: str) -> str:
    length = 0
    for a, b in zip(reversed(one[-_MOST_CONTEXT:]), reversed(other[-_MOST_CONTEXT:]), strict=False):
        if a != b:
            break
        length += 1
    return one[len(one) - length :]
