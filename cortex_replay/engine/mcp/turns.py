"""The turns of MCP calls.

A session may have equal calls open at the same time, and its server has a state of its own. So no call waits
for an equal one, and none is given the answer that another scope got: calls are numbered as they come, and
what is kept stands in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.exchanges import ExchangeTurn, answer_of_number, has_one_answer
from cortex_replay.engine.scope import Scope
from cortex_replay.engine.turns import KeyState
from cortex_replay.errors import RecordingRefused
from cortex_replay.modes import Mode
from cortex_replay.store.exchange import Exchange

__all__ = ["CallTurn", "begin_turn"]

_NOTHING: Final = Exchange({"messages": []})
"""Has the place of a call that is open, has failed, or was followed by nothing."""


@dataclass(slots=True, eq=False)
class CallTurn(ExchangeTurn):
    """One call of a session. What is kept of it has the place of its number."""

    place: int = 0
    is_notification: bool = False
    """Whether the client wants no answer, so that to have none is one."""

    @property
    def has_kept_others(self) -> bool:
        """Whether something was kept of an equal call."""
        return self.state is not None and any(kept is not _NOTHING for kept in self.state.successes)

    def keep(self, wire: dict[str, JsonValue], what: str, query: str) -> bool:
        """Stage an answer; see :meth:`ExchangeTurn.keep`."""
        with self._alone():
            return super(CallTurn, self).keep(wire, what, query)

    def _alone(self) -> AbstractContextManager[object]:
        """No equal call is staged meanwhile: each is staged with all of them."""
        return nullcontext() if self.state is None else self.state.staging

    def amend(self, wire: dict[str, JsonValue], what: str) -> None:
        """Stage anew what was kept, with what came behind it."""
        if self.state is None or self._kept is None:
            return
        with self._alone():
            try:
                self._kept = self._stage(Exchange(wire, key=self.look.key), self.state, is_amended=True)
            except RecordingRefused as error:
                self.scope.run.ledger.refuse(f"{what}: what came behind it: {error}")
            self._advance(self._kept, self.state)

    def withdraw(self) -> None:
        """Nothing came of it: the next equal call has its number, if none came since."""
        if self.state is not None and self.place == len(self.state.successes) - 1:
            self.state.successes.pop()
            self.state.turns.given -= 1

    def _in_order(self, clean: Exchange, state: KeyState[Exchange]) -> Sequence[Exchange]:
        places = [*state.successes]
        places[self.place] = clean
        kept = [answer for answer in places if self.is_notification or answer is not _NOTHING]
        return [*kept, *state.committed[len(places) :]]

    def _advance(self, exchange: Exchange, state: KeyState[Exchange]) -> None:
        state.successes[self.place] = exchange


def begin_turn(scope: Scope, look: ExchangeLookUp, *, is_notification: bool = False) -> CallTurn:
    """The next turn of a key: with what is recorded for it, or the right to ask; in replay, perhaps neither.

    Raises:
        FixtureIntegrityFailed: Its file is no longer what the index vouches for.
    """
    if scope.mode is Mode.LIVE:
        return CallTurn(scope, look)
    if scope.mode is Mode.REPLAY:
        recorded = scope.store.exchange(look.key, scope.owner)
        if recorded is None:
            return CallTurn(scope, look)  # nothing is counted: a client could ask for anything
        if has_one_answer(recorded, scope):
            only = replace(recorded, then=())
            if scope.fork is not None:
                return _copy_turn(scope.fork.road, look, only, is_notification=is_notification)
            return CallTurn(scope, look, stored=only)
    state = scope.exchange_state(look.key)
    scope.number_call(look.key, state)
    stored = None if scope.mode is Mode.RECORD else answer_of_number(state.committed, state.turns.given + 1)
    state.turns.advance()
    state.successes.append(stored or _NOTHING)
    if stored is not None and scope.fork is not None:
        return _copy_turn(scope.fork.road, look, stored, is_notification=is_notification)
    return CallTurn(
        scope,
        look,
        state,
        stored,
        exhausted=stored is None and bool(state.committed),
        is_pinned=stored is not None and scope.mode is Mode.ONCE,
        place=len(state.successes) - 1,
        is_notification=is_notification,
    )


def _copy_turn(road: Scope, look: ExchangeLookUp, stored: Exchange, *, is_notification: bool) -> CallTurn:
    """The turn of a fork's road that has what the past gives."""
    state = road.exchange_state(look.key)
    road.number_call(look.key, state)
    state.turns.advance()
    state.successes.append(stored)
    place = len(state.successes) - 1
    return CallTurn(road, look, state, stored, is_shared=True, place=place, is_notification=is_notification)
