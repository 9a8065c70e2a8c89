"""Answers for clients that are not in the engine's loop, or in no loop at all."""

from __future__ import annotations

import asyncio
import contextlib
import queue
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from cortex_replay.engine.http.call import Call, HttpReply
from cortex_replay.engine.http.engine import Engine
from cortex_replay.engine.http.question import Question
from cortex_replay.engine.http.render import error_reply
from cortex_replay.engine.scope import Scope
from cortex_replay.errors import LlmError

if TYPE_CHECKING:
    from cortex_replay.adapters.loop import BackgroundLoop

__all__ = ["AsyncAnswer", "SyncAnswer", "call_aside"]

_T = TypeVar("_T")
_END: Final = object()


@cache
def _loop() -> BackgroundLoop:
    """Not the one of adapters: a synchronous client may be asked in that one, and would wait for itself."""
    from cortex_replay.adapters.loop import BackgroundLoop  # noqa: PLC0415 - a replayed answer needs none

    return BackgroundLoop("cortex-replay")


async def _pump(engine: Engine, scope: Scope, call: Call, question: Question | None, put: Any) -> None:
    """Put the head of an answer, its pieces and its end, or what went wrong.

    An answer that is there whole is put when its turn has ended: a caller that has it may end its scope, and
    what the turn stages would come too late.
    """
    try:
        async with engine.answer(scope, call, question) as reply:
            if reply.live is not None:
                put(reply)
                async for data in reply.live:
                    put(data)
        put(reply if reply.live is None else _END)
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
        self._work = _loop().submit(_pump(engine, scope, call, question, self._pieces.put))
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
    """An answer for a caller in a loop of its own. It is made in ours: whoever watches that no call blocks
    the caller's loop would see us read files in it."""

    def __init__(self, engine: Engine, scope: Scope, call: Call, question: Question | None) -> None:
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Any] = asyncio.Queue()
        self._pieces = pieces
        self._call = call
        self._has_ended: Future[None] = Future()
        self._has_ended.set_running_or_notify_cancel()  # whoever waits for it cannot cancel it

        def put(piece: object) -> None:
            with contextlib.suppress(RuntimeError):  # the caller's loop is closed: nobody waits
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        async def work() -> None:
            try:
                await _pump(engine, scope, call, question, put)
            finally:
                self._has_ended.set_result(None)

        self._work = _loop().submit(work())

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
        await asyncio.wrap_future(self._has_ended)


async def call_aside(function: Callable[[], _T]) -> _T:
    """Call a function that may read files where it holds up no loop of a caller."""

    async def work() -> _T:
        return function()

    return await asyncio.wrap_future(_loop().submit(work()))
