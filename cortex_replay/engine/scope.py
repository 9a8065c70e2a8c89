"""One scope of a run: whose turn it is, what is recorded for it, who asks, and what it costs.

A call passes three gates: the turn of its key in this scope, the store (unless everything is to be asked),
and the claim to the answer among all scopes of the run. Adapters and HTTP are faces of this.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.fixtures import FixtureMaker, answers_in, is_first_for_all
from cortex_replay.engine.fork import Fork
from cortex_replay.engine.learner import Asker
from cortex_replay.engine.ledger import shorten
from cortex_replay.engine.lookup import LookUp, look_up
from cortex_replay.engine.mcp.causes import Causes
from cortex_replay.engine.outcomes import Outcome, recorded_outcome
from cortex_replay.engine.second_look import look_again
from cortex_replay.engine.state import HOW_TO_RECORD, RunState
from cortex_replay.engine.turn import NOTHING, Ask, Turn
from cortex_replay.engine.turns import KeyState
from cortex_replay.errors import (
    NoFixture,
)
from cortex_replay.modes import Mode
from cortex_replay.printable import defuse_commands, escape_controls
from cortex_replay.store import Answer, Fixture, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.index.index import ScopedRow
from cortex_replay.types import LlmRequest

__all__ = ["Observer", "Scope"]

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
    causes: Causes = field(default_factory=Causes)
    """The tool calls of its models that MCP servers may get."""
    fork: Fork[Scope] | None = None
    """Where this scope leaves what is recorded, if it is to; until then it replays."""
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

    @property
    def now(self) -> Scope:
        """Who answers now, where it is no call to a model that asks: this scope, or the road that left it."""
        return self if self.fork is None or not self.fork.has_left else self.fork.road

    def for_model_call(self) -> Scope:
        """Who answers the call to a model that has just come: this scope, or the road that leaves it."""
        return self.fork.road if self.fork is not None and self.fork.begin_call() else self

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
        is_short = self.mode is Mode.REPLAY and self.fork is None  # what a fork gives is recorded, too
        return self.store.sole_fixture(key, self.owner) if is_short else None

    def serve(
        self,
        ask: Callable[[], LlmRequest | None],
        key: FixtureKey | str,
        outcome: Outcome,
        meta: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Count an answer that a caller gets without a call to a provider.

        Args:
            ask: What is asked.
            key: What it is found by.
            outcome: What the caller gets.
            meta: What its recording says of itself, where the outcome does not.
        """
        usage = outcome.usage if isinstance(outcome, Answer) else NOTHING
        is_own = isinstance(key, FixtureKey) and self.store.has_own(*key, self.owner)
        self.run.ledger.hit(key, usage, self.owner, is_shared=not is_own)
        if self.run.learner is not None:
            self.run.learner.serve(self.asker(), key)
        self.observe(ask, outcome, meta)

    def observe(
        self,
        ask: Callable[[], LlmRequest | None],
        outcome: Outcome | None,
        meta: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Tell the observer of a call. An answer that it sees says where it is from and when it was asked."""
        if self.observer is not None:
            if meta and isinstance(outcome, Answer) and outcome.meta is None:
                outcome = replace(outcome, meta=dict(meta))
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
        state = self.state_of(key)
        async with state.turns.take(timeout_ms):
            n = state.turns.given + 1
            self.number_call(key, state, ask)
            outcome, meta = (None, None) if self.mode is Mode.RECORD else self._outcome(key, state, n)
            if outcome is None and self.mode is Mode.REPLAY:
                raise await self._miss(ask, look, exhausted=True)
            if self.fork is not None and outcome is not None:
                async with self.fork.copy_turn(ask, look, origin, state, outcome, meta, timeout_ms) as turn:
                    yield turn
                return
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

    def state_of(self, key: FixtureKey) -> KeyState[Answer]:
        """How far the calls of a key have come."""
        state = self._keys.get(key)
        if state is not None:
            return state
        if self.keep is not None and (kept := self.keep(self)) is not self:
            return kept.state_of(key)  # another of the same name was faster
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

    def count_miss(
        self,
        what: str,
        explanation: str,
        ask: Callable[[], LlmRequest | None],
        *,
        is_probe: bool = False,
    ) -> None:
        """Count a call that nothing is recorded for.

        Args:
            what: The call, in short.
            explanation: Why it is a miss, and what to do.
            ask: What is asked.
            is_probe: Whether its program can do without the answer.
        """
        self.run.ledger.miss(what, explanation, is_probe=is_probe)
        if self.fork is not None and not is_probe:
            self.fork.lose()
        if self.run.learner is not None and not is_probe:
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
