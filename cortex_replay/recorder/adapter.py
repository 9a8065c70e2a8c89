"""The recorder: wraps any adapter and writes down what it answers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import ClassVar, Literal, get_args
from weakref import WeakKeyDictionary

from cortex_replay.adapters import LlmAdapter, ReplayAdapter
from cortex_replay.adapters.outcomes import Outcome, recorded_outcome
from cortex_replay.adapters.replay import chunks_of
from cortex_replay.adapters.turns import Turns
from cortex_replay.canonical import JsonValue
from cortex_replay.config import Settings, known_secrets
from cortex_replay.errors import InvalidRequest, Upstream
from cortex_replay.recorder.claims import Claim, Claims, FileClaims, MemoryClaims
from cortex_replay.recorder.fixtures import FixtureMaker
from cortex_replay.recorder.tape import Tape, answer_from, closing_stream
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.writer import CommitSummary
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

__all__ = ["Mode", "RecordingAdapter"]

Mode = Literal["replay", "record", "once", "live"]

RUN_VARIABLE = "CORTEX_REPLAY_RUN"
"""Names the run that this process is a part of; set by the outermost process."""

_MEMORY_CLAIMS: WeakKeyDictionary[Store, MemoryClaims] = WeakKeyDictionary()


class RecordingAdapter(LlmAdapter):
    """Answers from what it wraps, and records it; or from the store, as its mode says.

    One adapter is one scope: its n-th call of a key is answer n. Adapters that share a
    :class:`Store`, and processes that share a run, make one call where several of them need the same
    answer. A call that fails or is cancelled records nothing.

    What was recorded is staged at once and committed when the adapter is closed.

    Args:
        inner: What to ask.
        store: Where to record: an open :class:`Store`, or the root of one, which is made if it is not
            there.
        mode: ``once`` asks only what is not recorded, ``record`` asks everything and overwrites,
            ``replay`` never asks, ``live`` only asks.
        redactor: What to cut out before anything is stored; by default, the keys in the environment and
            what looks like a secret.
        record_failures: Whether an error of the provider is an answer to be recorded too.
        commit_on_close: Whether closing commits; else whoever owns the store does.
        meta: What else each recording is to say of where it comes from.
    """

    adapter_id: ClassVar[str] = "recorder"

    def __init__(
        self,
        inner: LlmAdapter,
        store: str | os.PathLike[str] | Store,
        mode: Mode = "once",
        *,
        redactor: Redactor | None = None,
        record_failures: bool = False,
        commit_on_close: bool = True,
        meta: Mapping[str, JsonValue] | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise InvalidRequest("mode", f"expected one of {', '.join(get_args(Mode))}, not {mode!r}")
        self._inner = inner
        self._store = store if isinstance(store, Store) else Store.open_or_create(store)
        self._mode: Mode = mode
        self._unrecorded: LlmAdapter | None = None
        if mode == "live":
            self._unrecorded = inner
        elif mode == "replay":
            self._unrecorded = ReplayAdapter(self._store)
        origin = {"adapter": inner.adapter_id, **(meta or {})}
        if redactor is None:
            redactor = Redactor(known_secrets(Settings(), os.environ))
        self._fixtures = FixtureMaker(self._store, redactor, origin, record_failures)
        self._claims: Claims = MemoryClaims() if self._unrecorded else _claims_of(self._store)
        self._commits_on_close = commit_on_close
        self._scope: dict[FixtureKey, _Key] = {}
        self._lock = threading.Lock()

    @property
    def store(self) -> Store:
        return self._store

    @property
    def mode(self) -> Mode:
        return self._mode

    async def complete(self, request: LlmRequest) -> LlmResponse:
        """The answer, asked for or recorded.

        Raises:
            RecordingRefused: A secret could not be cut out of it. Nothing was recorded.
            LlmError: Whatever the wrapped adapter, or replay, raises.
        """
        if self._unrecorded is not None:
            return await self._unrecorded.complete(request)
        async with self._turn(request) as turn:
            if turn.recorded is not None:
                turn.give(turn.recorded)
                return turn.recorded.response(request.model)
            with turn.failures_noted():
                response = await self._inner.complete(request)
            turn.keep(answer_from(response, request.model))
            return response

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        """The answer piece by piece, each handed on when it comes; see :meth:`complete`."""
        if self._unrecorded is not None:
            async with closing_stream(self._unrecorded.stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        async with self._turn(request) as turn:
            if turn.recorded is not None:
                for chunk in chunks_of(turn.recorded, request.model):
                    if chunk.response is not None:
                        turn.give(turn.recorded)
                    yield chunk
                return
            tape = Tape(request.model)
            with turn.failures_noted():
                async with closing_stream(self._inner.stream(request)) as chunks:
                    async for chunk in chunks:
                        tape.add(chunk)
                        if chunk.response is not None:
                            # Before it is handed on: whoever holds the last chunk may never come back.
                            turn.keep(tape.answer())
                        yield chunk
            if not turn.is_kept:
                turn.keep(tape.answer())

    async def commit(self) -> CommitSummary:
        """Commit what was recorded so far, by every adapter of this store."""
        return await asyncio.to_thread(self._store.commit)

    async def aclose(self) -> None:
        try:
            if self._commits_on_close and self._mode in ("once", "record"):
                await self.commit()
        finally:
            await self._inner.aclose()

    @asynccontextmanager
    async def _turn(self, request: LlmRequest) -> AsyncIterator[_Turn]:
        """The next turn of the request's key in this scope, with what is recorded for it, or with the
        claim to fetch it.

        Raises:
            Upstream: What is recorded is a failure.
        """
        key = self._store.key(request)
        state = self._state_of(key)
        async with state.turns.taken(request.timeout_ms):
            n = state.turns.given + 1
            outcome = None if self._mode == "record" else self._committed(key, state, n)
            if outcome is None:
                async with self._claims.claimed(key, n, request.timeout_ms) as claim:
                    outcome = claim.outcome
                    if outcome is None:
                        yield _Turn(self._fixtures, request, key, state, claim, self._mode == "record")
                        return
            if isinstance(outcome, Upstream):
                state.turns.advance()
                raise outcome
            yield _Turn(self._fixtures, request, key, state, None, self._mode == "record", outcome)

    def _committed(self, key: FixtureKey, state: _Key, n: int) -> Outcome | None:
        failures = self._store.failures(*key) if self._store.has_failures(*key) else {}
        return recorded_outcome(state.committed, failures, n) if state.committed or n in failures else None

    def _state_of(self, key: FixtureKey) -> _Key:
        with self._lock:
            state = self._scope.get(key)
            if state is None:
                state = self._scope[key] = _Key(self._fixtures.committed(key))
            return state


class _Key:
    """What this scope has asked of one key, and what was committed when it first did."""

    def __init__(self, committed: tuple[Answer, ...]) -> None:
        self.committed = committed
        self.turns = Turns()
        self.successes: list[Answer] = []


class _Turn:
    """One call: either with what is recorded for it, or about to be asked."""

    def __init__(
        self,
        fixtures: FixtureMaker,
        request: LlmRequest,
        key: FixtureKey,
        state: _Key,
        claim: Claim | None,
        overwrite: bool,
        recorded: Answer | None = None,
    ) -> None:
        self.recorded = recorded
        self.is_kept = False
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

    def give(self, answer: Answer) -> None:
        """The turn ended well with this answer."""
        self._state.successes.append(answer)
        self._state.turns.advance()

    @contextmanager
    def failures_noted(self) -> Iterator[None]:
        """Record an error of the provider as the answer of this turn, where that is asked for."""
        try:
            yield
        except Upstream as error:
            n = self._state.turns.given + 1
            if not self.is_kept and self._fixtures.stage_failure(
                self._key, n, error, overwrite=self._overwrite
            ):
                if self._claim is not None:
                    self._claim.settle(error)
                self._state.turns.advance()
            raise


def _claims_of(store: Store) -> Claims:
    run = os.environ.get(RUN_VARIABLE, "")
    if run:
        return FileClaims(store.run_folder(run))
    return _MEMORY_CLAIMS.setdefault(store, MemoryClaims())
