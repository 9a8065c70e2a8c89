"""The recorder: wraps any adapter and writes down what it answers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, get_args
from weakref import WeakKeyDictionary

from cortex_replay.adapters import LlmAdapter, ReplayAdapter
from cortex_replay.adapters.replay import chunks_of, recorded_failure
from cortex_replay.adapters.turns import Turns
from cortex_replay.canonical import JsonValue, compact
from cortex_replay.errors import InvalidRequest, Upstream
from cortex_replay.recorder.claims import Claim, Claims, FileClaims, MemoryClaims
from cortex_replay.recorder.fixtures import FixtureMaker
from cortex_replay.recorder.tape import Tape, answer_from
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer, Fixture, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.writer import CommitSummary
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

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
        redactor: What to cut out before anything is stored; by default, what looks like a secret.
        record_failures: Whether an error of the provider is an answer to be recorded too.
        commit_on_close: Whether closing commits; else whoever owns the store does.
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
    ) -> None:
        if mode not in get_args(Mode):
            raise InvalidRequest("mode", f"expected one of {', '.join(get_args(Mode))}, not {mode!r}")
        self._inner = inner
        self._store = store if isinstance(store, Store) else Store.open_or_create(store)
        self._mode: Mode = mode
        self._replay = ReplayAdapter(self._store)
        self._fixtures = FixtureMaker(self._store, redactor or Redactor(), inner.adapter_id)
        self._claims = _claims_of(self._store)
        self._records_failures = record_failures
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
        if self._mode == "live":
            return await self._inner.complete(request)
        if self._mode == "replay":
            return await self._replay.complete(request)
        key = self._store.key(request)
        state = self._state_of(key)
        async with state.turns.taken(request.timeout_ms):
            recorded = self._recorded(key, state)
            if recorded is None:
                async with self._claimed(key, state, request) as claim:
                    if claim.answer is None:
                        response = await self._asked(request, key, state)
                        self._keep(request, key, state, claim, answer_from(response, request.model))
                        return response
                    recorded = claim.answer
            state.give(recorded)
            return recorded.response(request.model)

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        """The answer piece by piece, each handed on when it comes; see :meth:`complete`."""
        source = None
        if self._mode == "live":
            source = self._inner.stream(request)
        elif self._mode == "replay":
            source = self._replay.stream(request)
        if source is not None:
            async with aclosing(cast("AsyncGenerator[StreamChunk]", source)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        key = self._store.key(request)
        state = self._state_of(key)
        async with state.turns.taken(request.timeout_ms):
            recorded = self._recorded(key, state)
            if recorded is None:
                async with self._claimed(key, state, request) as claim:
                    if claim.answer is None:
                        live = self._asked_stream(request, key, state, claim)
                        async with aclosing(live) as chunks:
                            async for chunk in chunks:
                                yield chunk
                        return
                    recorded = claim.answer
            for chunk in chunks_of(recorded, request.model):
                if chunk.response is not None:
                    state.give(recorded)
                yield chunk

    async def commit(self) -> CommitSummary:
        """Commit what was recorded so far, by every adapter of this store."""
        summary = await asyncio.to_thread(self._store.commit)
        if isinstance(self._claims, MemoryClaims):
            self._claims.forget()
        return summary

    async def aclose(self) -> None:
        try:
            if self._commits_on_close and self._mode in ("once", "record"):
                await self.commit()
        finally:
            await self._inner.aclose()

    async def _asked(self, request: LlmRequest, key: FixtureKey, state: _Key) -> LlmResponse:
        try:
            return await self._inner.complete(request)
        except Upstream as error:
            self._note_failure(key, state, error)
            raise

    async def _asked_stream(
        self, request: LlmRequest, key: FixtureKey, state: _Key, claim: Claim
    ) -> AsyncGenerator[StreamChunk]:
        tape = Tape(request.model)
        is_kept = False
        source = cast("AsyncGenerator[StreamChunk]", self._inner.stream(request))
        try:
            async with aclosing(source) as chunks:
                async for chunk in chunks:
                    tape.add(chunk)
                    if chunk.response is not None:
                        # Before it is handed on: whoever holds the last chunk may never come back.
                        self._keep(request, key, state, claim, tape.answer())
                        is_kept = True
                    yield chunk
        except Upstream as error:
            self._note_failure(key, state, error)
            raise
        if not is_kept:
            self._keep(request, key, state, claim, tape.answer())

    def _keep(self, request: LlmRequest, key: FixtureKey, state: _Key, claim: Claim, answer: Answer) -> None:
        """Stage an answer that ended well, and let the others have it."""
        kept = self._fixtures.stage(
            request, key, state.successes, answer, state.committed, overwrite=self._mode == "record"
        )
        claim.settle(kept)
        state.give(kept)

    def _note_failure(self, key: FixtureKey, state: _Key, error: Upstream) -> None:
        if self._records_failures:
            failure = Exchange.failure(key, state.turns.given + 1, _wire_of(error))
            self._fixtures.stage_failure(failure, overwrite=self._mode == "record")
            state.turns.advance()

    def _recorded(self, key: FixtureKey, state: _Key) -> Answer | None:
        """What the store has for this turn, where the mode lets it answer.

        Raises:
            Upstream: It has a failure.
        """
        if self._mode == "record":
            return None
        n = state.turns.given + 1
        failures = self._store.failures(*key) if self._store.has_failures(*key) else {}
        if n in failures:
            state.turns.advance()
            raise recorded_failure(failures[n].wire)
        if state.committed is None:
            return None
        answers = state.committed.answers
        if len(answers) == 1:
            return answers[0]
        position = n - 1 - sum(failed < n for failed in failures)
        return answers[position] if position < len(answers) else None

    def _claimed(
        self, key: FixtureKey, state: _Key, request: LlmRequest
    ) -> AbstractAsyncContextManager[Claim]:
        return self._claims.claimed(key, state.turns.given + 1, request.timeout_ms)

    def _state_of(self, key: FixtureKey) -> _Key:
        with self._lock:
            state = self._scope.get(key)
            if state is None:
                state = self._scope[key] = _Key(self._fixtures.committed(key))
            return state


class _Key:
    """What this scope has asked of one key, and what was committed when it first did."""

    def __init__(self, committed: Fixture | None) -> None:
        self.committed = committed
        self.turns = Turns()
        self.successes: list[Answer] = []

    def give(self, answer: Answer) -> None:
        self.successes.append(answer)
        self.turns.advance()


def _claims_of(store: Store) -> Claims:
    run = os.environ.get(RUN_VARIABLE, "")
    if run:
        return FileClaims(store.run_folder(run))
    return _MEMORY_CLAIMS.setdefault(store, MemoryClaims())


def _wire_of(error: Upstream) -> dict[str, JsonValue]:
    """An error as it is recorded: what the caller could see of it."""
    body: dict[str, Any] = {"message": error.message}
    if error.error_type is not None:
        body["type"] = error.error_type
    headers: Mapping[str, JsonValue] = {"content-type": "application/json"}
    return {"status": error.status, "headers": dict(headers), "body": compact({"error": body})}
