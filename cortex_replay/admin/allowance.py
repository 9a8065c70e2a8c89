"""What one caller may spend while a server runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from cortex_replay.admin.callers import Caller
from cortex_replay.admin.errors import AdminError, Code
from cortex_replay.errors import (
    BudgetSpent,
    FixtureIntegrityFailed,
    InvalidRequest,
    NoFixture,
    StoreIo,
    Upstream,
)
from cortex_replay.types import LlmRequest, TokenUsage

__all__ = ["Allowance", "Bill"]

_BYTES_PER_TOKEN: Final = 2
"""Fewer than in any language people write, so that the guess is never below what a prompt costs."""
_UNLIMITED_ANSWER: Final = 8192
"""What an answer without a limit of its own is taken to cost at the most."""
_LOOK_AGAIN_S: Final = 0.01


class Bill:
    """What one call has cost; unknown until somebody says it."""

    def __init__(self) -> None:
        self.tokens: int | None = None

    def pay(self, usage: TokenUsage | None) -> None:
        if usage is not None:
            self.tokens = usage.prompt_tokens + usage.completion_tokens


class Allowance:
    """Counts the calls and tokens of one caller, and refuses the call that might be too much.

    Every call counts, replayed ones too: a limit must not behave one way in tests and another in life.
    """

    def __init__(self, caller: Caller) -> None:
        self.calls = 0
        self.tokens = 0
        self._caller = caller
        self._reserved = 0
        self._lock = threading.Lock()

    @asynccontextmanager
    async def call(self, request: LlmRequest) -> AsyncIterator[Bill]:
        """One call. Its most is set aside first, so that calls at once do not cross the limit together;
        where only what others have set aside stands in the way, it waits for them.

        Raises:
            AdminError: It might cross the limit. Nothing was asked.
        """
        most = 0
        if self._caller.max_tokens is not None:
            most = len(request.canonical_bytes()) // _BYTES_PER_TOKEN
            most += _UNLIMITED_ANSWER if request.max_tokens is None else request.max_tokens
        while not self._reserve(most):
            await asyncio.sleep(_LOOK_AGAIN_S)
        bill = Bill()
        try:
            yield bill
        except (Upstream, NoFixture, InvalidRequest, BudgetSpent, StoreIo, FixtureIntegrityFailed):
            bill.tokens = 0  # nobody answered
            raise
        finally:
            with self._lock:
                self._reserved -= most
                # What is not known may have cost what was set aside.
                self.tokens += most if bill.tokens is None else bill.tokens

    def _reserve(self, most: int) -> bool:
        most_calls, most_tokens = self._caller.max_calls, self._caller.max_tokens
        with self._lock:
            if most_calls is not None and self.calls >= most_calls:
                raise _spent("calls", most_calls)
            if most_tokens is not None and self.tokens + self._reserved + most > most_tokens:
                if self._reserved == 0 or self.tokens + most > most_tokens:  # waiting would not help
                    raise _spent("tokens", most_tokens)
                return False
            self.calls += 1
            self._reserved += most
            return True


def _spent(what: str, most: int) -> AdminError:
    hint = "; a smaller max_tokens may fit" if what == "tokens" else ""
    message = f"rate_limited: another call might cross the {most} {what} of this caller{hint}"
    return AdminError(Code.RATE_LIMITED, message, {"limit": what})
