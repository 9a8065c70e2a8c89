"""The synchronous face of an adapter."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["SyncAdapter"]

_T = TypeVar("_T")


class _Answers(Protocol):
    async def complete(self, request: LlmRequest) -> LlmResponse: ...
    def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]: ...
    async def aclose(self) -> None: ...


class SyncAdapter:
    """Runs an adapter on an event loop of its own, in a thread of its own.

    One loop for all calls, because connections belong to the loop that opened them; a thread,
    because the caller may stand inside a running loop, as every notebook does. The thread starts
    with the first call and dies with the process at the latest.
    """

    def __init__(self, adapter: _Answers) -> None:
        self._adapter = adapter
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def complete(self, request: LlmRequest) -> LlmResponse:
        """The whole answer, as :meth:`LlmAdapter.complete` gives it."""
        return self._run(self._adapter.complete(request))

    def stream(self, request: LlmRequest) -> Iterator[StreamChunk]:
        """The answer piece by piece; each piece is handed on when it comes."""
        chunks = cast("AsyncGenerator[StreamChunk]", self._adapter.stream(request))
        try:
            while (chunk := self._run(_next(chunks))) is not None:
                yield chunk
        finally:
            self._run(_close(chunks))

    def close(self) -> None:
        """Close the adapter and stop the thread; the next call starts it again."""
        self._run(self._adapter.aclose())
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=_serve, args=(self._loop,), name="cortex-replay-sync", daemon=True
                ).start()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # an interrupt here must not leave the call running there
            raise


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _next(chunks: AsyncGenerator[StreamChunk]) -> StreamChunk | None:
    return await anext(chunks, None)


async def _close(chunks: AsyncGenerator[StreamChunk]) -> None:
    async with aclosing(chunks):
        pass
