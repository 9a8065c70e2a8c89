"""The synchronous face of an adapter."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Final, Protocol, Self

from cortex_replay.adapters.loop import BackgroundLoop
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

__all__ = ["SyncAdapter"]

_LOOP: Final = BackgroundLoop("cortex-replay-sync")
"""One for the whole process: a test suite makes an adapter per test."""


class _Adapter(Protocol):
    async def complete(self, request: LlmRequest) -> LlmResponse: ...
    def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]: ...
    async def aclose(self) -> None: ...


class SyncAdapter:
    """Runs an adapter on a loop in the background."""

    def __init__(self, adapter: _Adapter) -> None:
        self._adapter = adapter

    def complete(self, request: LlmRequest) -> LlmResponse:
        """The whole answer, as :meth:`LlmAdapter.complete` gives it."""
        return _LOOP.run(self._adapter.complete(request))

    def stream(self, request: LlmRequest) -> Iterator[StreamChunk]:
        """The answer piece by piece; each piece is handed on when it comes."""
        chunks = self._adapter.stream(request)
        try:
            while (chunk := _LOOP.run(_next(chunks))) is not None:
                yield chunk
        finally:
            if not sys.is_finalizing():  # then the thread is gone, and with it whatever it held
                _LOOP.run(_close(chunks))

    def close(self) -> None:
        """Close the adapter."""
        _LOOP.run(self._adapter.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _next(chunks: AsyncIterator[StreamChunk]) -> StreamChunk | None:
    return await anext(chunks, None)


async def _close(chunks: AsyncIterator[StreamChunk]) -> None:
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()
