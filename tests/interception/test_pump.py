"""Answers for clients that are not in the engine's loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event
from typing import Any, cast

from cortex_replay.engine.http.call import HttpReply
from cortex_replay.interception.pump import AsyncAnswer, SyncAnswer
from tests.waiting import LONGEST_S

REPLY = HttpReply(200, [], b"Hello")


class SlowToEnd:
    """An engine whose turn takes a moment to end after its answer is there."""

    def __init__(self) -> None:
        self.has_ended = False
        self._never = Event()

    @asynccontextmanager
    async def answer(self, *_: object) -> AsyncIterator[HttpReply]:
        yield REPLY
        self._never.wait(0.05)
        self.has_ended = True


def test_a_caller_gets_a_whole_answer_when_its_turn_has_ended() -> None:
    """It may end its scope at once, and what the turn staged has to be there by then."""
    engine: Any = SlowToEnd()
    assert SyncAnswer(engine, cast(Any, None), cast(Any, None), None).reply is REPLY
    assert engine.has_ended


def test_a_caller_in_a_loop_does_too() -> None:
    engine: Any = SlowToEnd()

    async def ask() -> HttpReply:
        return await AsyncAnswer(engine, cast(Any, None), cast(Any, None), None).head()

    assert asyncio.run(ask()) is REPLY
    assert engine.has_ended


class Endless:
    """An engine whose answer goes on until somebody ends it."""

    def __init__(self) -> None:
        self.has_ended = Event()

    @asynccontextmanager
    async def answer(self, *_: object) -> AsyncIterator[HttpReply]:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"first"
            await asyncio.Event().wait()

        try:
            yield HttpReply(200, [], live=pieces())
        finally:
            self.has_ended.set()


def test_a_caller_that_leaves_ends_the_call() -> None:
    engine: Any = Endless()
    answer = SyncAnswer(engine, cast(Any, None), cast(Any, None), None)
    assert next(answer.pieces()) == b"first"
    assert not engine.has_ended.is_set()

    answer.close()
    assert engine.has_ended.wait(LONGEST_S)


def test_a_caller_in_a_loop_that_leaves_ends_it_too() -> None:
    engine: Any = Endless()

    async def ask() -> bytes:
        answer = AsyncAnswer(engine, cast(Any, None), cast(Any, None), None)
        await answer.head()
        first = await anext(aiter(answer.pieces()))
        await answer.close()
        return first

    assert asyncio.run(ask()) == b"first"
    assert engine.has_ended.wait(LONGEST_S)
