"""Recordings that are found by their old keys, and served as they will be by the rules just learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cortex_replay.bindings import Bound
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.bound_answers import fill_answer
from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.lookup import LookUp, fill_exchange
from cortex_replay.engine.rule_renewal import RuleRenewal
from cortex_replay.store import Answer, Fixture
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import bindings_in

__all__ = ["LearnedExchangeLookUp", "LearnedLookUp"]


@dataclass(slots=True, eq=False)
class LearnedLookUp(LookUp):
    """Finds a recording by its old key, and fills its answers as if they had been stored by the new rules."""

    renewal: RuleRenewal | None = None
    recorded: Bound | None = None
    """What the recording asked, by the new rules."""
    fixture: Fixture | None = None

    def fills(self, meta: Mapping[str, JsonValue] | None) -> bool:  # noqa: ARG002 - what was learned is not in it
        return True

    def fill_failure(self, failure: Exchange) -> Exchange:
        if self.renewal is None or self.fixture is None:
            return failure
        return fill_exchange(self.renewal.failure(failure, self.fixture), self.filling)

    def fill_answer(self, answer: Answer, meta: Mapping[str, JsonValue] | None) -> Answer:
        if self.renewal is None or self.recorded is None:
            return answer
        made = self.renewal.answer(answer, self.recorded)
        names = {*self.recorded.names, *bindings_in(meta if answer.meta is None else answer.meta)}
        return fill_answer(made, self.filling, sorted(names), self.key.model)


@dataclass(slots=True, eq=False)
class LearnedExchangeLookUp(ExchangeLookUp):
    """The same for a call that is recorded as it is."""

    renewal: RuleRenewal | None = None

    def fill(self, exchange: Exchange) -> Exchange:
        made = exchange if self.renewal is None else self.renewal.exchange(exchange)
        return fill_exchange(made, self.filling)
