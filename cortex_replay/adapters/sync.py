"""The synchronous face of an adapter."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
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
    """Runs an adapter on an event loop in a thread of its own.

    A thread, because the caller may stand inside a running loop, as every notebook does. One for
    the whole process, because a test suite makes an adapter per test. It starts with the first call
    and dies with the process.
    """

    def __init__(self, adapter: _Answers) -> None:
        self._adapter = adapter

    def complete(self, request: LlmRequest) -> LlmResponse:
        """The whole answer, as :meth:`LlmAdapter.complete` gives it."""
        return _run(self._adapter.complete(request))

    def stream(self, request: LlmRequest) -> Iterator[StreamChunk]:
        """The answer piece by piece; each piece is handed on when it comes."""
        chunks = cast("AsyncGenerator[StreamChunk]", self._adapter.stream(request))
        try:
            while (chunk := _run(_next(chunks))) is not None:
                yield chunk
        finally:
            if not sys.is_finalizing():  # then the thread is gone, and with it whatever it held
                _run(_close(chunks))

    def close(self) -> None:
        """Close the adapter."""
        _run(self._adapter.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Loop:
    """The loop of this process, started when it is first needed and again in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(
                    target=self._loop.run_forever, name="cortex-replay-sync", daemon=True
                ).start()
            return self._loop


_LOOP = _Loop()


def _run(work: Coroutine[Any, Any, _T]) -> _T:
    if sys.is_finalizing():
        work.close()
        raise RuntimeError("the interpreter is shutting down")
    future = asyncio.run_coroutine_threadsafe(work, _LOOP.get())
    try:
        return future.result()
    except BaseException:
        future.cancel()  # an interrupt here must not leave the call running there
        raise


async def _next(chunks: AsyncGenerator[StreamChunk]) -> StreamChunk | None:
    return await anext(chunks, None)


async def _close(chunks: AsyncGenerator[StreamChunk]) -> None:
    await chunks.aclose()
