"""What may be spent, in calls and in tokens: the budget of a run, the allowance of a caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from typing import Final, Protocol

from cortex_replay.errors import (
    BudgetSpent,
    FixtureIntegrityFailed,
    InvalidRequest,
    NoFixture,
    StoreIo,
    TurnTooLate,
    Upstream,
)
from cortex_replay.types import LlmRequest, TokenUsage

__all__ = ["Bill", "Budget", "Counters", "Spending"]

_BYTES_PER_TOKEN: Final = 2
"""Fewer than in any language people write, so that the guess is never below what a prompt costs."""
_LOOK_AGAIN_S: Final = 0.01
_UNLIMITED_ANSWER: Final = 8192
"""What an answer without a limit of its own is taken to cost at the most."""
_FREE: Final = (
    Upstream,
    NoFixture,
    InvalidRequest,
    BudgetSpent,
    TurnTooLate,
    StoreIo,
    FixtureIntegrityFailed,
)
"""Errors after which there is nothing to pay: no model has answered."""


@dataclass(slots=True)
class Counters:
    """What was spent so far, and what calls under way have set aside."""

    calls: int = 0
    tokens: int = 0
    reserved: int = 0


class Spending(Protocol):
    """Where the counters of a budget are kept."""

    def change(self) -> AbstractContextManager[Counters]:
        """The counters, for nobody else to change at the same time."""


class _OwnSpending:
    """Counters of this process."""

    def __init__(self) -> None:
        self._counters = Counters()
        self._lock = threading.Lock()

    @contextmanager
    def change(self) -> Iterator[Counters]:
        with self._lock:
            yield self._counters


@dataclass(slots=True)
class Bill:
    """What one call has cost; unknown until somebody says it."""

    tokens: int | None = None

    def pay(self, usage: TokenUsage | None) -> None:
        if usage is not None:
            self.tokens = usage.prompt_tokens + usage.completion_tokens


class Budget:
    """Counts calls and tokens, and refuses the call that might be too much.

    Args:
        most_calls: How many calls there may be; ``None`` for any number.
        most_tokens: How many tokens they may cost in all.
        refusal: The error for a call that might cross a limit, from ``calls`` or ``tokens`` and the limit.
        spending: Where to count, if not in this process alone.
    """

    def __init__(
        self,
        most_calls: int | None = None,
        most_tokens: int | None = None,
        *,
        refusal: Callable[[str, int], Exception] = BudgetSpent,
        spending: Spending | None = None,
    ) -> None:
        self.most_calls = most_calls
        self.most_tokens = most_tokens
        self._refusal = refusal
        self._spending = spending or _OwnSpending()

    @property
    def calls(self) -> int:
        with self._spending.change() as counters:
            return counters.calls

    @property
    def tokens(self) -> int:
        with self._spending.change() as counters:
            return counters.tokens

    def call(self, request: LlmRequest) -> AbstractAsyncContextManager[Bill]:
        """One call; see :meth:`call_of`."""
        most = 0
        if self.most_tokens is not None:
            most = len(request.canonical_bytes()) // _BYTES_PER_TOKEN
            most += _UNLIMITED_ANSWER if request.max_tokens is None else request.max_tokens
        return self.call_of(most)

    @asynccontextmanager
    async def call_of(self, most: int) -> AsyncIterator[Bill]:
        """One call of at most so many tokens. They are set aside first, so that calls at once do not cross
        the limit together; where only what others have set aside stands in the way, it waits for them.

        Raises:
            BudgetSpent: It might cross the limit, or whatever ``refusal`` makes of that. Nothing was asked.
        """
        while not self._reserve(most):
            await asyncio.sleep(_LOOK_AGAIN_S)
        bill, made = Bill(), 1
        try:
            yield bill
        except _FREE as error:
            bill.tokens = bill.tokens or 0
            made = 0 if isinstance(error, TurnTooLate) else made
            raise
        finally:
            with self._spending.change() as counters:
                counters.calls += made - 1
                counters.reserved -= most
                # What is not known, a stream that was left among it, may have cost what was set aside.
                counters.tokens += most if bill.tokens is None else bill.tokens

    def _reserve(self, most: int) -> bool:
        with self._spending.change() as counters:
            if self.most_calls is not None and counters.calls >= self.most_calls:
                raise self._refusal("calls", self.most_calls)
            if self.most_tokens is not None:
                left = self.most_tokens - counters.tokens - most
                if left < 0:  # waiting would not help
                    raise self._refusal("tokens", self.most_tokens)
                if left < counters.reserved:
                    return False
            counters.calls += 1
            counters.reserved += most
            return True
