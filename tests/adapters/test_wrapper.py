"""What every adapter around another has from its parent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

import pytest

from cortex_replay import (
    FaultAdapter,
    LlmAdapter,
    LlmRequest,
    LlmResponse,
    RecordingAdapter,
    Store,
    StreamChunk,
    WrapperAdapter,
)
from cortex_replay.adapters import closing_stream
from tests.builder import ask

HELLO = ask("Hello?")


class Inner(LlmAdapter):
    """Answers in two chunks, and knows what became of it."""

    adapter_id: ClassVar[str] = "the inner one"

    def __init__(self) -> None:
        self.is_closed = False
        self.has_closed_stream = False

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return LlmResponse("Hello!", None, request.model, None, "", "stop")

    def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        self._kept = self._chunks(request)  # or the garbage collector would close it
        return self._kept

    async def _chunks(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        try:
            yield StreamChunk("Hel")
            yield StreamChunk("lo!", "stop", response=await self.complete(request))
        finally:
            self.has_closed_stream = True

    async def aclose(self) -> None:
        self.is_closed = True


class Shouting(WrapperAdapter):
    """Changes whole answers and streams."""

    async def complete(self, request: LlmRequest) -> LlmResponse:
        response = await super().complete(request)
        return LlmResponse(response.text.upper(), None, response.model, None, "", "stop")

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        async with closing_stream(super().stream(request)) as chunks:
            async for chunk in chunks:
                yield StreamChunk(chunk.delta.upper(), chunk.finish_reason, response=chunk.response)


def test_a_bare_wrapper_forwards_everything() -> None:
    """Whole answers, streams, and the end."""
    inner = Inner()
    with WrapperAdapter(inner).sync as wrapper:
        assert wrapper.complete(HELLO).text == "Hello!"
        assert [chunk.delta for chunk in wrapper.stream(HELLO)] == ["Hel", "lo!"]

    assert inner.is_closed


def test_a_subclass_changes_what_it_overrides() -> None:
    """It gets the answer from its parent, and says something else."""
    with Shouting(Inner()).sync as wrapper:
        assert wrapper.complete(HELLO).text == "HELLO!"
        assert [chunk.delta for chunk in wrapper.stream(HELLO)] == ["HEL", "LO!"]


@pytest.mark.parametrize("kind", [WrapperAdapter, Shouting, FaultAdapter])
def test_a_stream_that_is_left_early_is_closed_to_the_ground(kind: type[WrapperAdapter]) -> None:
    """Through every wrapper: the innermost may hold a connection."""

    async def leave_early(inner: Inner) -> None:
        async with closing_stream(WrapperAdapter(kind(inner)).stream(HELLO)) as chunks:
            await anext(chunks)
            assert not inner.has_closed_stream
        assert inner.has_closed_stream  # here: the end of a loop closes whatever was left open

    asyncio.run(leave_early(Inner()))


def test_recordings_carry_the_name_of_the_inner_adapter(tmp_path: Path) -> None:
    """However many wrappers stand around it."""
    wrapper = Shouting(WrapperAdapter(Inner()))
    assert wrapper.adapter_id == "the inner one"

    with RecordingAdapter(wrapper, tmp_path).sync as recorder:
        recorder.complete(HELLO)
    store = Store.open(tmp_path)
    assert (store.get(*store.key(HELLO)).meta or {})["adapter"] == "the inner one"
