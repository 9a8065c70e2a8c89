"""Counting what live calls cost, and stopping before a budget is crossed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from cortex_replay.adapters import LlmAdapter, closing_stream
from cortex_replay.errors import BudgetSpent, Upstream
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk, TokenUsage

__all__ = ["Meter", "MeteredAdapter"]

_BYTES_PER_TOKEN: Final = 2
"""Fewer than in any language people write, so that the guess is never below what a prompt costs."""
_LOOK_AGAIN_S: Final = 0.01
_UNLIMITED_ANSWER: Final = 8192
"""What an answer without a limit of its own is taken to cost at the most."""


@dataclass
class Meter:
    """The calls and tokens of one run, and how many of each it may spend."""

    most_calls: int | None = None
    most_tokens: int | None = None
    calls: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        self._reserved = 0
        self._lock = threading.Lock()

    def call(self, request: LlmRequest) -> AbstractAsyncContextManager[_Bill]:
        """One call; see :meth:`call_of`."""
        most = len(request.canonical_bytes()) // _BYTES_PER_TOKEN + (request.max_tokens or _UNLIMITED_ANSWER)
        return self.call_of(most)

    @asynccontextmanager
    async def call_of(self, most: int) -> AsyncIterator[_Bill]:
        """One call of at most so many tokens. They are set aside first, so that calls at once do not cross
        the budget together; where only what others have set aside stands in the way, it waits for them.

        Raises:
            BudgetSpent: It might cross the budget. Nothing was asked.
        """
        while not self._reserve(most):
            await asyncio.sleep(_LOOK_AGAIN_S)
        bill = _Bill()
        try:
            yield bill
        except Upstream:
            bill.pay(TokenUsage(0, 0))  # an error costs nothing
            raise
        finally:
            with self._lock:
                self._reserved -= most
                # What is not known, a stream that was left among it, may have cost what was set aside.
                self.tokens += most if bill.tokens is None else bill.tokens

    def _reserve(self, most: int) -> bool:
        with self._lock:
            if self.most_calls is not None and self.calls >= self.most_calls:
                raise BudgetSpent("calls", self.most_calls)
            if self.most_tokens is not None and self.tokens + self._reserved + most > self.most_tokens:
                if self._reserved == 0:
                    raise BudgetSpent("tokens", self.most_tokens)
                return False
            self.calls += 1
            self._reserved += most
            return True


class _Bill:
    def __init__(self) -> None:
        self.tokens: int | None = None

    def pay(self, usage: TokenUsage | None) -> None:
        if usage is not None:
            self.tokens = usage.prompt_tokens + usage.completion_tokens


class MeteredAdapter(LlmAdapter):
    """Forwards everything to another adapter, through a meter."""

    adapter_id: ClassVar[str] = "metered"

    def __init__(self, inner: LlmAdapter, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter
        # It stands for the other in recordings.
        self.adapter_id = inner.adapter_id  # type: ignore[misc]

    async def complete(self, request: LlmRequest) -> LlmResponse:
        async with self._meter.call(request) as bill:
            response = await self._inner.complete(request)
            bill.pay(response.usage)
            return response

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        source = self._inner.stream(request)
        async with self._meter.call(request) as bill, closing_stream(source) as chunks:
            async for chunk in chunks:
                if chunk.response is not None:
                    bill.pay(chunk.response.usage)
                yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
