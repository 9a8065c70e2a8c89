"""A recorded command runs again, and what is volatile in its calls is learned from it.

A call that is not found is held against the recording that stands at its place of the asker. If all that
differs is noise, the rules for it hold from now on, and the call is answered from that recording, just as it
will be once the store is rekeyed. Anything else is a departure: nothing is learned any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Final

from cortex_replay.bindings import NOWHERE, Binder, BindingRules, PlaceRule
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchange_lookup import ExchangeLookUp, is_bound_by_rules, look_up_exchange
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.engine.learned_lookups import LearnedExchangeLookUp, LearnedLookUp
from cortex_replay.engine.learner import Asker
from cortex_replay.engine.lookup import LookUp
from cortex_replay.engine.rule_renewal import RuleRenewal
from cortex_replay.errors import LlmError
from cortex_replay.misses.nearest import nearest_fixture
from cortex_replay.misses.rules import Change, Lesson, compare, compare_calls, fewest, with_rules
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Fixture, FixtureKey
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import bindings_in
from cortex_replay.types import LlmRequest

if TYPE_CHECKING:
    pass

__all__ = ["Departure", "Learner", "Step"]

_MOST_TRIED: Final = 12
"""Recordings that a call is held against: those around its place, since some calls are made at once."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call that was answered."""

    number: int
    path: str
    """Of its recording."""
    rules: tuple[PlaceRule, ...] = ()
    """Those that it took; most take none."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A call that is not what was recorded."""

    number: int
    path: str = ""
    """The recording that it was held against, if there was one."""
    changes: tuple[Change, ...] = ()
    explanation: str = ""
    """Of a call that could not be compared."""


@dataclass(frozen=True, slots=True)
class _Recording:
    path: str
    fixture: Fixture

    @property
    def key(self) -> FixtureKey:
        return self.fixture.key

    @property
    def call(self) -> int | None:
        """Which call of its scope it answered when it was recorded."""
        number = (self.fixture.meta or {}).get("call")
        return number if isinstance(number, int) else None


class Learner:
    """Makes rules while a command is replayed.

    Args:
        tell: Is told each call that was answered.
        stop: Is called at the first departure: the command is to end.
        today: For what a rule says of itself.
    """

    def __init__(self, tell: Callable[[Step], None], stop: Callable[[], None], today: date) -> None:
        self.rules: tuple[PlaceRule, ...] = ()
        self.departure: Departure | None = None
        self.steps: list[Step] = []
        self._tell = tell
        self._stop = stop
        self._today = today
        self._lock = threading.RLock()
        self._new: dict[FixtureKey | str, tuple[PlaceRule, ...]] = {}
        self._used: set[tuple[str, FixtureKey | str]] = set()
        self._recordings: dict[tuple[str, str], list[_Recording]] = {}
        self._by_key: tuple[tuple[PlaceRule, ...], dict[tuple[str, str], dict[FixtureKey, _Recording]]] = (
            (),
            {},
        )

    def look_up(self, asker: Asker, request: LlmRequest) -> LookUp | None:
        """What finds the recording of a call that was not found by its key; ``None`` where it departs."""
        with self._lock:
            if self.departure is not None:
                return None
            asked = asker.store.normalise(request)[0]
            found = self._find(asker, asked)
            if found is None:
                found = self._learn(asker, asked)
            return None if found is None else self._look_up(asker, asked, found)

    def look_up_call(self, asker: Asker, look: ExchangeLookUp) -> ExchangeLookUp | None:
        """The same for a call that is recorded as it is. Whether it departs, its miss tells."""
        with self._lock:
            if self.departure is not None or look.binder is None or not is_bound_by_rules(look.asked):
                return None
            here, nowhere = self._binders(asker)
            for path, exchange in self._exchanges_like(asker, look):
                names = bindings_in(exchange.meta)
                asked = {**look.request, "body": look.asked["body"]}
                lesson = compare_calls(exchange.request or {}, asked, here if names else nowhere, names)
                lesson = _without_secrets(lesson, asked, asker.redactor)
                if not lesson.changes:
                    self._take(exchange.key or path, lesson.rules)
                    return self._call_look_up(asker, look, exchange)
            return None

    def serve(self, asker: Asker, key: FixtureKey | str) -> None:
        """A call was answered."""
        with self._lock:
            rules = self._new.pop(key, ())
            path = ""
            self._used.add((asker.owner, key))
            if isinstance(key, FixtureKey):
                path = (
                    asker.store.path(*key, asker.owner) if asker.store.has_fixture(*key, asker.owner) else ""
                )
            step = Step(len(self.steps) + 1, path, rules)
            self.steps.append(step)
        self._tell(step)

    def miss(self, explanation: str) -> None:
        """A call has no answer, for whatever reason."""
        with self._lock:
            if self.departure is None:
                self._depart(Departure(len(self.steps) + 1, explanation=explanation))

    def _depart(self, departure: Departure) -> None:
        self.departure = departure
        self._stop()

    def _rules(self, asker: Asker) -> BindingRules:
        rules = asker.store.key_rules.bindings
        return replace(rules, rules=(*rules.rules, *self.rules))

    def _find(self, asker: Asker, asked: LlmRequest) -> _Recording | None:
        """The recording that a call has by the rules that were learned so far."""
        place = (asker.owner, asked.model)
        if self._by_key[0] != self.rules:
            self._by_key = (self.rules, {})
        by_key = self._by_key[1].get(place)
        if by_key is None:
            renewal = RuleRenewal(replace(asker.store.key_rules, bindings=self._rules(asker)))
            recordings = self._recordings_of(asker, asked.model)
            by_key = {renewal.fixture(one.fixture).key: one for one in reversed(recordings)}
            self._by_key[1][place] = by_key
        for binder in self._binders(asker):
            found = by_key.get(FixtureKey(asked.model, binder.bind(asked).request.prompt_hash()))
            if found is not None:
                return found
        return None

    def _binders(self, asker: Asker) -> Iterator[Binder]:
        """Here, and nowhere: what was recorded without bindings has the values of then in it."""
        yield with_rules(asker.binder, self.rules)
        yield Binder(self._rules(asker), NOWHERE)

    def _learn(self, asker: Asker, asked: LlmRequest) -> _Recording | None:
        """The recording at the place of a call, and the rules under which it is the same."""
        here, nowhere = self._binders(asker)
        best: tuple[_Recording, Lesson] | None = None
        for one in self._candidates(asker, asked):
            if one.fixture.request is None:
                continue
            names = bindings_in(one.fixture.meta)
            lesson = compare(one.fixture.request, asked, here if names else nowhere, names)
            if lesson.changes and not names:  # perhaps nothing in it was known, or all was too common
                lesson = compare(one.fixture.request, asked, here)
            lesson = _without_secrets(lesson, asked.to_dict(), asker.redactor)
            if not lesson.changes:
                self._take(one.key, lesson.rules)
                return one
            if best is None or len(lesson.changes) < len(best[1].changes):
                best = one, lesson
        number = len(self.steps) + 1
        if best is not None:
            self._depart(Departure(number, best[0].path, best[1].changes))
        return None

    def _take(self, key: FixtureKey | str, rules: Sequence[PlaceRule]) -> None:
        where = f"call {len(self.steps) + 1}"
        dated = tuple(
            replace(rule, learned=f"{where}, {rule.learned}, {self._today.isoformat()}") for rule in rules
        )
        self._new[key] = dated
        self.rules = fewest((*self.rules, *dated))

    def _look_up(self, asker: Asker, asked: LlmRequest, found: _Recording) -> LearnedLookUp:
        renewal = RuleRenewal(replace(asker.store.key_rules, bindings=self._rules(asker)))
        here = next(self._binders(asker))
        request = found.fixture.request
        recorded = None if request is None else renewal.bind(request, found.fixture.meta)
        return LearnedLookUp(
            found.key,
            here,
            here.bind(asked).binding,
            renewal=renewal,
            recorded=recorded,
            fixture=found.fixture,
        )

    def _exchanges_like(self, asker: Asker, look: ExchangeLookUp) -> Iterator[tuple[str, Exchange]]:
        """The recorded calls with the method and place of one: those first that were not asked for yet."""
        keys = asker.store.exchange_keys(asker.owner)
        tried = 0
        for key in sorted(keys, key=lambda key: (asker.owner, key) in self._used):
            exchange = asker.store.exchange(key, asker.owner)
            if exchange is None or exchange.request is None or opaque_key(exchange.request) != key:
                continue
            if all(exchange.request[name] == look.request[name] for name in ("upstream", "method", "path")):
                yield keys[key], exchange
                tried += 1
                if tried == _MOST_TRIED:
                    return

    def _call_look_up(self, asker: Asker, look: ExchangeLookUp, exchange: Exchange) -> LearnedExchangeLookUp:
        renewal = RuleRenewal(replace(asker.store.key_rules, bindings=self._rules(asker)))
        filling = look_up_exchange(next(self._binders(asker)), look.asked).filling
        found = LearnedExchangeLookUp(
            exchange.key or "", look.asked, look.binder, look.request, look.names, renewal=renewal
        )
        found.fill_with(filling)
        return found

    def _candidates(self, asker: Asker, asked: LlmRequest) -> list[_Recording]:
        """The recordings that a call may be, the likeliest first: the next that were not asked for yet."""
        free = [
            one for one in self._recordings_of(asker, asked.model) if (asker.owner, one.key) not in self._used
        ]
        placed = sorted((one for one in free if one.call is not None), key=lambda one: one.call or 0)
        other = [one for one in free if one.call is None]
        if other:
            bound = next(self._binders(asker)).bind(asked).request
            plain = asker.redactor.json(bound.to_dict())[0]
            nearest = nearest_fixture(asker.store, bound, plain=plain)
            other.sort(key=lambda one: nearest is None or one.path != nearest.path)
        return [*placed, *other][:_MOST_TRIED]

    def _recordings_of(self, asker: Asker, model: str) -> list[_Recording]:
        """What a scope may be answered with, of one model: its own, and what is shared."""
        place = (asker.owner, model)
        if place not in self._recordings:
            found: dict[FixtureKey, _Recording] = {}
            for stored in asker.store.list(scoped=True):
                if stored.model != model or stored.scope not in ("", asker.owner):
                    continue
                try:
                    fixture = asker.store.get(stored.model, stored.prompt_hash, asker.owner)
                except LlmError:  # what is wrong with it is told when it is asked for
                    continue
                if fixture.request is not None and not fixture.is_request_redacted:
                    path = asker.store.path(stored.model, stored.prompt_hash, asker.owner)
                    found[fixture.key] = _Recording(path, fixture)
            self._recordings[place] = list(found.values())
        return self._recordings[place]


def _without_secrets(lesson: Lesson, asked: JsonValue, redactor: Redactor) -> Lesson:
    """Rules quote a prompt, and go to a file that is shared: what they quote must not be a piece of a secret.

    So the whole request is redacted, and the words must still be there.
    """
    clean, hits = redactor.json(asked) if lesson.rules else (None, [])
    if not hits:
        return lesson
    texts = list(_texts_in(clean))
    why = "the text beside it holds a secret, which must not be in a rule"
    for rule in lesson.rules:
        if not all(any(words in text for text in texts) for words in (rule.before, rule.after)):
            return Lesson(changes=(Change.of(rule.learned, why),))
    return lesson


def _texts_in(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(item)
