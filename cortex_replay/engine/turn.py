"""One call of a scope: with what is recorded for it, or about to be asked; and then what comes of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.budget import Bill
from cortex_replay.engine.claims import Claim
from cortex_replay.engine.fixtures import FixtureMaker, is_same_answer, times_in
from cortex_replay.engine.lookup import LookUp
from cortex_replay.engine.mcp.causes import Causes
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.engine.run_names import now_in_milliseconds
from cortex_replay.engine.state import RunState
from cortex_replay.engine.turns import KeyState
from cortex_replay.errors import (
    FixtureIntegrityFailed,
    InvalidRequest,
    LlmError,
    RecordingRefused,
    TurnTooLate,
    Upstream,
)
from cortex_replay.modes import Mode
from cortex_replay.redact.clearance import STORE_GATE
from cortex_replay.redact.sensitivity import refuse_above
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import LlmRequest, TokenUsage

__all__ = ["NOTHING", "Ask", "Attempt", "Caller", "Turn"]

Ask = Callable[[], LlmRequest]
"""The request of a call; a client's body is read when somebody wants to know, and then once."""
NOTHING: Final = TokenUsage(0, 0)
"""What an error of a provider costs."""


class Caller(Protocol):
    """Whose call it is: a scope, as far as one of its calls has to know it."""

    run: RunState
    store: Store
    mode: Mode
    owner: str
    meta: Mapping[str, JsonValue]
    keeps_first: bool
    causes: Causes

    @property
    def fixtures(self) -> FixtureMaker: ...
    def serve(
        self, ask: Ask, key: FixtureKey, outcome: Outcome, meta: Mapping[str, JsonValue] | None = None
    ) -> None: ...
    def observe(
        self, ask: Ask, outcome: Outcome | None, meta: Mapping[str, JsonValue] | None = None
    ) -> None: ...
    def pin(self, key: FixtureKey, state: KeyState[Answer]) -> None: ...


@dataclass(slots=True, eq=False)
class Turn:
    """One call: either with what is recorded for it, or about to be asked."""

    scope: Caller
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
    _asked_at: str | None = None
    _asked_clock: float = 0.0
    _answered_ms: int | None = None

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
        """The caller gets what is recorded: count it, and let the scope have it before the caller may end
        that. The turn goes on until :meth:`end`."""
        assert self.outcome is not None  # noqa: S101 - asked for only then
        if self.is_shared:
            self.is_shared = False
            self._stage(self.outcome)
        elif self.is_pinned and self.state is not None:
            self.scope.pin(self.key, self.state)
        if self.is_repeat:
            self.scope.run.ledger.repeat()
        if isinstance(self.outcome, Answer):
            self._note_calls(self.outcome, is_recorded=True)
        self.scope.serve(self.request, self.key, self.outcome, self.meta)

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
            self._asked_at, self._asked_clock = now_in_milliseconds(), monotonic()
            self._answered_ms = None
            attempt = Attempt(self, bill)
            problem, is_sent = "", True
            try:
                yield attempt
            except LlmError as error:
                problem, is_sent = str(error), not isinstance(error, InvalidRequest | TurnTooLate)
                if isinstance(error, Upstream) and not attempt.is_good:
                    attempt.fail(_wire_of(error))
                raise
            finally:
                if not attempt.is_good:
                    self.scope.observe(self.request, None)
                    reason = attempt.problem or problem
                    said = f"{self.key.short}: {reason}" if reason else ""
                    self.scope.run.ledger.fail(said, is_recorded=attempt.is_recorded, is_sent=is_sent)

    def begin(self) -> None:
        """The answer begins: from now on, what the provider caches of this call can be read by others."""
        if self._answered_ms is None:
            self._answered_ms = round((monotonic() - self._asked_clock) * 1000)

    def keep(self, answer: Answer, usage: TokenUsage | None) -> None:
        """An answer has come, whole: stage it, and let the others have it.

        Raises:
            RecordingRefused: A secret could not be cut out of it.
        """
        ledger, model = self.scope.run.ledger, self.key.model
        if not answer.stream and "events" not in (answer.wire or {}):  # which have times of their own
            self.begin()
        self.scope.observe(self.request, answer, {**self.origin, **self._times()})
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
        self._note_calls(answer)
        if self.is_repeat:
            self.is_counted = True
            self.state.successes[0] = kept if isinstance(kept, Answer) else self.state.successes[0]
        self._advance(kept)
        ledger.keep(self.key, usage, model, self.scope.owner)

    def _note_calls(self, answer: Answer, *, is_recorded: bool = False) -> None:
        """Remember which tools an answer wants called, for what is recorded of them."""
        scope, state = self.scope, self.state
        if state is None or not scope.mode.writes:
            return
        # One that is recorded alone answers every call.
        is_only = self.is_repeat or (is_recorded and len(state.committed) == 1)
        number = 1 if is_only else len(state.successes) + 1
        scope.causes.note(self.key, number, answer.tool_calls, self.request)

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
        origin = {**self.origin, **self.scope.meta, "run": self.scope.run.name}
        origin |= self._times() or times_in(outcome.meta or self.meta or {})  # of one that another asked
        if not self.state.successes:
            origin["call"] = self.state.call
        return fixtures.stage(self.request(), self.look, self.state, outcome, origin, overwrite=overwrite)

    def _times(self) -> dict[str, JsonValue]:
        return times_in({"asked_at": self._asked_at, "answered_ms": self._answered_ms})

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
