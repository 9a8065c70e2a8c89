"""An adapter that counts its calls, and what tests of recording ask it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

from cortex_replay import (
    LlmAdapter,
    LlmRequest,
    LlmResponse,
    Store,
    StreamChunk,
    TokenUsage,
    Upstream,
)
from tests.builder import ask

DIE = ask("Roll a die.")


class Counting(LlmAdapter):
    """Says how often it was asked, and can fail, stall, or be cancelled on the way."""

    adapter_id: ClassVar[str] = "counting"

    def __init__(self, delay_s: float = 0, fails: Callable[[int], bool] = lambda _: False) -> None:
        self.calls = 0
        self.is_closed = False
        self._delay_s = delay_s
        self._fails = fails

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return [chunk async for chunk in self.stream(request)][-1].response  # type: ignore[return-value]

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        self.calls += 1
        text = f"Answer {self.calls}."
        yield StreamChunk(text[:3])
        await asyncio.sleep(self._delay_s)
        if self._fails(self.calls):
            raise Upstream(529, "overloaded", "overloaded_error")
        yield StreamChunk(text[3:])
        response = LlmResponse(text, None, "real-model", TokenUsage(3, 4), "", "stop")
        yield StreamChunk("", "stop", response=response)

    async def aclose(self) -> None:
        self.is_closed = True


def texts(store: Store | Path, request: LlmRequest = DIE) -> list[str]:
    opened = store if isinstance(store, Store) else Store.open(store)
    return [answer.text for answer in opened.get(*opened.key(request)).answers]


async def read(adapter: LlmAdapter, request: LlmRequest = DIE) -> list[StreamChunk]:
    return [chunk async for chunk in adapter.stream(request)]


def run(work: Any) -> Any:
    return asyncio.run(work)
