"""A live adapter whose calls a run records itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

from cortex_replay.adapters.wrapper import WrapperAdapter, closing_stream
from cortex_replay.engine.bypass import bypassing
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

__all__ = ["BypassAdapter"]


class BypassAdapter(WrapperAdapter):
    """Asks another adapter past the interception of this process, which would record it once more."""

    async def complete(self, request: LlmRequest) -> LlmResponse:
        with bypassing():
            return await self.inner.complete(request)

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        async with closing_stream(self.inner.stream(request)) as chunks:
            while True:
                with bypassing():  # not while the caller has the chunk, and the say
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk
