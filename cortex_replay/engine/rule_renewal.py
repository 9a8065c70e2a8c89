"""A recording as it would be stored by the rules of today.

Nobody knows any more where it was made, so known values cannot be found in it; those that were bound when it
was recorded stay bound. What rules find in its request is bound, and in its answers wherever it comes again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from cortex_replay.bindings import NOWHERE, Binder, Bound
from cortex_replay.canonical import JsonValue
from cortex_replay.config import KeyRules
from cortex_replay.engine.block_ends import move_noted_blocks
from cortex_replay.engine.bound_answers import bind_answer, bind_wire
from cortex_replay.engine.exchange_lookup import is_bound_by_rules
from cortex_replay.engine.http.opaque import opaque_key
from cortex_replay.store import Answer, Fixture, FixtureKey
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import bindings_in
from cortex_replay.types import LlmRequest

__all__ = ["RuleRenewal"]

Meta = dict[str, JsonValue]


class RuleRenewal:
    """Makes recordings anew by normalisers and rules for bindings.

    Args:
        rules: Those of the store.
    """

    def __init__(self, rules: KeyRules) -> None:
        self._rules = rules
        self._binder = Binder(rules.bindings, NOWHERE)

    def fixture(self, fixture: Fixture) -> Fixture:
        """The recording under its key of today."""
        if fixture.request is None:
            return fixture
        request, normalisers = self._rules.apply(fixture.request)
        bound = self.bind(request, fixture.meta)
        first, *then = (self.answer(answer, bound) for answer in fixture.answers)
        names = _names_of(bound, fixture.meta)
        meta = _with(fixture.meta, "bindings", names) if names else fixture.meta
        if normalisers:
            meta = _with(meta, "normalisers", normalisers)
        key = FixtureKey(bound.request.model, bound.request.prompt_hash())
        answers = (first, *(replace(one, meta=self._move_blocks(fixture, bound, one.meta)) for one in then))
        return Fixture(key, answers, bound.request, self._move_blocks(fixture, bound, meta))

    def _move_blocks(
        self, fixture: Fixture, bound: Bound, meta: Mapping[str, JsonValue] | None
    ) -> Meta | None:
        """What a recording says of itself, with the ends of the blocks of its system text as it is now."""
        before = fixture.request

        def renew(text: str) -> str | None:
            if before is None:
                return None
            request, _ = self._rules.apply(replace(before, system=text))
            return self.bind(request, fixture.meta).request.system

        return move_noted_blocks(meta, before.system if before else "", bound.request.system, renew)

    def failure(self, failure: Exchange, fixture: Fixture) -> Exchange:
        """A failure of a recording."""
        if fixture.request is None:
            return failure
        bound = self.bind(self._rules.apply(fixture.request)[0], fixture.meta)
        names = _names_of(bound, failure.meta)
        wire = bind_wire(failure.wire, bound.binding)
        if wire == failure.wire:
            return failure
        return replace(failure, wire=wire, meta=_with(failure.meta, "bindings", names))

    def exchange(self, exchange: Exchange) -> Exchange:
        """A call that is recorded as it is; one of which a secret was cut out keeps its key."""
        asked = exchange.request
        if asked is None or opaque_key(asked) != exchange.key or not is_bound_by_rules(asked):
            return exchange
        body, binding = self._binder.bind_stored_value(asked["body"], bindings_in(exchange.meta))
        if body == asked["body"]:
            return exchange
        wire, *then = (bind_wire(wire, binding) for wire in exchange.wires)
        request = {**asked, "body": body}
        names = sorted({*binding.names, *bindings_in(exchange.meta)})
        meta = _with(exchange.meta, "bindings", names)
        key = opaque_key(request)
        return replace(exchange, wire=wire, then=tuple(then), key=key, request=request, meta=meta)

    def bind(self, request: LlmRequest, meta: Mapping[str, JsonValue] | None) -> Bound:
        """The request of a recording, as it is stored now.

        Args:
            request: As it is stored.
            meta: What the recording says of itself.
        """
        return self._binder.bind_stored(request, bindings_in(meta))

    def answer(self, answer: Answer, bound: Bound) -> Answer:
        """An answer to a request that was bound, as it is stored now.

        Args:
            answer: As it is stored.
            bound: What was asked.
        """
        if not bound.names:
            return answer
        made = bind_answer(answer, bound.binding, bound.request.model)
        if answer.meta is None:
            return made
        return replace(made, meta=_with(answer.meta, "bindings", _names_of(bound, answer.meta)))


def _names_of(bound: Bound, meta: Mapping[str, JsonValue] | None) -> list[str]:
    return sorted({*bound.names, *bindings_in(meta)})


def _with(meta: Mapping[str, JsonValue] | None, name: str, values: Collection[str]) -> Meta:
    return {**(meta or {}), name: [*values]}
