"""A scope as an adapter: what it asks, it asks of another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import ClassVar

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.adapters.wrapper import WrapperAdapter, closing_stream
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.lookup import LookUp
from cortex_replay.engine.outcomes import chunks_of, failure_of
from cortex_replay.engine.scope import Scope
from cortex_replay.engine.tape import Tape, answer_from
from cortex_replay.engine.turn import Turn
from cortex_replay.errors import NoFixture
from cortex_replay.store import Answer, Fixture, Store
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

__all__ = ["ScopeAdapter"]


class _Nobody(LlmAdapter):
    """Stands where replay asks no one."""

    adapter_id: ClassVar[str] = "replay"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        raise NoFixture(request.model, request.prompt_hash())


class ScopeAdapter(WrapperAdapter):
    """Answers in the mode of a scope: from the store, or from another adapter, whose answers are recorded.

    Args:
        scope: Whose turns they are.
        inner: What to ask; needed in every mode but replay.
        meta: What recordings are to say of who answered, besides the adapter.
    """

    def __init__(
        self, scope: Scope, inner: LlmAdapter | None = None, meta: Mapping[str, JsonValue] | None = None
    ) -> None:
        super().__init__(inner or _Nobody())
        self._scope = scope
        self._origin = {**inner.origin, **(meta or {})} if inner else {}

    @property
    def store(self) -> Store:
        return self._scope.store

    async def complete(self, request: LlmRequest) -> LlmResponse:
        """The answer, recorded or asked for.

        Raises:
            NoFixture: Nothing is recorded for this request, or its answers are used up, and nobody may be
                asked.
            FixtureIntegrityFailed: Its file is no longer what the index vouches for.
            RecordingRefused: A secret could not be cut out of the answer. Nothing was recorded.
            BudgetSpent: The call might cost more than is left. Nothing was asked.
            LlmError: Whatever the wrapped adapter raises.
        """
        scope = self._scope
        look = scope.look_up(request)
        if (sole := scope.sole_fixture(look.key)) is not None:
            answer = look.fill_answer(sole.answers[0], sole.meta)
            self._serve(request, look, answer, sole)
            return answer.response(request.model)
        async with self._turn(request, look) as turn:
            if isinstance(turn.outcome, Answer):
                response = turn.outcome.response(request.model)
                turn.serve()
                turn.end()
                return response
            async with turn.ask() as attempt:
                response = await self.inner.complete(request)
                attempt.keep(answer_from(response, request.model), response.usage)
            return response

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        """The answer piece by piece: as recorded, without pauses, or as it comes; see :meth:`complete`."""
        scope = self._scope
        look = scope.look_up(request)
        if (sole := scope.sole_fixture(look.key)) is not None:
            answer = look.fill_answer(sole.answers[0], sole.meta)
            for chunk in chunks_of(answer, request.model):
                if chunk.response is not None:
                    self._serve(request, look, answer, sole)
                yield chunk
            return
        async with self._turn(request, look) as turn:
            if isinstance(turn.outcome, Answer):
                for chunk in chunks_of(turn.outcome, request.model):
                    if chunk.response is not None:
                        # The caller has it all once it holds the last chunk, and may stop there.
                        turn.serve()
                        turn.end()
                    yield chunk
                return
            tape = Tape(request.model)
            async with turn.ask() as attempt, closing_stream(self.inner.stream(request)) as chunks:
                async for chunk in chunks:
                    tape.add(chunk)
                    if chunk.response is not None:
                        # Before it is handed on: whoever holds the last chunk may never come back.
                        attempt.keep(tape.answer(), chunk.response.usage)
                    yield chunk
                if not attempt.is_good:
                    answer = tape.answer()
                    attempt.keep(answer, answer.usage)

    def _serve(self, request: LlmRequest, look: LookUp, answer: Answer, recording: Fixture) -> None:
        self._scope.serve(lambda: request, look.key, answer, recording.meta)

    @asynccontextmanager
    async def _turn(self, request: LlmRequest, look: LookUp) -> AsyncIterator[Turn]:
        """The next turn of the request's key.

        Raises:
            Upstream: What is recorded for it is a failure.
        """
        async with self._scope.turn(lambda: request, look, request.timeout_ms, self._origin) as turn:
            if turn.outcome is not None and not isinstance(turn.outcome, Answer):
                turn.serve()
                turn.end()
                raise failure_of(turn.outcome)
            yield turn
