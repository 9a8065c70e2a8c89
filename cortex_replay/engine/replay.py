"""Answers from a store, and from nowhere else."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from typing import ClassVar, Final

from cortex_replay.adapters.base import LlmAdapter, as_one_chunk
from cortex_replay.engine.outcomes import failure_of, recorded_outcome
from cortex_replay.engine.turns import Turns
from cortex_replay.errors import NoFixture
from cortex_replay.store import Answer, FixtureKey, Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.store import Verify
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

__all__ = ["HOW_TO_RECORD", "ReplayAdapter", "chunks_of"]

HOW_TO_RECORD: Final = (
    "wrap the adapter in RecordingAdapter, run the test once with --llm-mode once, "
    "or use `cortex-replay record`"
)
"""What a miss of an adapter says; it does not know how its program is started."""


class ReplayAdapter(LlmAdapter):
    """Replays what was recorded; a question that was never recorded is :class:`NoFixture`.

    It is a class to carry trust and a count: the store is checked when the adapter is made, and
    one adapter is one scope. In a scope the n-th call of a key gets the n-th recorded answer,
    where several were recorded; a fixture with one answer gives it every time.

    Args:
        store: The root of a store, or an open :class:`Store`.
        verify: How to check a store given by its path; see :meth:`Store.open`.
        explain: Whether a miss says what is nearest and what differs. It quotes what others asked, and looks
            through the whole store: not for callers that should see neither.
    """

    adapter_id: ClassVar[str] = "replay"

    def __init__(
        self, store: str | os.PathLike[str] | Store, verify: Verify = "full", *, explain: bool = True
    ) -> None:
        self._store = store if isinstance(store, Store) else Store.open(store, verify=verify)
        self._turns: dict[FixtureKey, Turns] = {}
        self._lock = threading.Lock()
        self._explains = explain

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
        key = self._store.key(request)
        single = self._only_answer(key, request)
        if single is not None:
            return single.response(request.model)
        async with self._turns_of(key).taken(request.timeout_ms) as turn:
            response = self._nth_answer(key, turn, request).response(request.model)
            turn.advance()
            return response

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        """The recorded answer in its recorded chunks, without their pauses."""
        key = self._store.key(request)
        single = self._only_answer(key, request)
        if single is not None:
            for chunk in chunks_of(single, request.model):
                yield chunk
            return
        async with self._turns_of(key).taken(request.timeout_ms) as turn:
            for chunk in chunks_of(self._nth_answer(key, turn, request), request.model):
                if chunk.response is not None:
                    # The caller has it all once it holds the last chunk, and may stop there.
                    turn.advance()
                yield chunk

    def _only_answer(self, key: FixtureKey, request: LlmRequest) -> Answer | None:
        """The answer that every call gets, where there is no question of turns."""
        if self._store.has_failures(*key):
            return None
        answers = self._answers(key, request)
        return answers[0] if len(answers) == 1 else None

    def _nth_answer(self, key: FixtureKey, turn: Turns, request: LlmRequest) -> Answer:
        """The answer of this turn.

        Raises:
            Upstream: It was a failure.
            NoFixture: There is none left.
        """
        failures = self._store.failures(*key)
        n = turn.given + 1
        answers = () if n in failures else self._answers(key, request)
        outcome = recorded_outcome(answers, failures, n)
        if outcome is None:
            raise self._missed(key, request, exhausted=True)
        if isinstance(outcome, Exchange):
            turn.advance()
            raise failure_of(outcome)
        return outcome

    def _answers(self, key: FixtureKey, request: LlmRequest) -> tuple[Answer, ...]:
        try:
            return self._store.get(*key).answers
        except NoFixture as error:
            raise self._missed(key, request, exhausted=error.exhausted) from None

    def _missed(self, key: FixtureKey, request: LlmRequest, *, exhausted: bool) -> NoFixture:
        if not self._explains:
            return NoFixture(*key, exhausted)
        from cortex_replay.misses.explanation import explain_miss  # noqa: PLC0415 - most replays miss nothing

        try:
            explanation = explain_miss(self._store, request, key, HOW_TO_RECORD)
        except Exception:  # noqa: BLE001 - whatever stands in the way of explaining a miss, it is a miss
            explanation = ""
        return NoFixture(*key, exhausted, explanation)

    def _turns_of(self, key: FixtureKey) -> Turns:
        with self._lock:
            return self._turns.setdefault(key, Turns())


def chunks_of(answer: Answer, asked_model: str) -> list[StreamChunk]:
    """A recorded answer in its recorded chunks; one that was not streamed is one chunk."""
    response = answer.response(asked_model)
    chunks = [timed.chunk for timed in answer.stream]
    if answer.wire is not None and answer.wire.get("stream") is True:
        from cortex_replay.wire.recording import decode_chunks  # noqa: PLC0415 - most stores need no codec

        chunks = decode_chunks(answer.wire, asked_model)
    if not chunks:
        return [as_one_chunk(response)]
    last = chunks[-1]
    chunks[-1] = StreamChunk(
        last.delta, last.finish_reason or "stop", last.tool_calls, last.reasoning, response
    )
    return chunks
