"""Notices while something is recorded that a server offers other tools than were recorded before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchanges import look_up_call
from cortex_replay.engine.mcp.turns import CallTurn
from cortex_replay.engine.scope import Scope
from cortex_replay.mcp.offers import LISTS, Change, Offer, compare_offers
from cortex_replay.mcp.questions import question_of
from cortex_replay.store.exchange import Exchange

__all__ = ["ListWatch"]

_MOST_TOLD: Final = 20
_MOST_PAGES: Final = 1000


class ListWatch:
    """Compares each list that a server gives anew with what the store has of it.

    Args:
        scope: Whose calls these are.
        server: The name of the server.
    """

    def __init__(self, scope: Scope, server: str) -> None:
        self._scope = scope
        self._server = server
        self._pages: dict[str, list[JsonValue]] = {}
        """What came of each list so far; a page that follows another is asked for by itself."""
        self._first: dict[str, CallTurn] = {}

    def take(self, method: str, turn: CallTurn) -> None:
        """A page of a list was kept; with the last one, say what changed."""
        if method not in LISTS or turn.kept is None or (result := _result_in(turn.kept)) is None:
            return
        body = turn.look.asked.get("body")
        if not isinstance(body, dict) or not body.get("cursor"):
            self._pages[method], self._first[method] = [], turn
        if method not in self._first:
            return
        self._pages[method].append(result)
        if result.get("nextCursor"):
            return
        first, pages = self._first.pop(method), self._pages.pop(method)
        before = list(self._recorded(method, first))
        if before:
            offers = [Offer.of_pages((method, page) for page in some) for some in (before, pages)]
            self._tell(compare_offers(*offers))

    def _recorded(self, method: str, first: CallTurn) -> Iterator[JsonValue]:
        """The pages of the list as it was recorded before."""
        answers: Sequence[Exchange] = first.state.committed if first.state is not None else ()
        place = first.place
        for _ in range(_MOST_PAGES):
            if not answers or (result := _result_in(answers[min(place, len(answers) - 1)])) is None:
                return
            yield result
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str):
                return
            look = look_up_call(self._scope, question_of(self._server, method, {"cursor": cursor}))
            found = self._scope.store.exchange(look.key, self._scope.owner)
            answers = () if found is None else found.apart()

    def _tell(self, changes: list[Change]) -> None:
        ledger = self._scope.run.ledger
        for change in changes[:_MOST_TOLD]:
            what = " " if change.what in ("added", "removed", "renamed") else f", {change.what}: "
            told = f"{change.of} {change.name}{what}{change.text}{' (breaking)' * change.is_breaking}"
            ledger.remark(f"{self._server} changed since it was recorded: {told}")
        if len(changes) > _MOST_TOLD:
            more = len(changes) - _MOST_TOLD
            ledger.remark(f"{self._server} changed since it was recorded: {more} more changes")


def _result_in(exchange: Exchange) -> dict[str, JsonValue] | None:
    entries = exchange.wire.get("messages")
    for entry in entries if isinstance(entries, list) else ():
        match entry:
            case {"result": dict(result)}:
                return result
    return None
