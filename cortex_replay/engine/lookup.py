"""What a request is looked up by, and how what is found is made into an answer of today."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakKeyDictionary

from cortex_replay.bindings import NOWHERE, Binder, Bound, Filling
from cortex_replay.bindings.binder import Binding
from cortex_replay.bindings.placeholders import ESCAPE, marks_in, name_of
from cortex_replay.bindings.programs import PROGRAMS
from cortex_replay.bindings.requests import rewrite_request
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.bound_answers import fill_answer, fill_wire
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import bindings_in
from cortex_replay.types import LlmRequest

__all__ = [
    "LookUp",
    "binder_of_known",
    "binder_of_nowhere",
    "fill_exchange",
    "look_up",
    "names_in_request",
]

Change = Callable[[str], str]
_KNOWN: Final[WeakKeyDictionary[Binder, Binder]] = WeakKeyDictionary()
"""What :func:`binder_of_known` has made."""


@dataclass(slots=True, eq=False)
class LookUp:
    """The key of a request, and what is bound in it."""

    key: FixtureKey
    binder: Binder | None = None
    """What binds values in it. ``None`` where nothing is bound, as in a live call."""
    binding: Binding | None = None
    """What it has bound."""
    is_plain: bool = False
    """Whether the key is that of the request as it is: it was recorded without bindings."""
    change: Change | None = None
    """What is done with each text of the request before it is bound."""
    other: LookUp | None = None
    """What found it before, where its own key did not."""
    _filling: Filling | None = field(default=None, repr=False)

    @property
    def filling(self) -> Filling:
        """What placeholders in its answer stand for."""
        if self._filling is None:
            self._filling = Filling({}) if self.binding is None else self.binding.filling
        return self._filling

    def bind(self, request: LlmRequest) -> Bound | None:
        """A request, normalised, as it is hashed and stored; ``None`` where it is stored as it is."""
        if self.binder is None or self.is_plain:
            return None
        return self.binder.bind(request if self.change is None else rewrite_request(request, self.change))

    def bind_origin(self, origin: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """What is said of who answered, without what is known of this place: a server may be its own."""
        if self.binder is None or self.is_plain:
            return origin
        bound, _ = binder_of_known(self.binder).bind_value(dict(origin))
        return bound if isinstance(bound, dict) else origin

    def fill_with(self, filling: Filling) -> None:
        """Let placeholders stand for other values."""
        self._filling = filling

    def fills(self, meta: Mapping[str, JsonValue] | None) -> bool:
        """Whether what is recorded gets values of today; else all who ask get the same.

        Args:
            meta: Of the recording.
        """
        return bool(bindings_in(meta))

    def fill(self, outcome: Outcome, meta: Mapping[str, JsonValue] | None) -> Outcome:
        """A recorded outcome with the values of today.

        Args:
            outcome: As it is stored.
            meta: Of the recording, for an answer that has none of its own.
        """
        if isinstance(outcome, Answer):
            return self.fill_answer(outcome, meta)
        return self.fill_failure(outcome)

    def fill_failure(self, failure: Exchange) -> Exchange:
        """The same for what is a failure."""
        return fill_exchange(failure, self.filling)

    def fill_answer(self, answer: Answer, meta: Mapping[str, JsonValue] | None) -> Answer:
        """The same for what is an answer."""
        names = bindings_in(meta if answer.meta is None else answer.meta)
        return fill_answer(answer, self.filling, names, self.key.model) if names else answer


def fill_exchange(exchange: Exchange, filling: Filling) -> Exchange:
    """A recorded exchange with the values of today, in all that was answered."""
    names = bindings_in(exchange.meta)
    if not names:
        return exchange
    wire, *then = (fill_wire(wire, filling, names) for wire in exchange.wires)
    return replace(exchange, wire=wire, then=tuple(then))


def look_up(store: Store, binder: Binder, request: LlmRequest, change: Change | None = None) -> LookUp:
    """What a request is looked up by, with the values that a binder knows.

    Args:
        store: Whose rules make the key.
        binder: What binds values.
        request: What is asked.
        change: What is done with each of its texts before.
    """
    normal = store.normalise(request)[0]
    bound = binder.bind(normal if change is None else rewrite_request(normal, change))
    key = FixtureKey(request.model, bound.request.prompt_hash())
    return LookUp(key, binder, bound.binding, change=change)


def binder_of_nowhere(store: Store) -> Binder:
    """What binds values of recordings of which nobody knows where they were made."""
    return Binder(store.key_rules.bindings, NOWHERE)


def binder_of_known(binder: Binder) -> Binder:
    """What binds what a binder knows of the run, and nothing by its shape or place."""
    found = _KNOWN.get(binder)
    if found is None:
        found = _KNOWN[binder] = Binder(
            replace(binder.rules, off=(*binder.rules.off, PROGRAMS), shapes=(), rules=()), binder.surroundings
        )
    return found


def names_in_request(request: JsonValue, meta: Mapping[str, JsonValue] | None) -> set[str]:
    """The bindings that stand in a stored request, by what its recording says of itself."""
    names = bindings_in(meta)
    marks = (mark for _, _, mark in marks_in(compact(request))) if names else ()
    return {name for mark in marks if (name := ESCAPE if mark.is_escaped else name_of(mark.token)) in names}
