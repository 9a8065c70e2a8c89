"""Calls that are recorded as they are. The n-th equal call of a scope gets the n-th answer, as a completion
does: polls are answered otherwise each time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.claims import Claim
from cortex_replay.engine.exchange_lookup import ExchangeLookUp, look_again_for_exchange, look_up_exchange
from cortex_replay.engine.fixtures import is_first_for_all
from cortex_replay.engine.scope import Scope
from cortex_replay.engine.staging import RedactingStager
from cortex_replay.engine.state import RunState
from cortex_replay.engine.turns import KeyState
from cortex_replay.errors import (
    FixtureIntegrityFailed,
    InvalidRequest,
    LlmError,
    RecordingRefused,
    TurnTooLate,
)
from cortex_replay.modes import Mode
from cortex_replay.store import FixtureKey
from cortex_replay.store.changes import says_one_thing
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import bindings_in
from cortex_replay.types import TokenUsage

__all__ = [
    "ExchangeAttempt",
    "ExchangeTurn",
    "answer_of_number",
    "ask_opaquely",
    "has_one_answer",
    "join_answers",
    "look_up_call",
    "nothing",
    "sole_wire",
    "take_turn",
]

_WAIT_MS: Final = 600_000
Wire = dict[str, JsonValue]


def nothing() -> None:
    """The request of a call that is no request to a model."""


def look_up_call(scope: Scope, asked: Wire) -> ExchangeLookUp:
    """What a call is looked up by in a scope, here and now."""
    look = look_up_exchange(scope.run.binder(scope.store.key_rules.bindings), asked)
    looks = scope.mode is Mode.REPLAY or scope.mode is Mode.ONCE
    if not looks or scope.store.exchange_row(look.key, scope.owner) is not None:
        return look
    found = look_again_for_exchange(scope.store, scope.owner, look)
    if found is None and scope.run.learner is not None:
        found = scope.run.learner.look_up_call(scope.asker(), look)
    return found or look


def sole_wire(scope: Scope, look: ExchangeLookUp) -> Wire | None:
    """The one answer that every call of a key gets in replay, without any turns.

    Raises:
        FixtureIntegrityFailed: Its file is no longer what the index vouches for.
    """
    is_short = scope.mode is Mode.REPLAY and scope.fork is None  # what a fork gives is recorded, too
    recorded = scope.store.exchange(look.key, scope.owner) if is_short else None
    return look.fill(recorded).wire if recorded is not None and has_one_answer(recorded, scope) else None


@asynccontextmanager
async def take_turn(scope: Scope, look: ExchangeLookUp) -> AsyncIterator[ExchangeTurn]:
    """The next turn of a key: with what is recorded for it, or the right to ask; in replay, perhaps neither.

    Raises:
        FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        Timeout: Its turn did not come in time.
    """
    if scope.mode is Mode.LIVE:
        yield ExchangeTurn(scope, look)
        return
    if scope.mode is Mode.REPLAY:
        recorded = scope.store.exchange(look.key, scope.owner)
        if recorded is None:
            # Nothing is counted: a stranger could ask for ever so much.
            yield ExchangeTurn(scope, look)
            return
        if has_one_answer(recorded, scope):
            only = replace(recorded, then=())
            if scope.fork is None:
                yield ExchangeTurn(scope, look, stored=only)
                return
            async with _copy_turn(scope.fork.road, look, only) as turn:
                yield turn
            return
    state = scope.exchange_state(look.key)
    async with state.turns.take(_WAIT_MS):
        n = state.turns.given + 1
        scope.number_call(look.key, state)
        stored = None if scope.mode is Mode.RECORD else answer_of_number(state.committed, n)
        if stored is not None and scope.fork is not None:
            async with _copy_turn(scope.fork.road, look, stored) as turn:
                yield turn
                state.turns.advance()
            return
        is_pinned = stored is not None and scope.mode is Mode.ONCE
        if stored is None and scope.keeps_first and state.successes:
            stored = state.successes[0]
        if stored is not None or scope.mode is Mode.REPLAY:
            yield ExchangeTurn(scope, look, state, stored, exhausted=stored is None, is_pinned=is_pinned)
            return
        async with scope.run.claims.claim(FixtureKey("", look.key), n, _WAIT_MS) as claim:
            given = claim.outcome
            if not isinstance(given, Exchange):
                yield ExchangeTurn(scope, look, state, claim=claim)
                return
        is_shared = scope.is_branch or bool(scope.owner)
        yield ExchangeTurn(scope, look, state, given, is_shared=is_shared)


@asynccontextmanager
async def _copy_turn(road: Scope, look: ExchangeLookUp, stored: Exchange) -> AsyncIterator[ExchangeTurn]:
    """The turn of a fork's road that has what the past gives."""
    state = road.exchange_state(look.key)
    async with state.turns.take(_WAIT_MS):
        road.number_call(look.key, state)
        yield ExchangeTurn(road, look, state, stored, is_shared=True)


def has_one_answer(recorded: Exchange, scope: Scope) -> bool:
    """Whether every call of a key gets the same in a scope."""
    return not recorded.then or (scope.keeps_first and is_first_for_all(recorded.meta))


def answer_of_number(answers: tuple[Exchange, ...], n: int) -> Exchange | None:
    """What is answer ``n``, from 1; a single one answers every call."""
    if len(answers) == 1:
        return answers[0]
    return answers[n - 1] if n <= len(answers) else None


@dataclass(slots=True, eq=False)
class ExchangeTurn:
    """One call: with what is recorded for it, or about to be asked."""

    scope: Scope
    look: ExchangeLookUp
    state: KeyState[Exchange] | None = None
    """``None`` where no turns are taken."""
    stored: Exchange | None = None
    """What is recorded; ``None`` if there is nothing."""
    claim: Claim | None = None
    is_shared: bool = False
    """Whether another scope asked, and this one is to stage it too."""
    exhausted: bool = False
    """Whether there were answers to the calls before."""
    is_pinned: bool = False
    """Whether what others recorded is to be this scope's own from now on."""
    _kept: Exchange | None = None

    @property
    def wire(self) -> Wire | None:
        """What is recorded, with the values of today: what the caller gets."""
        return None if self.stored is None else self.look.fill(self.stored).wire

    @property
    def kept(self) -> Exchange | None:
        """What was kept of this call, as it is stored."""
        return self._kept

    def serve(self) -> None:
        """The caller gets what is recorded: let the scope have it before the caller may end that."""
        if self.state is None or self.stored is None:
            return
        if self.is_shared:
            self._stage(self.look.fill(self.stored), self.state)
        elif self.is_pinned:
            self.scope.pin_exchange(self.look.key, self.state)

    def end(self) -> None:
        """The caller has had what is recorded."""
        if self.state is not None and self.stored is not None:
            self._advance(self.stored, self.state)

    def keep(self, wire: Wire, what: str, query: str) -> bool:
        """Stage an answer, unless there is a secret in it that cannot be cut out; whether it is staged."""
        self.scope.run.kept_prompts.learn(self.look.asked, wire, is_there=True)
        if self.state is None:
            return False
        ledger = self.scope.run.ledger
        problem = "there is a secret in what was asked"
        try:
            self._stager().refuse_request(self.look.asked, query)
            problem = "a secret could not be cut out of the answer"
            kept = self._stage(Exchange(wire, key=self.look.key), self.state, checked=self.look.asked)
        except RecordingRefused as error:
            ledger.refuse(f"{what}: {error if error.clearance else problem}")
            return False
        except FixtureIntegrityFailed as error:  # no reader could take it: JSON may be nested too deep
            ledger.refuse(f"{what}: it cannot be stored: {error.issues[0].reason}")
            return False
        if self.claim is not None:
            self.claim.settle(kept)
        self._kept = kept
        self._advance(kept, self.state)
        ledger.keep(self.look.key)
        return True

    def _stage(
        self,
        exchange: Exchange,
        state: KeyState[Exchange],
        *,
        is_amended: bool = False,
        checked: Wire | None = None,
    ) -> Exchange:
        """Stage an answer behind those before it; gives it alone, as it is stored.

        One that is amended takes the place of what was staged before, in every mode.

        Args:
            exchange: With one answer.
            state: Of its key.
            is_amended: Whether it was staged before, with less.
            checked: A request in which no secret was found just now.
        """
        scope, stager = self.scope, self._stager()
        clean = stager.clean_bound(exchange, self.look.bind, checked)
        whole = join_answers(self._in_order(clean, state), self.look)
        overwrite = is_amended or scope.mode is Mode.RECORD
        stager.stage_clean(whole, overwrite=overwrite, scope=scope.owner)
        return clean

    def _in_order(self, clean: Exchange, state: KeyState[Exchange]) -> Sequence[Exchange]:
        """An answer among those to the calls before it and after."""
        before = state.successes
        return [*before, clean, *state.committed[len(before) + 1 :]]

    def _stager(self) -> RedactingStager:
        return RedactingStager(self.scope.store, self.scope.run.redactor)

    def _advance(self, exchange: Exchange, state: KeyState[Exchange]) -> None:
        state.successes.append(exchange)
        state.turns.advance()


def join_answers(answers: Sequence[Exchange], look: ExchangeLookUp) -> Exchange:
    """One exchange of answers to the same call; where all say the same, of the first."""
    names = sorted({name for answer in answers for name in bindings_in(answer.meta)})
    whole = Exchange(
        answers[0].wire,
        key=look.key,
        request=look.request,
        then=tuple(answer.wire for answer in answers[1:]),
        meta={"bindings": [*names]} if names else None,
    )
    return replace(whole, then=()) if says_one_thing(whole) else whole


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
            problem, is_sent = f"{what}: {error}", not isinstance(error, InvalidRequest | TurnTooLate)
            raise
        finally:
            if not attempt.is_good:
                run.ledger.fail(problem, is_sent=is_sent)


@dataclass(slots=True)
class ExchangeAttempt:
    """One live call of an opaque kind."""

    is_good: bool = False
