"""Answers from a store, and from nowhere else."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import ClassVar, Self

from cortex_replay.adapters.base import LlmAdapter, as_one_chunk
from cortex_replay.errors import NoFixture, Timeout
from cortex_replay.store import Answer, Fixture, FixtureKey, Store
from cortex_replay.store.store import Verify
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

__all__ = ["ReplayAdapter"]


class ReplayAdapter(LlmAdapter):
    """Replays what was recorded; a question that was never recorded is :class:`NoFixture`.

    It is a class to carry trust and a count: the store is checked when the adapter is made, and
    one adapter is one scope. In a scope the n-th call of a key gets the n-th recorded answer,
    where several were recorded; a fixture with one answer gives it every time.

    Args:
        store: The root of a store, or an open :class:`Store`.
        verify: How to check a store given by its path; see :meth:`Store.open`.
    """

    adapter_id: ClassVar[str] = "replay"

    def __init__(self, store: str | os.PathLike[str] | Store, verify: Verify = "full") -> None:
        self._store = store if isinstance(store, Store) else Store.open(store, verify=verify)
        self._turns: dict[FixtureKey, _Turns] = {}
        self._lock = threading.Lock()

    @property
    def fixture_count(self) -> int:
        """How many keys can be answered."""
        return len(self._store)

    @property
    def store(self) -> Store:
        return self._store

    async def complete(self, request: LlmRequest) -> LlmResponse:
        """The recorded answer.

        Raises:
            NoFixture: Nothing is recorded for this request, or its answers are used up.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
        """
        fixture = self._store.get(*self._store.key(request))
        if len(fixture.answers) == 1:
            return fixture.answers[0].response(request.model)
        async with self._turns_of(fixture).taken(request.timeout_ms) as turns:
            response = turns.answer().response(request.model)
            turns.advance()
            return response

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        """The recorded answer in its recorded chunks, without their pauses."""
        fixture = self._store.get(*self._store.key(request))
        if len(fixture.answers) == 1:
            for chunk in _chunks(fixture.answers[0], request.model):
                yield chunk
            return
        async with self._turns_of(fixture).taken(request.timeout_ms) as turns:
            for chunk in _chunks(turns.answer(), request.model):
                if chunk.response is not None:
                    # The caller has it all once it holds the last chunk, and may stop there.
                    turns.advance()
                yield chunk

    def _turns_of(self, fixture: Fixture) -> _Turns:
        with self._lock:
            return self._turns.setdefault(fixture.key, _Turns(fixture))


def _chunks(answer: Answer, asked_model: str) -> list[StreamChunk]:
    response = answer.response(asked_model)
    chunks = [timed.chunk for timed in answer.stream]
    if answer.wire is not None and answer.wire.get("stream") is True:
        from cortex_replay.wire.recorded import recorded_chunks  # noqa: PLC0415 - most stores need no codec

        chunks = recorded_chunks(answer.wire, asked_model)
    if not chunks:
        return [as_one_chunk(response)]
    last = chunks[-1]
    chunks[-1] = StreamChunk(
        last.delta, last.finish_reason or "stop", last.tool_calls, last.reasoning, response
    )
    return chunks


class _Turns:
    """Equal calls of one scope, one after another, whatever thread or loop they come from.

    An ``asyncio.Lock`` belongs to one loop and a ``threading.Lock`` would stop it, so those who
    wait hold a future of the thread-safe kind, and whoever is done wakes the next.
    """

    def __init__(self, fixture: Fixture) -> None:
        self._fixture = fixture
        self._given = 0
        self._is_taken = False
        self._waiting: deque[tuple[Future[None], asyncio.AbstractEventLoop]] = deque()
        self._lock = threading.Lock()

    def answer(self) -> Answer:
        if self._given >= len(self._fixture.answers):
            raise NoFixture(*self._fixture.key, exhausted=True)
        return self._fixture.answers[self._given]

    def advance(self) -> None:
        self._given += 1

    @asynccontextmanager
    async def taken(self, timeout_ms: int) -> AsyncIterator[Self]:
        """Have the turn, once everybody before has had it.

        Raises:
            Timeout: It did not come in time: most likely the caller itself holds it, with a stream
                of the same key that it has not finished.
        """
        await self._wait(timeout_ms)
        try:
            yield self
        finally:
            self._pass_on()

    async def _wait(self, timeout_ms: int) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            turn: Future[None] = Future()
            self._waiting.append((turn, asyncio.get_running_loop()))
        try:
            await asyncio.wait_for(asyncio.wrap_future(turn), timeout_ms / 1000)
        except BaseException as error:
            if not turn.cancelled() and not turn.cancel():  # it came in the very moment
                self._pass_on()
            if isinstance(error, TimeoutError):
                raise Timeout(timeout_ms) from None
            raise

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                turn, loop = self._waiting.popleft()
                # Whoever was cancelled, or lost with its loop, would never pass it on.
                if not loop.is_closed() and turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._is_taken = False
