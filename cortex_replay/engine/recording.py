"""The recorder: wraps any adapter and writes down what it answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar

from cortex_replay.adapters import LlmAdapter, closing_stream
from cortex_replay.canonical import JsonValue
from cortex_replay.config import Settings, known_secrets
from cortex_replay.engine.claims import MemoryClaims
from cortex_replay.engine.fixtures import FixtureMaker
from cortex_replay.engine.outcomes import failure_of
from cortex_replay.engine.replay import ReplayAdapter, chunks_of
from cortex_replay.engine.scope import RecordingScope, Turn, claims_of
from cortex_replay.engine.tape import Tape, answer_from
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.store import Answer, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.writer import CommitSummary
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

__all__ = ["RecordingAdapter"]


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
        mode: AnyMode = Mode.ONCE,
        *,
        redactor: Redactor | None = None,
        record_failures: bool = False,
        commit_on_close: bool = True,
        meta: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self._inner = inner
        self._store = store if isinstance(store, Store) else Store.open_or_create(store)
        self._mode = mode = Mode.of(mode)
        self._unrecorded: LlmAdapter | None = None
        if mode is Mode.LIVE:
            self._unrecorded = inner
        elif mode is Mode.REPLAY:
            self._unrecorded = ReplayAdapter(self._store)
        origin = {"adapter": inner.adapter_id, **(meta or {})}
        if redactor is None:
            redactor = Redactor(known_secrets(Settings(), os.environ))
        self._fixtures = FixtureMaker(self._store, redactor, origin, record_failures)
        claims = MemoryClaims() if self._unrecorded else claims_of(self._store)
        self._scope = RecordingScope(self._store, self._fixtures, claims, mode)
        self._commits_on_close = commit_on_close

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
            if isinstance(turn.recorded, Answer):
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
            if isinstance(turn.recorded, Answer):
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
            if self._commits_on_close and self._mode.writes:
                await self.commit()
        finally:
            await self._inner.aclose()

    @asynccontextmanager
    async def _turn(self, request: LlmRequest) -> AsyncIterator[Turn]:
        """The next turn of the request's key.

        Raises:
            Upstream: What is recorded for it is a failure.
        """
        key = self._store.key(request)
        async with self._scope.turn(request, key, request.timeout_ms) as turn:
            if isinstance(turn.recorded, Exchange):
                turn.give(turn.recorded)
                raise failure_of(turn.recorded)
            yield turn
