"""One scope of a run: whose turn it is, what is recorded for it, who asks, and what it costs.

A call passes three gates: the turn of its key in this scope, the store (unless everything is to be asked),
and the claim to the answer among all scopes of the run. Adapters and HTTP are faces of this.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Generic, TypeVar

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.budget import Bill
from cortex_replay.engine.claims import Claim
from cortex_replay.engine.fixtures import FixtureMaker, answers_in, is_first_for_all, is_same_answer
from cortex_replay.engine.learner import Asker
from cortex_replay.engine.ledger import shorten
from cortex_replay.engine.lookup import LookUp, look_up
from cortex_replay.engine.outcomes import Outcome, recorded_outcome
from cortex_replay.engine.second_look import look_again
from cortex_replay.engine.state import HOW_TO_RECORD, RunState
from cortex_replay.engine.turns import Turns
from cortex_replay.errors import (
    FixtureIntegrityFailed,
    InvalidRequest,
    LlmError,
    NoFixture,
    RecordingRefused,
    Upstream,
)
from cortex_replay.modes import Mode
from cortex_replay.printable import defuse_commands, escape_controls
from cortex_replay.redact.clearance import STORE_GATE
from cortex_replay.redact.sensitivity import refuse_above
from cortex_replay.store import Answer, Fixture, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.index import ScopedRow
from cortex_replay.types import LlmRequest, TokenUsage

__all__ = ["Ask", "Attempt", "KeyState", "Observer", "Scope", "Turn"]

_NOTHING: Final = TokenUsage(0, 0)
"""What an error of a provider costs."""
Ask = Callable[[], LlmRequest]
"""The request of a call; a client's body is read when somebody wants to know, and then once."""
Observer = Callable[[Callable[[], LlmRequest | None], Outcome | None], None]
"""Is told what was asked, if it is a request, and what it got, if there is an answer."""


@dataclass(slots=True, eq=False)
class Scope:
    """The n-th call of a key in it is answer n. ``RunCore.open_scope`` makes one."""

    run: RunState
    store: Store
    """With the scope's own normalisers, and its own staging area if it is a branch."""
    mode: Mode
    name: str = ""
    """What calls over HTTP find it by."""
    owner: str = ""
    """Whose answers it gets and records: the id of a test, the name of a client; "" for the shared ones."""
    keep: Callable[[Scope], Scope] | None = None
    """Remembers a scope that was made for a name once it counts, and gives the one that is remembered.
    ``None`` for a scope that its owner has."""
    is_branch: bool = False
    observer: Observer | None = None
    how_to_record: str = HOW_TO_RECORD
    meta: Mapping[str, JsonValue] = field(default_factory=dict)
    environment: Mapping[str, str] | None = None
    explains: bool = True
    keeps_first: bool = False
    """Whether a question that a run records has one answer, the first: for callers whose order is chance."""
    _fixtures: FixtureMaker | None = None
    _keys: dict[FixtureKey, KeyState[Answer]] = field(default_factory=dict)
    _exchanges: dict[str, KeyState[Exchange]] = field(default_factory=dict)
    _calls: count[int] = field(default_factory=lambda: count(1))
    _other_calls: count[int] = field(default_factory=lambda: count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def fixtures(self) -> FixtureMaker:
        if self._fixtures is None:
            self._fixtures = FixtureMaker(self.store, self.run.redactor, self.owner)
        return self._fixtures

    def look_up(self, request: LlmRequest) -> LookUp:
        """What a request is looked up by here and now."""
        return self.find(self.bind(request), lambda: request)

    def bind(self, request: LlmRequest) -> LookUp:
        """What a request is recorded under, whatever the store has."""
        return look_up(self.store, self.run.binder(self.store.key_rules.bindings), request)

    def find(self, look: LookUp, ask: Ask) -> LookUp:
        """The same; or, where it finds nothing, what finds a recording of another day or without bindings."""
        looks = self.mode is Mode.REPLAY or self.mode is Mode.ONCE
        if not looks or self.store.has_any(look.key, self.owner) or look.key in self._keys:
            return look
        if look.other is None or not self.store.has_any(look.other.key, self.owner):
            look.other = look_again(self.store, self.owner, look, ask())
            if look.other is None and self.run.learner is not None:
                look.other = self.run.learner.look_up(self.asker(), ask())
        return look.other or look

    def asker(self) -> Asker:
        """This scope, as far as a learner has to know it."""
        binder = self.run.binder(self.store.key_rules.bindings)
        return Asker(self.store, self.owner, binder, self.run.redactor)

    def sole_fixture(self, key: FixtureKey) -> Fixture | None:
        """What holds the one answer that every call of a key gets in replay, without any turns."""
        return self.store.sole_fixture(key, self.owner) if self.mode is Mode.REPLAY else None

    def serve(self, ask: Callable[[], LlmRequest | None], key: FixtureKey | str, outcome: Outcome) -> None:
        """Count an answer that a caller gets without anybody being asked."""
        usage = outcome.usage if isinstance(outcome, Answer) else _NOTHING
        is_own = isinstance(key, FixtureKey) and self.store.has_own(*key, self.owner)
        self.run.ledger.hit(key, usage, self.owner, is_shared=not is_own)
        if self.run.learner is not None:
            self.run.learner.serve(self.asker(), key)
        if self.observer is not None:
            self.observer(ask, outcome)

    def observe(self, ask: Callable[[], LlmRequest | None], outcome: Outcome | None) -> None:
        if self.observer is not None:
            self.observer(ask, outcome)

    @asynccontextmanager
    async def turn(
        self, ask: Ask, look: LookUp, timeout_ms: int, origin: Mapping[str, JsonValue]
    ) -> AsyncIterator[Turn]:
        """The next turn of a key: with what is recorded for it, or with the right to ask.

        Args:
            ask: What is asked.
            look: What it is looked up by.
            timeout_ms: How long to wait for those before.
            origin: Who answers, for what is recorded.

        Raises:
            NoFixture: Nothing is recorded for it, and nobody may be asked.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
            Timeout: Its turn did not come in time.
        """
        key = look.key
        if self.mode is Mode.LIVE:
            yield Turn(self, ask, look, origin)
            return
        if self.mode is Mode.REPLAY and not self.store.has_any(key, self.owner):
            # Nothing is counted: a stranger could ask for ever so much.
            raise await self._miss(ask, look, exhausted=False)
        state = self._state_of(key)
        async with state.turns.take(timeout_ms):
            n = state.turns.given + 1
            self.number_call(key, state, ask)
            outcome, meta = (None, None) if self.mode is Mode.RECORD else self._outcome(key, state, n)
            if outcome is None and self.mode is Mode.REPLAY:
                raise await self._miss(ask, look, exhausted=True)
            is_pinned = outcome is not None and self.mode is Mode.ONCE
            is_repeat = outcome is None and self.keeps_first and not state.committed and bool(state.successes)
            if is_repeat:
                outcome, meta = state.successes[0], None
            is_shared = False
            if outcome is None:
                async with self.run.claims.claim(key, n, timeout_ms) as claim:
                    outcome, meta = claim.outcome, None
                    if outcome is None:
                        yield Turn(self, ask, look, origin, state, claim=claim)
                        return
                # Whoever asked may be a test that fails, whose answers are not kept; and they are not ours.
                is_shared = self.is_branch or bool(self.owner)
            yield Turn(
                self,
                ask,
                look,
                origin,
                state,
                outcome,
                meta,
                is_shared=is_shared,
                is_repeat=is_repeat,
                is_pinned=is_pinned,
            )

    def _outcome(
        self, key: FixtureKey, state: KeyState[Answer], n: int
    ) -> tuple[Outcome | None, Mapping[str, JsonValue] | None]:
        """What is recorded for a turn, and what the recording says of itself."""
        store, owner = self.store, self.owner
        failures = store.failures(*key, owner) if store.has_failures(*key, owner) else {}
        answers = state.committed
        meta = answers[0].meta if answers else None
        if self.mode is Mode.REPLAY and n not in failures and store.has_fixture(*key, owner):
            fixture = store.get(*key, owner)
            answers, meta = fixture.answers, fixture.meta
        if self.keeps_first and is_first_for_all(meta):
            answers = answers[:1]
        return recorded_outcome(answers, failures, n) if answers or n in failures else None, meta

    def _state_of(self, key: FixtureKey) -> KeyState[Answer]:
        state = self._keys.get(key)
        if state is not None:
            return state
        if self.keep is not None and (kept := self.keep(self)) is not self:
            return kept._state_of(key)  # noqa: SLF001 - another of the same name was faster
        with self._lock:
            state = self._keys.get(key)
            if state is None:
                answers = answers_in(self.store, key, self.owner) if self._looks_back else ()
                is_kept = answers and self._keeps(
                    answers[0].meta, is_own=self.store.has_own(*key, self.owner)
                )
                state = self._keys[key] = KeyState(answers if is_kept else (), calls=self._calls)
            return state

    def exchange_state(self, key: str) -> KeyState[Exchange]:
        """How far the calls of an opaque kind have come."""
        state = self._exchanges.get(key)
        if state is not None:
            return state
        if self.keep is not None and (kept := self.keep(self)) is not self:
            return kept.exchange_state(key)
        with self._lock:
            state = self._exchanges.get(key)
            if state is None:
                there = self.store.exchange(key, self.owner)
                is_own = isinstance(self.store.exchange_row(key, self.owner), ScopedRow)
                is_kept = there is not None and self._keeps(there.meta, is_own=is_own)
                answers = there.apart() if there and is_kept else ()
                is_first = self.keeps_first and there is not None and is_first_for_all(there.meta)
                answers = answers[:1] if is_first else answers
                state = self._exchanges[key] = KeyState(answers, calls=self._other_calls)
            return state

    def number_call(self, key: FixtureKey | str, state: KeyState[Any], ask: Ask | None = None) -> None:
        """Give the call whose turn it is its number."""
        state.number_call()
        if self.run.call_log is not None:
            self.run.call_log.note(self.owner, self.name, state.call, key, ask)

    @property
    def _looks_back(self) -> bool:
        """Whether what was committed counts; an answer that is asked anew takes the place of all that was."""
        return self.mode is not Mode.RECORD or not self.keeps_first

    def _keeps(self, meta: Mapping[str, JsonValue] | None, *, is_own: bool) -> bool:
        """Whether what is committed is what this scope goes on from: when it asks anew, only its own is."""
        if self.mode is not Mode.RECORD:
            return True
        return self._looks_back and (is_own or (meta or {}).get("scope", "") == self.owner)

    def pin(self, key: FixtureKey, state: KeyState[Answer]) -> None:
        """What was given is this scope's own from now on, whatever others record."""
        if self.owner and not state.is_pinned and self.fixtures.may_name_scope():
            self.store.pin(self.owner, *key)
        state.is_pinned = True

    def pin_exchange(self, key: str, state: KeyState[Exchange]) -> None:
        """The same for an opaque exchange."""
        if self.owner and not state.is_pinned and self.fixtures.may_name_scope():
            self.store.pin_exchange(self.owner, key)
        state.is_pinned = True

    async def _miss(self, ask: Ask, look: LookUp, *, exhausted: bool) -> NoFixture:
        """Count a miss; the error says why it is one."""
        explanation = ""
        if self.explains:
            explanation = await asyncio.to_thread(self._explain, ask, look, exhausted=exhausted)
        error = NoFixture(*look.key, exhausted, explanation)
        self.count_miss(look.key.short, explanation or f"cortex-replay: {error}", ask)
        return error

    def count_miss(self, what: str, explanation: str, ask: Callable[[], LlmRequest | None]) -> None:
        self.run.ledger.miss(what, explanation)
        if self.run.learner is not None:
            self.run.learner.miss(explanation)
        self.observe(ask, None)

    def _explain(self, ask: Ask, look: LookUp, *, exhausted: bool) -> str:
        # Most replays miss nothing.
        from cortex_replay.misses.explanation import explain_exhaustion, explain_miss  # noqa: PLC0415

        if exhausted:
            return self.clean(explain_exhaustion(look.key, self.how_to_record))
        how, redactor = self.how_to_record, self.run.redactor
        return self.clean(explain_miss(self.store, ask(), look.key, how, redactor, look.binder))

    def clean(self, text: str) -> str:
        """An explanation as a client may print it."""
        return defuse_commands(escape_controls(shorten(self.run.redactor.text(text)[0])))


_T = TypeVar("_T")


@dataclass(slots=True)
class KeyState(Generic[_T]):
    """What a scope has asked of one key, and what was committed when it first did."""

    committed: tuple[_T, ...]
    turns: Turns = field(default_factory=Turns)
    successes: list[_T] = field(default_factory=list)
    is_count_tried: bool = False
    """Whether a repeat was asked to be counted; once is enough, whatever came of it."""
    is_pinned: bool = False
    """Whether what was given is known to be the scope's own."""
    calls: Iterator[int] = field(default_factory=lambda: count(1))
    """Numbers the calls of the scope of this kind, whatever they ask."""
    call: int = 0
    """The number of the call whose turn it is."""
    _numbered: int = -1

    def number_call(self) -> None:
        """Give the call whose turn it is the next number of the scope.

        Who asks again, because nothing came of it, keeps the number: in replay, that call is made once.
        """
        if self._numbered != self.turns.given:
            self._numbered = self.turns.given
            self.call = next(self.calls)


@dataclass(slots=True, eq=False)
class Turn:
    """One call: either with what is recorded for it, or about to be asked."""

    scope: Scope
    request: Ask
    look: LookUp
    origin: Mapping[str, JsonValue]
    state: KeyState[Answer] | None = None
    """None where nothing is recorded, and no turns are taken."""
    stored: Outcome | None = None
    """What is recorded; ``None`` if it is to be asked."""
    meta: Mapping[str, JsonValue] | None = None
    """What the recording says of itself, where its outcome does not."""
    claim: Claim | None = None
    is_shared: bool = False
    """Whether another scope asked, and this one is to stage it too."""
    is_repeat: bool = False
    """Whether it would be asked once more, and gets the first answer of this run instead."""
    is_pinned: bool = False
    """Whether what others recorded is to be this scope's own from now on."""
    is_counted: bool = False
    """Of a repeat that was asked all the same, to be counted: whether the answer was the first one again."""

    _outcome: Outcome | None = None

    @property
    def key(self) -> FixtureKey:
        return self.look.key

    @property
    def outcome(self) -> Outcome | None:
        """What is recorded, with the values of today: what the caller gets."""
        if self._outcome is None and self.stored is not None:
            self._outcome = self.look.fill(self.stored, self.meta)
        return self._outcome

    def serve(self) -> None:
        """The caller gets what is recorded: count it. The turn goes on until :meth:`end`."""
        assert self.outcome is not None  # noqa: S101 - asked for only then
        if self.is_repeat:
            self.scope.run.ledger.repeat()
        self.scope.serve(self.request, self.key, self.outcome)

    def tries_count(self) -> bool:
        """Whether to ask a repeat all the same, once: its first answer was a stream that nobody counted."""
        first = self.outcome
        if not self.is_repeat or self.state is None or not isinstance(first, Answer):
            return False
        is_stream = first.wire is not None and first.wire.get("stream") is True
        if not is_stream or first.usage is not None or self.state.is_count_tried:
            return False
        self.state.is_count_tried = True
        return True

    def end(self) -> None:
        """The caller has had what is recorded."""
        assert self.stored is not None  # noqa: S101 - asked for only then
        if self.is_shared and self.outcome is not None:
            self.is_shared = False
            self._stage(self.outcome)
        elif self.is_pinned and self.state is not None:
            self.scope.pin(self.key, self.state)
        self._advance(self.stored)

    @asynccontextmanager
    async def ask(self) -> AsyncIterator[Attempt]:
        """Ask: what is done here is a live call, which counts and costs.

        Raises:
            InvalidRequest: It holds text that the store must not. Nothing was asked.
            BudgetSpent: It might cost more than is left. Nothing was asked.
        """
        request = self.request()
        if self.state is not None:  # it is to be recorded
            refuse_above(request, self.scope.store.clearance, STORE_GATE)
        async with self.scope.run.budget.call(request) as bill:
            self.scope.run.ledger.ask()
            attempt = Attempt(self, bill)
            problem, is_sent = "", True
            try:
                yield attempt
            except LlmError as error:
                problem, is_sent = str(error), not isinstance(error, InvalidRequest)
                if isinstance(error, Upstream) and not attempt.is_good:
                    attempt.fail(_wire_of(error))
                raise
            finally:
                if not attempt.is_good:
                    self.scope.observe(self.request, None)
                    reason = attempt.problem or problem
                    said = f"{self.key.short}: {reason}" if reason else ""
                    self.scope.run.ledger.fail(said, is_recorded=attempt.is_recorded, is_sent=is_sent)

    def keep(self, answer: Answer, usage: TokenUsage | None) -> None:
        """An answer has come, whole: stage it, and let the others have it.

        Raises:
            RecordingRefused: A secret could not be cut out of it.
        """
        ledger, model = self.scope.run.ledger, self.key.model
        self.scope.observe(self.request, answer)
        is_other = self.is_repeat and not is_same_answer(answer, self.outcome)
        if self.state is None or is_other:
            ledger.spend(usage, model)
            return
        try:
            overwrite = self.scope.mode is Mode.RECORD
            if overwrite:
                n, is_only = self.state.turns.given + 1, self.scope.keeps_first
                self.scope.fixtures.drop_failures(self.key, n, and_later=is_only)
            kept = self._stage(answer)
        except (RecordingRefused, FixtureIntegrityFailed) as error:
            ledger.refuse(f"{self.key.short}: {error}")
            ledger.spend(usage, model)
            raise
        if self.claim is not None:
            self.claim.settle(kept)
        if self.is_repeat:
            self.is_counted = True
            self.state.successes[0] = kept if isinstance(kept, Answer) else self.state.successes[0]
        self._advance(kept)
        ledger.keep(self.key, usage, model, self.scope.owner)

    def keep_failure(self, wire: dict[str, JsonValue]) -> bool:
        """Record what is no good answer as the answer of this turn, if that is wanted; whether it is.

        An answer with status 200 that is no completion always is: it says that it is no error, and would not
        go away by itself.
        """
        is_wanted = self.scope.run.record_failures or wire.get("status") == 200
        if self.state is None or self.is_repeat or not is_wanted:
            return False
        failure = Exchange.failure(self.key, self.state.turns.given + 1, wire)
        try:
            overwrite = self.scope.mode is Mode.RECORD
            failure = self.scope.fixtures.stage_failure(
                failure, self.request(), self.look, overwrite=overwrite
            )
        except (RecordingRefused, FixtureIntegrityFailed) as error:
            self.scope.run.ledger.refuse(f"{self.key.short}: {error}")
            return False
        if self.claim is not None:
            self.claim.settle(failure)
        self._advance(failure)
        self.scope.run.ledger.keep(self.key, owner=self.scope.owner)
        return True

    def _stage(self, outcome: Outcome) -> Outcome:
        assert self.state is not None  # noqa: S101 - of a mode that records
        fixtures, overwrite = self.scope.fixtures, self.scope.mode is Mode.RECORD
        if isinstance(outcome, Exchange):
            return fixtures.stage_failure(outcome, self.request(), self.look, overwrite=overwrite)
        origin = {**self.origin, **self.scope.meta}
        before, committed = self.state.successes, self.state.committed
        if not before:
            origin["call"] = self.state.call
        return fixtures.stage(
            self.request(),
            self.look,
            before,
            outcome,
            committed,
            origin,
            overwrite=overwrite,
        )

    def _advance(self, outcome: Outcome) -> None:
        assert self.state is not None  # noqa: S101 - whoever has no state has no turns
        if isinstance(outcome, Answer):
            self.state.successes.append(outcome)
        self.state.turns.advance()


@dataclass(slots=True)
class Attempt:
    """One live call, until it has ended well or not."""

    turn: Turn
    bill: Bill
    is_good: bool = False
    problem: str = ""
    """Why it brought no good answer."""
    is_recorded: bool = False
    """Whether that is recorded, as an answer."""

    def keep(self, answer: Answer, usage: TokenUsage | None) -> None:
        """It ended well; see :meth:`Turn.keep`."""
        self.is_good = True
        self.bill.pay(usage)
        self.turn.keep(answer, usage)

    def fail(self, wire: dict[str, JsonValue]) -> None:
        """The provider answered with an error, or with no completion, which costs nothing."""
        self.bill.pay(TokenUsage(0, 0))
        self.is_recorded = self.turn.keep_failure(wire)


def _wire_of(error: Upstream) -> dict[str, JsonValue]:
    """An error as it is recorded: what the caller could see of it."""
    body: dict[str, JsonValue] = {"message": error.message}
    if error.error_type is not None:
        body["type"] = error.error_type
    return {
        "status": error.status,
        "headers": {"content-type": "application/json"},
        "body": compact({"error": body}),
    }
