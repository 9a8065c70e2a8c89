"""The parent of every adapter that wraps another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from cortex_replay.adapters.base import LlmAdapter
from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk

__all__ = ["WrapperAdapter", "closing_stream"]


class WrapperAdapter(LlmAdapter):
    """Forwards every call to another adapter, and stands for it in recordings.

    A subclass overrides what it changes, and gets the rest from ``super()``.

    Args:
        inner: Who answers. Closing the wrapper closes it.
    """

    def __init__(self, inner: LlmAdapter) -> None:
        self.inner = inner

    @property
    def adapter_id(self) -> str:  # type: ignore[override] # a class constant in all others
        return self.inner.adapter_id

    @property
    def origin(self) -> dict[str, JsonValue]:
        return self.inner.origin

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return await self.inner.complete(request)

    def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        return self.inner.stream(request)

    async def aclose(self) -> None:
        await self.inner.aclose()


@asynccontextmanager
async def closing_stream(source: AsyncIterator[StreamChunk]) -> AsyncIterator[AsyncIterator[StreamChunk]]:
    """Close a stream that is left early, too; one that is no generator has nothing to close."""
    try:
        yield source
    finally:
        if isinstance(source, AsyncGenerator):
            await source.aclose()
