"""One scope of a run: whose turn it is, what is recorded for it, who asks, and what it costs.

A call passes three gates: the turn of its key in this scope, the store (unless everything is to be asked),
and the claim to the answer among all scopes of the run. Adapters and HTTP are faces of this.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.budget import Bill
from cortex_replay.engine.claims import Claim
from cortex_replay.engine.exchanges import Exchanges
from cortex_replay.engine.fixtures import FixtureMaker
from cortex_replay.engine.ledger import shorten
from cortex_replay.engine.outcomes import Outcome, recorded_outcome
from cortex_replay.engine.turns import Turns
from cortex_replay.errors import FixtureIntegrityFailed, LlmError, NoFixture, RecordingRefused, Upstream
from cortex_replay.modes import Mode
from cortex_replay.printable import defuse_commands, escape_controls
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import LlmRequest, TokenUsage

if TYPE_CHECKING:
    from cortex_replay.engine.core import RunCore

__all__ = ["HOW_TO_RECORD", "Ask", "Attempt", "Observer", "Scope", "Turn"]

HOW_TO_RECORD: Final = (
    "wrap the adapter in RecordingAdapter, run the test once with --llm-mode once, "
    "or use `cortex-replay record`"
)
"""What a miss says where nobody knows how its program is started."""

Ask = Callable[[], LlmRequest]
"""The request of a call; a client's body is read when somebody wants to know, and then once."""
Observer = Callable[[Callable[[], LlmRequest | None], Outcome | None], None]
"""Is told what was asked, if it is a request, and what it got, if there is an answer."""


class Scope:
    """The n-th call of a key in it is answer n.

    See :meth:`~cortex_replay.engine.core.RunCore.open_scope`, which makes them, for the arguments.
    """

    __slots__ = (
        "_core",
        "_exchanges",
        "_fixtures",
        "_is_opened",
        "_keys",
        "_lock",
        "environment",
        "explains",
        "how_to_record",
        "is_branch",
        "meta",
        "mode",
        "name",
        "observer",
        "store",
    )

    def __init__(
        self,
        core: RunCore,
        store: Store,
        mode: Mode,
        name: str = "",
        *,
        is_opened: bool = False,
        is_branch: bool = False,
        observer: Observer | None = None,
        how_to_record: str | None = None,
        meta: Mapping[str, JsonValue] | None = None,
        environment: Mapping[str, str] | None = None,
        explain: bool = True,
    ) -> None:
        self.store = store
        self.mode = mode
        self.name = name
        self.is_branch = is_branch
        self.observer = observer
        self.how_to_record = how_to_record or core.how_to_record
        self.meta = meta or {}
        self.environment = environment
        self.explains = explain
        self._core = core
        self._is_opened = is_opened
        self._fixtures: FixtureMaker | None = None
        self._exchanges: Exchanges | None = None
        self._keys: dict[FixtureKey, _KeyState] = {}
        self._lock = threading.Lock()

    @property
    def exchanges(self) -> Exchanges:
        """The opaque exchanges of this scope and those that stage with it."""
        if not self.is_branch:
            return self._core.exchanges
        if self._exchanges is None:
            self._exchanges = Exchanges(self._core, self.store)
        return self._exchanges

    @property
    def fixtures(self) -> FixtureMaker:
        if self._fixtures is None:
            self._fixtures = FixtureMaker(self.store, self._core.redactor)
        return self._fixtures

    def sole_answer(self, key: FixtureKey) -> Answer | None:
        """The answer that every call of a key gets in replay, where there is no question of turns."""
        if self.mode.asks or self.store.has_failures(*key):
            return None
        try:
            answers = self.store.get(*key).answers
        except NoFixture:
            return None
        return answers[0] if len(answers) == 1 else None

    def serve(self, ask: Callable[[], LlmRequest | None], key: FixtureKey | str, outcome: Outcome) -> None:
        """Count an answer that a caller gets without anybody being asked."""
        self._core.ledger.hit(key, outcome.usage if isinstance(outcome, Answer) else None)
        self.observe(ask, outcome)

    def observe(self, ask: Callable[[], LlmRequest | None], outcome: Outcome | None) -> None:
        if self.observer is not None:
            self.observer(ask, outcome)

    @asynccontextmanager
    async def turn(
        self, ask: Ask, key: FixtureKey, timeout_ms: int, origin: Mapping[str, JsonValue]
    ) -> AsyncIterator[Turn]:
        """The next turn of a key: with what is recorded for it, or with the right to ask.

        Args:
            ask: What is asked.
            key: What it is looked up by.
            timeout_ms: How long to wait for those before.
            origin: Who answers, for what is recorded.

        Raises:
            NoFixture: Nothing is recorded for it, and nobody may be asked.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
            Timeout: Its turn did not come in time.
        """
        if self.mode is Mode.LIVE:
            yield Turn(self, self._core, ask, key, origin)
            return
        if self.mode is Mode.REPLAY and key not in self.store and not self.store.has_failures(*key):
            # Nothing is counted: a stranger could ask for ever so much.
            raise await self._miss(ask, key, exhausted=False)
        state = self._state_of(key)
        async with state.turns.take(timeout_ms):
            n = state.turns.given + 1
            outcome = None if self.mode is Mode.RECORD else self._outcome(key, state, n)
            if outcome is None and self.mode is Mode.REPLAY:
                raise await self._miss(ask, key, exhausted=True)
            is_shared = False
            if outcome is None:
                async with self._core.claims.claim(key, n, timeout_ms) as claim:
                    outcome = claim.outcome
                    if outcome is None:
                        yield Turn(self, self._core, ask, key, origin, state, claim=claim)
                        return
                # Whoever asked may be a test that fails, and its answers are then not kept.
                is_shared = self.is_branch
            yield Turn(self, self._core, ask, key, origin, state, outcome, is_shared=is_shared)

    def _outcome(self, key: FixtureKey, state: _KeyState, n: int) -> Outcome | None:
        failures = self.store.failures(*key) if self.store.has_failures(*key) else {}
        answers = state.committed
        if self.mode is Mode.REPLAY:
            answers = self.store.get(*key).answers if n not in failures and key in self.store else ()
        return recorded_outcome(answers, failures, n) if answers or n in failures else None

    def _state_of(self, key: FixtureKey) -> _KeyState:
        state = self._keys.get(key)
        if state is not None:
            return state
        if not self._is_opened and (kept := self._core.keep_scope(self)) is not self:
            return kept._state_of(key)  # noqa: SLF001 - another of the same name was faster
        with self._lock:
            state = self._keys.get(key)
            if state is None:
                committed = self.fixtures.committed(key) if self.mode.writes else ()
                state = self._keys[key] = _KeyState(committed)
            return state

    async def _miss(self, ask: Ask, key: FixtureKey, *, exhausted: bool) -> NoFixture:
        """Count a miss; the error says why it is one."""
        explanation = ""
        if self.explains:
            explanation = await asyncio.to_thread(self._explain, ask, key, exhausted=exhausted)
        error = NoFixture(*key, exhausted, explanation)
        self.count_miss(f"{key.model} {key.prompt_hash[:16]}", explanation or f"cortex-replay: {error}", ask)
        return error

    def count_miss(self, what: str, explanation: str, ask: Callable[[], LlmRequest | None]) -> None:
        self._core.ledger.miss(what, explanation)
        self.observe(ask, None)

    def _explain(self, ask: Ask, key: FixtureKey, *, exhausted: bool) -> str:
        # Most replays miss nothing.
        from cortex_replay.misses.explanation import explain_exhaustion, explain_miss  # noqa: PLC0415

        if exhausted:
            return self.clean(explain_exhaustion(key, self.how_to_record))
        return self.clean(explain_miss(self.store, ask(), key, self.how_to_record, self._core.redactor))

    def clean(self, text: str) -> str:
        """An explanation as a client may print it."""
        return defuse_commands(escape_controls(shorten(self._core.redactor.text(text)[0])))


class _KeyState:
    """What a scope has asked of one key, and what was committed when it first did."""

    __slots__ = ("committed", "successes", "turns")

    def __init__(self, committed: tuple[Answer, ...]) -> None:
        self.committed = committed
        self.turns = Turns()
        self.successes: list[Answer] = []


class Turn:
    """One call: either with what is recorded for it, or about to be asked."""

    __slots__ = (
        "_ask",
        "_claim",
        "_core",
        "_is_shared",
        "_origin",
        "_scope",
        "_state",
        "is_kept",
        "key",
        "outcome",
    )

    def __init__(
        self,
        scope: Scope,
        core: RunCore,
        ask: Ask,
        key: FixtureKey,
        origin: Mapping[str, JsonValue],
        state: _KeyState | None = None,
        outcome: Outcome | None = None,
        *,
        claim: Claim | None = None,
        is_shared: bool = False,
    ) -> None:
        self.key = key
        self.outcome = outcome
        """What is recorded; ``None`` if it is to be asked."""
        self.is_kept = False
        self._scope = scope
        self._core = core
        self._ask = ask
        self._origin = origin
        self._state = state
        self._claim = claim
        self._is_shared = is_shared

    def serve(self) -> None:
        """The caller gets what is recorded: count it. The turn goes on until :meth:`end`."""
        assert self.outcome is not None  # noqa: S101 - asked for only then
        self._scope.serve(self._ask, self.key, self.outcome)

    def end(self) -> None:
        """The caller has had what is recorded."""
        assert self.outcome is not None  # noqa: S101 - asked for only then
        if self._is_shared:
            self._is_shared = False
            self._stage(self.outcome)
        self._advance(self.outcome)

    @asynccontextmanager
    async def ask(self) -> AsyncIterator[Attempt]:
        """Ask: what is done here is a live call, which counts and costs.

        Raises:
            BudgetSpent: It might cost more than is left. Nothing was asked.
        """
        request = self._ask()
        async with self._core.budget.call(request) as bill:
            self._core.ledger.ask()
            attempt = Attempt(self, bill)
            problem = ""
            try:
                yield attempt
            except Upstream as error:
                attempt.fail(_wire_of(error))
                problem = str(error)
                raise
            except LlmError as error:
                problem = str(error)
                raise
            finally:
                if not attempt.is_good:
                    self._scope.observe(self._ask, None)
                    reason = attempt.problem or problem
                    self._core.ledger.fail(f"{self._what}: {reason}" if reason else "")

    def keep(self, answer: Answer, usage: TokenUsage | None) -> None:
        """An answer has come, whole: stage it, and let the others have it.

        Raises:
            RecordingRefused: A secret could not be cut out of it.
        """
        ledger, model = self._core.ledger, self.key.model
        self._scope.observe(self._ask, answer)
        if self._state is None:
            ledger.spend(usage, model)
            return
        try:
            overwrite = self._scope.mode is Mode.RECORD
            if overwrite:
                self._scope.fixtures.drop_failure(self.key, self._state.turns.given + 1)
            kept = self._stage(answer)
        except (RecordingRefused, FixtureIntegrityFailed) as error:
            ledger.refuse(f"{self._what}: {error}")
            ledger.spend(usage, model)
            raise
        if self._claim is not None:
            self._claim.settle(kept)
        self._advance(kept)
        self.is_kept = True
        ledger.keep(self.key, usage, model)

    def keep_failure(self, wire: dict[str, JsonValue]) -> None:
        """Record an error of the provider as the answer of this turn, if that is wanted."""
        if self._state is None or self.is_kept or not self._core.record_failures:
            return
        failure = Exchange.failure(self.key, self._state.turns.given + 1, wire)
        try:
            failure = self._scope.fixtures.stage_failure(failure, overwrite=self._scope.mode is Mode.RECORD)
        except (RecordingRefused, FixtureIntegrityFailed) as error:
            self._core.ledger.refuse(f"{self._what}: {error}")
            return
        if self._claim is not None:
            self._claim.settle(failure)
        self._advance(failure)
        self._core.ledger.keep(self.key)

    def _stage(self, outcome: Outcome) -> Outcome:
        assert self._state is not None  # noqa: S101 - of a mode that records
        fixtures, overwrite = self._scope.fixtures, self._scope.mode is Mode.RECORD
        if isinstance(outcome, Exchange):
            return fixtures.stage_failure(outcome, overwrite=overwrite)
        origin = {**self._origin, **self._scope.meta}
        before, committed = self._state.successes, self._state.committed
        return fixtures.stage(self._ask(), self.key, before, outcome, committed, origin, overwrite=overwrite)

    def _advance(self, outcome: Outcome) -> None:
        assert self._state is not None  # noqa: S101 - whoever has no state has no turns
        if isinstance(outcome, Answer):
            self._state.successes.append(outcome)
        self._state.turns.advance()

    @property
    def _what(self) -> str:
        return f"{self.key.model} {self.key.prompt_hash[:16]}"


class Attempt:
    """One live call, until it has ended well or not."""

    __slots__ = ("_bill", "_turn", "is_good", "problem")

    def __init__(self, turn: Turn, bill: Bill) -> None:
        self.is_good = False
        self.problem = ""
        """Why it brought no good answer."""
        self._turn = turn
        self._bill = bill

    def keep(self, answer: Answer, usage: TokenUsage | None) -> None:
        """It ended well; see :meth:`Turn.keep`."""
        self.is_good = True
        self._bill.pay(usage)
        self._turn.keep(answer, usage)

    def fail(self, wire: dict[str, JsonValue]) -> None:
        """The provider answered with an error, which costs nothing."""
        self._bill.pay(TokenUsage(0, 0))
        self._turn.keep_failure(wire)


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
