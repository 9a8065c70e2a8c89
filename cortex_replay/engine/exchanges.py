"""Calls that are recorded as they are. The n-th equal call of a scope gets the n-th answer, as a completion
does: polls are answered otherwise each time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.claims import Claim
from cortex_replay.engine.fixtures import is_first_for_all
from cortex_replay.engine.scope import KeyState, Scope
from cortex_replay.engine.staging import RedactingStager
from cortex_replay.engine.state import RunState
from cortex_replay.errors import InvalidRequest, LlmError, RecordingRefused
from cortex_replay.modes import Mode
from cortex_replay.store import FixtureKey
from cortex_replay.store.changes import essence_of_exchange
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import TokenUsage

__all__ = ["ExchangeAttempt", "ExchangeTurn", "ask_opaquely", "sole_wire", "take_turn"]

_WAIT_MS: Final = 600_000
Wire = dict[str, JsonValue]


def sole_wire(scope: Scope, key: str) -> Wire | None:
    """The one answer that every call of a key gets in replay, without any turns.

    Raises:
        FixtureIntegrityFailed: Its file is no longer what the index vouches for.
    """
    recorded = scope.store.exchange(key, scope.owner) if scope.mode is Mode.REPLAY else None
    return recorded.wire if recorded is not None and _has_one_answer(recorded, scope) else None


@asynccontextmanager
async def take_turn(scope: Scope, key: str) -> AsyncIterator[ExchangeTurn]:
    """The next turn of a key: with what is recorded for it, or the right to ask; in replay, perhaps neither.

    Raises:
        FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        Timeout: Its turn did not come in time.
    """
    if scope.mode is Mode.LIVE:
        yield ExchangeTurn(scope, key)
        return
    if scope.mode is Mode.REPLAY:
        recorded = scope.store.exchange(key, scope.owner)
        if recorded is None:
            # Nothing is counted: a stranger could ask for ever so much.
            yield ExchangeTurn(scope, key)
            return
        if _has_one_answer(recorded, scope):
            yield ExchangeTurn(scope, key, wire=recorded.wire)
            return
    state = scope.exchange_state(key)
    async with state.turns.take(_WAIT_MS):
        n = state.turns.given + 1
        wire = None if scope.mode is Mode.RECORD else _recorded(state.committed, n)
        is_pinned = wire is not None and scope.mode is Mode.ONCE
        if wire is None and scope.keeps_first and state.successes:
            wire = state.successes[0]
        if wire is not None or scope.mode is Mode.REPLAY:
            yield ExchangeTurn(scope, key, state, wire, exhausted=wire is None, is_pinned=is_pinned)
            return
        async with scope.run.claims.claim(FixtureKey("", key), n, _WAIT_MS) as claim:
            given = claim.outcome
            if not isinstance(given, Exchange):
                yield ExchangeTurn(scope, key, state, claim=claim)
                return
        is_shared = scope.is_branch or bool(scope.owner)
        yield ExchangeTurn(scope, key, state, given.wire, given if is_shared else None)


def _has_one_answer(recorded: Exchange, scope: Scope) -> bool:
    return not recorded.then or (scope.keeps_first and is_first_for_all(recorded.meta))


def _recorded(wires: tuple[Wire, ...], n: int) -> Wire | None:
    """What is answer ``n``, from 1; a single one answers every call."""
    if len(wires) == 1:
        return wires[0]
    return wires[n - 1] if n <= len(wires) else None


@dataclass(slots=True, eq=False)
class ExchangeTurn:
    """One call: with what is recorded for it, or about to be asked."""

    scope: Scope
    key: str
    state: KeyState[Wire] | None = None
    """``None`` where no turns are taken."""
    wire: Wire | None = None
    """What is recorded; ``None`` if there is nothing."""
    shared: Exchange | None = None
    """What another scope asked, and this one is to stage too."""
    claim: Claim | None = None
    exhausted: bool = False
    """Whether there were answers to the calls before."""
    is_pinned: bool = False
    """Whether what others recorded is to be this scope's own from now on."""

    def end(self) -> None:
        """The caller has had what is recorded."""
        if self.state is None or self.wire is None:
            return
        if self.shared is not None:
            self._stage(self.shared, self.state)
        elif self.is_pinned:
            self.scope.pin_exchange(self.key, self.state)
        self._advance(self.wire, self.state)

    def keep(self, exchange: Exchange, what: str, query: str) -> None:
        """Stage an answer, unless there is a secret in it that cannot be cut out."""
        if self.state is None:
            return
        ledger = self.scope.run.ledger
        problem = "there is a secret in what was asked"
        try:
            self._stager().refuse_request(exchange.request or {}, query)
            problem = "a secret could not be cut out of the answer"
            kept = self._stage(exchange, self.state)
        except RecordingRefused as error:
            ledger.refuse(f"{what}: {error if error.clearance else problem}")
            return
        if self.claim is not None:
            self.claim.settle(kept)
        self._advance(kept.wire, self.state)
        ledger.keep(self.key)

    def _stage(self, exchange: Exchange, state: KeyState[Wire]) -> Exchange:
        """Stage an answer behind those before it; gives it alone, as it is stored."""
        scope, before = self.scope, state.successes
        clean = self._stager().clean_exchange(exchange)
        wires = [*before, clean.wire, *state.committed[len(before) + 1 :]]
        whole = Exchange(wires[0], key=self.key, request=clean.request, then=tuple(wires[1:]))
        if len(set(essence_of_exchange(whole))) == 1:
            whole = Exchange(wires[0], key=self.key, request=clean.request)
        self._stager().stage_clean(whole, overwrite=scope.mode is Mode.RECORD, scope=scope.owner)
        return clean

    def _stager(self) -> RedactingStager:
        return RedactingStager(self.scope.store, self.scope.run.redactor)

    def _advance(self, wire: Wire, state: KeyState[Wire]) -> None:
        state.successes.append(wire)
        state.turns.advance()


@asynccontextmanager
async def ask_opaquely(run: RunState, what: str) -> AsyncIterator[ExchangeAttempt]:
    """Ask: what is done here is a live call, which counts as one.

    Raises:
        BudgetSpent: No more calls may be made.
    """
    async with run.budget.call_of(0) as bill:
        bill.pay(TokenUsage(0, 0))
        run.ledger.ask()
        attempt = ExchangeAttempt()
        problem, is_sent = "", True
        try:
            yield attempt
        except LlmError as error:
            problem, is_sent = f"{what}: {error}", not isinstance(error, InvalidRequest)
            raise
        finally:
            if not attempt.is_good:
                run.ledger.fail(problem, is_sent=is_sent)


@dataclass(slots=True)
class ExchangeAttempt:
    """One live call of an opaque kind."""

    is_good: bool = False
