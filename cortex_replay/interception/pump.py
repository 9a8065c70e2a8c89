"""Answers for clients that are not in the engine's loop, or in no loop at all."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from cortex_replay.adapters.loop import BackgroundLoop
from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.question import Question
from cortex_replay.engine.http.render import error_reply
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import LlmError

__all__ = ["AsyncAnswer", "SyncAnswer"]

_END: Final = object()
_LOOP: Final = BackgroundLoop("cortex-replay")
"""Not the one of adapters: a synchronous client may be asked in that one, and would wait for itself."""


async def _pump(engine: Engine, scope: Scope, call: Call, question: Question | None, put: Any) -> None:
    """Put the head of an answer, its pieces and its end, or what went wrong."""
    try:
        async with engine.answer(scope, call, question) as reply:
            put(reply)
            if reply.live is not None:
                async for data in reply.live:
                    put(data)
        put(_END)
    except LlmError as error:
        put(error)
    except BaseException as error:
        put(error)
        raise


def _head(first: object, call: Call) -> HttpReply:
    """The head of an answer; if there is none, an error in the client's own shape."""
    if isinstance(first, HttpReply):
        return first
    if isinstance(first, LlmError):
        return error_reply(call.route.protocol, 424, f"cortex-replay: {first}", "gateway_error")
    if isinstance(first, BaseException):
        raise first
    raise TypeError(first)


class SyncAnswer:
    """An answer for a caller without a loop."""

    def __init__(self, engine: Engine, scope: Scope, call: Call, question: Question | None) -> None:
        self._pieces: queue.Queue[Any] = queue.Queue()
        self._work = _LOOP.submit(_pump(engine, scope, call, question, self._pieces.put))
        self.reply = _head(self._pieces.get(), call)

    def pieces(self) -> Iterator[bytes]:
        """The body of one that is under way."""
        while (piece := self._pieces.get()) is not _END:
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    def close(self) -> None:
        self._work.cancel()


class AsyncAnswer:
    """An answer for a caller in a loop of its own."""

    def __init__(self, engine: Engine, scope: Scope, call: Call, question: Question | None) -> None:
        self._pieces: asyncio.Queue[Any] = asyncio.Queue()
        self._call = call
        self._work = asyncio.ensure_future(_pump(engine, scope, call, question, self._pieces.put_nowait))
        self._work.add_done_callback(_consume)

    async def head(self) -> HttpReply:
        try:
            return _head(await self._pieces.get(), self._call)
        except BaseException:
            self._work.cancel()
            raise

    async def pieces(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not _END:
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    async def close(self) -> None:
        self._work.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self._work


def _consume(work: asyncio.Future[None]) -> None:
    """Whoever waits for the pieces was told; the task itself is nobody's."""
    if not work.cancelled():
        work.exception()
