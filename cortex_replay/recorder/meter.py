"""Counting what live calls cost, and stopping before a budget is crossed."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, cast

from cortex_replay.adapters import LlmAdapter
from cortex_replay.errors import BudgetSpent
from cortex_replay.types import LlmRequest, LlmResponse, StreamChunk, TokenUsage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["Meter", "MeteredAdapter"]

_BYTES_PER_TOKEN: Final = 2
"""Fewer than in any language people write, so that the guess is never below what a prompt costs."""
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

    @contextmanager
    def call(self, request: LlmRequest) -> Iterator[_Bill]:
        """One call. Its most is set aside first, so that calls at once do not cross the budget together.

        Raises:
            BudgetSpent: It might cross the budget. Nothing was asked.
        """
        most = len(request.canonical_bytes()) // _BYTES_PER_TOKEN + (request.max_tokens or _UNLIMITED_ANSWER)
        with self._lock:
            if self.most_calls is not None and self.calls >= self.most_calls:
                raise BudgetSpent("calls", self.most_calls)
            if self.most_tokens is not None and self.tokens + self._reserved + most > self.most_tokens:
                raise BudgetSpent("tokens", self.most_tokens)
            self.calls += 1
            self._reserved += most
        bill = _Bill()
        try:
            yield bill
        finally:
            with self._lock:
                self._reserved -= most
                self.tokens += bill.tokens


class _Bill:
    def __init__(self) -> None:
        self.tokens = 0

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
        with self._meter.call(request) as bill:
            response = await self._inner.complete(request)
            bill.pay(response.usage)
            return response

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamChunk]:
        source = cast("AsyncGenerator[StreamChunk]", self._inner.stream(request))
        with self._meter.call(request) as bill:
            async with aclosing(source) as chunks:
                async for chunk in chunks:
                    if chunk.response is not None:
                        bill.pay(chunk.response.usage)
                    yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
