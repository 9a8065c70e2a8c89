"""Calls that are recorded as they are: each is asked once in a run, for all who want it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.staging import RedactingStager
from cortex_replay.engine.state import RunState
from cortex_replay.engine.turns import Turns
from cortex_replay.errors import InvalidRequest, LlmError, RecordingRefused
from cortex_replay.modes import Mode
from cortex_replay.store import Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.types import TokenUsage

__all__ = ["ExchangeAttempt", "Exchanges"]

_WAIT_MS: Final = 600_000


class Exchanges:
    """The opaque exchanges of scopes that stage together."""

    def __init__(self, run: RunState, store: Store) -> None:
        self._run = run
        self._store = store
        self._stager: RedactingStager | None = None
        self._staged: dict[str, Exchange] = {}
        self._turns: dict[str, Turns] = {}

    def find(self, key: str, mode: Mode) -> Exchange | None:
        """What a call gets without asking: what this run has recorded, or the store has."""
        if mode is Mode.LIVE:
            return None
        return self._staged.get(key) or (None if mode is Mode.RECORD else self._store.exchange(key))

    @asynccontextmanager
    async def turn(self, key: str, mode: Mode) -> AsyncIterator[Exchange | None]:
        """Have a key's turn, with what another call was given meanwhile; in mode ``live``, at once."""
        if mode is Mode.LIVE:
            yield None
            return
        async with self._turns.setdefault(key, Turns()).take(_WAIT_MS):
            yield self.find(key, mode)

    @asynccontextmanager
    async def ask(self, what: str) -> AsyncIterator[ExchangeAttempt]:
        """Ask: what is done here is a live call, which counts as one.

        Raises:
            BudgetSpent: No more calls may be made.
        """
        async with self._run.budget.call_of(0) as bill:
            bill.pay(TokenUsage(0, 0))
            self._run.ledger.ask()
            attempt = ExchangeAttempt()
            problem, is_sent = "", True
            try:
                yield attempt
            except LlmError as error:
                problem, is_sent = f"{what}: {error}", not isinstance(error, InvalidRequest)
                raise
            finally:
                if not attempt.is_good:
                    self._run.ledger.fail(problem, is_sent=is_sent)

    def keep(self, exchange: Exchange, key: str, what: str, query: str, mode: Mode) -> None:
        """Stage an exchange, unless there is a secret in it that cannot be cut out."""
        if self._stager is None:
            self._stager = RedactingStager(self._store, self._run.redactor)
        request: dict[str, JsonValue] = exchange.request or {}
        problem = "there is a secret in what was asked"
        try:
            self._stager.refuse_request(request, query)
            problem = "a secret could not be cut out of the answer"
            exchange = self._stager.stage_exchange(exchange, overwrite=mode is Mode.RECORD)
        except RecordingRefused as error:
            self._run.ledger.refuse(f"{what}: {error if error.clearance else problem}")
            return
        self._staged[key] = exchange
        self._run.ledger.keep(key)


@dataclass(slots=True)
class ExchangeAttempt:
    """One live call of an opaque kind."""

    is_good: bool = False
