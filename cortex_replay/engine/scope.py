"""One scope of a recording: whose turn it is, what is recorded for it, and who asks.

A call passes three gates: the turn of its key in this scope, the store (in mode ``once``), and the claim to
the answer among all scopes of the run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakKeyDictionary

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.claims import Claim, Claims, FileClaims, MemoryClaims
from cortex_replay.engine.fixtures import FixtureMaker
from cortex_replay.engine.outcomes import Outcome, recorded_outcome
from cortex_replay.engine.turns import Turns
from cortex_replay.errors import Upstream
from cortex_replay.modes import Mode
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import LlmRequest

__all__ = ["RUN_VARIABLE", "RecordingScope", "Turn", "claims_of"]

RUN_VARIABLE = "CORTEX_REPLAY_RUN"
"""Names the run that this process is a part of; set by the outermost process."""

_MEMORY_CLAIMS: WeakKeyDictionary[Store, MemoryClaims] = WeakKeyDictionary()


def claims_of(store: Store) -> Claims:
    """The claims of the run that this process is a part of."""
    run = os.environ.get(RUN_VARIABLE, "")
    if run:
        return FileClaims(store.run_folder(run))
    return _MEMORY_CLAIMS.setdefault(store, MemoryClaims())


class RecordingScope:
    """The n-th call of a key in it is answer n.

    Args:
        store: Where to record.
        fixtures: Makes fixtures of answers.
        claims: Those of the run.
        mode: Whether to ask what is recorded already.
        keeps_shared: Whether what another scope has asked is staged here, too: that other scope may be
            a test that fails, and its answers are then not kept.
    """

    def __init__(
        self,
        store: Store,
        fixtures: FixtureMaker,
        claims: Claims,
        mode: Mode,
        *,
        keeps_shared: bool = False,
    ) -> None:
        self._store = store
        self._keeps_shared = keeps_shared
        self._fixtures = fixtures
        self._claims = claims
        self._overwrites = mode is Mode.RECORD
        self._keys: dict[FixtureKey, _Key] = {}
        self._lock = threading.Lock()

    @asynccontextmanager
    async def turn(self, request: LlmRequest, key: FixtureKey, timeout_ms: int) -> AsyncIterator[Turn]:
        """The next turn of a request's key, with what is recorded for it or with the claim to fetch it."""
        state = self._state_of(key)
        async with state.turns.taken(timeout_ms):
            n = state.turns.given + 1
            recorded = None if self._overwrites else self._committed(key, state, n)
            is_claimed = recorded is None
            if is_claimed:
                async with self._claims.claimed(key, n, timeout_ms) as claim:
                    recorded = claim.outcome
                    if recorded is None:
                        yield Turn(self._fixtures, request, key, state, claim, self._overwrites)
                        return
            turn = Turn(self._fixtures, request, key, state, None, self._overwrites, recorded)
            turn.is_shared = is_claimed and self._keeps_shared
            yield turn

    def _committed(self, key: FixtureKey, state: _Key, n: int) -> Outcome | None:
        failures = self._store.failures(*key) if self._store.has_failures(*key) else {}
        return recorded_outcome(state.committed, failures, n) if state.committed or n in failures else None

    def _state_of(self, key: FixtureKey) -> _Key:
        with self._lock:
            state = self._keys.get(key)
            if state is None:
                state = self._keys[key] = _Key(self._fixtures.committed(key))
            return state


class _Key:
    """What this scope has asked of one key, and what was committed when it first did."""

    def __init__(self, committed: tuple[Answer, ...]) -> None:
        self.committed = committed
        self.turns = Turns()
        self.successes: list[Answer] = []


class Turn:
    """One call: either with what is recorded for it, or about to be asked."""

    def __init__(
        self,
        fixtures: FixtureMaker,
        request: LlmRequest,
        key: FixtureKey,
        state: _Key,
        claim: Claim | None,
        overwrite: bool,
        recorded: Outcome | None = None,
    ) -> None:
        self.recorded = recorded
        self.is_kept = False
        self.is_shared = False
        self._fixtures = fixtures
        self._request = request
        self._key = key
        self._state = state
        self._claim = claim
        self._overwrite = overwrite

    def keep(self, answer: Answer) -> None:
        """Stage an answer that ended well, and let the others have it."""
        state = self._state
        if self._overwrite:
            self._fixtures.drop_failure(self._key, state.turns.given + 1)
        kept = self._fixtures.stage(
            self._request, self._key, state.successes, answer, state.committed, overwrite=self._overwrite
        )
        if self._claim is not None:
            self._claim.settle(kept)
        self.give(kept)
        self.is_kept = True

    def give(self, outcome: Outcome) -> None:
        """The turn ended with this."""
        if self.is_shared:
            self.is_shared = False
            self._stage_shared(outcome)
        if isinstance(outcome, Answer):
            self._state.successes.append(outcome)
        self._state.turns.advance()

    def _stage_shared(self, outcome: Outcome) -> None:
        if isinstance(outcome, Exchange):
            self._fixtures.stage_failure(outcome, overwrite=self._overwrite)
            return
        state = self._state
        self._fixtures.stage(
            self._request, self._key, state.successes, outcome, state.committed, overwrite=self._overwrite
        )

    def keep_failure(self, wire: dict[str, JsonValue]) -> bool:
        """Record an error of the provider as the answer of this turn, if that is asked for; tells whether."""
        if self.is_kept or not self._fixtures.records_failures:
            return False
        failure = Exchange.failure(self._key, self._state.turns.given + 1, wire)
        failure = self._fixtures.stage_failure(failure, overwrite=self._overwrite)
        if self._claim is not None:
            self._claim.settle(failure)
        self.give(failure)
        return True

    @contextmanager
    def failures_noted(self) -> Iterator[None]:
        """Keep an error of the provider, and raise it all the same."""
        try:
            yield
        except Upstream as error:
            self.keep_failure(_wire_of(error))
            raise


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
