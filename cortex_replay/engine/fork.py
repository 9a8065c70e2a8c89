"""A road that leaves what is recorded (`docs/adr/0022-a-fork-is-a-scope.md`).

A scope that forks is two: the *past* answers its first calls from the store and asks nobody; the *road* asks,
and records all of it as its own, also what the past gave. The fork is the moment in which call N + 1 to a
model comes: whatever comes before it is of the past, whatever comes behind it is of the road.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.lookup import LookUp
from cortex_replay.engine.outcomes import Outcome
from cortex_replay.engine.turn import Ask, Caller, Turn
from cortex_replay.engine.turns import KeyState
from cortex_replay.store import Answer, FixtureKey

__all__ = ["Fork", "Road"]


class Road(Caller, Protocol):
    """A scope, as far as a fork has to know it."""

    def state_of(self, key: FixtureKey) -> KeyState[Answer]: ...
    def number_call(self, key: FixtureKey | str, state: KeyState[Any], ask: Ask | None = None) -> None: ...


_R = TypeVar("_R", bound=Road)


class Fork(Generic[_R]):
    """The fork of one scope.

    Args:
        calls: How many calls to models the past answers.
        road: Who asks from then on.
    """

    def __init__(self, calls: int, road: _R) -> None:
        self._calls = calls
        self._begun = 0
        self._lock = threading.Lock()
        self.road = road
        self.is_lost = False
        """Whether the past lacked an answer: the run has failed, and nobody is asked any more."""
        self._has_left = calls == 0

    @property
    def has_left(self) -> bool:
        """Whether the road has begun."""
        return self._has_left and not self.is_lost

    @property
    def calls(self) -> int:
        """How many calls to models the past was asked."""
        return self._begun

    def begin_call(self) -> bool:
        """A call to a model has come; whether it is of the road."""
        with self._lock:
            if self.is_lost:
                return False
            if self._begun >= self._calls:
                self._has_left = True
            else:
                self._begun += 1
            return self._has_left

    def lose(self) -> None:
        """The past lacks an answer. What would come now is not what would have come."""
        with self._lock:
            self.is_lost = self.is_lost or not self._has_left

    @asynccontextmanager
    async def copy_turn(
        self,
        ask: Ask,
        look: LookUp,
        origin: Mapping[str, JsonValue],
        past: KeyState[Answer],
        stored: Outcome,
        meta: Mapping[str, JsonValue] | None,
        timeout_ms: int,
    ) -> AsyncIterator[Turn]:
        """The turn of the road that has what the past gives.

        Args:
            ask: What is asked.
            look: What it was found by.
            origin: Who answers.
            past: How far the past has come with this key.
            stored: What it has for it.
            meta: What the recording says of itself.
            timeout_ms: How long to wait for calls before.
        """
        if isinstance(stored, Answer) and stored.meta is None and meta is not None:
            stored = replace(stored, meta=dict(meta))  # among other answers, it still says when it is from
        state = self.road.state_of(look.key)
        async with state.turns.take(timeout_ms):
            given = state.turns.given
            self.road.number_call(look.key, state, ask)
            try:
                yield Turn(self.road, ask, look, origin, state, stored, meta, is_shared=True)
            finally:
                if state.turns.given > given:
                    if isinstance(stored, Answer):
                        past.successes.append(stored)
                    past.turns.advance()
                else:  # who did not get all of it makes the same call again
                    self._take_back()

    def _take_back(self) -> None:
        with self._lock:
            self._begun -= not self._has_left
