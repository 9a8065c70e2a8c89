"""The recordings that play in a session, and what a client answers to them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.exchange_lookup import ExchangeLookUp
from cortex_replay.engine.exchanges import nothing
from cortex_replay.engine.mcp.calls import Call
from cortex_replay.engine.mcp.client_side import ClientSide
from cortex_replay.engine.mcp.open_calls import MOST_OPEN
from cortex_replay.engine.mcp.playback import Playback
from cortex_replay.engine.scope import Scope
from cortex_replay.mcp.messages import (
    INITIALIZE,
    INITIALIZED,
    INTERNAL_ERROR,
    LISTEN,
    NO_FIXTURE,
    OWN_IDS,
    Message,
    RequestId,
)
from cortex_replay.modes import Mode
from cortex_replay.store.exchange import Exchange

__all__ = ["Playbacks"]

_SHOWN_OF_KEY: Final = 12
_HANDSHAKE: Final = (INITIALIZE, INITIALIZED)


class Playbacks:
    """Plays what is recorded for calls.

    Args:
        scope: Whose calls these are.
        server: The name of the server.
        client: Who gets it.
    """

    def __init__(self, scope: Scope, server: str, client: ClientSide) -> None:
        self._scope = scope
        self._server = server
        self._client = client
        self._by_name: dict[str, Call] = {}
        self._played: Counter[str] = Counter()
        """How often each recording was played."""

    async def play(self, call: Call, wire: dict[str, JsonValue], look: ExchangeLookUp) -> None:
        """Give the client what is recorded for a call."""
        scope = self._scope
        if call.id is None:
            scope.run.ledger.use(look.key)
        else:
            scope.serve(nothing, look.key, Exchange(wire, key=look.key))
            self._client.count("hits")
        is_for_live_tools = scope.mode is Mode.REPLAY and scope.fork is None
        if is_for_live_tools and call.deed is not None and call.method not in _HANDSHAKE:
            call.deed.state = "failed"  # a server that is there for tools that are live runs no other one
        name = self._name(look.key)
        client = self._client
        call.playback = Playback(
            wire, call.message, client.deliver, name, self._clean, client.calls.subscription
        )
        self._by_name[name] = call
        if len(self._by_name) > MOST_OPEN:  # of those that wait for the client, the oldest waits in vain
            self._by_name.pop(next(iter(self._by_name)))
        await call.playback.play()
        await self._settle(call)

    def _name(self, key: str) -> str:
        """A name that says what is played, and how often it was: which of several connections brings its
        request first makes no difference to another call."""
        what = key[:_SHOWN_OF_KEY]
        self._played[what] += 1
        return f"{OWN_IDS}{what}-{self._played[what]}"

    async def take_answer(self, about: RequestId, answer: Message) -> None:
        """The client has answered what a playback asked."""
        call = self._by_name.get(str(about).rpartition("-")[0])
        playback = None if call is None else call.playback
        if call is None or playback is None:
            return
        difference = playback.take_answer(answer)
        if call.deed is not None:
            call.deed.answers[:] = playback.answered
        if difference:
            await self._take_difference(call, playback, difference)
        await playback.play()
        await self._settle(call)

    async def cancel(self, call: Call, playback: Playback) -> None:
        """The client has given up a call that plays."""
        await playback.cancel()
        await self._settle(call)

    async def _take_difference(self, call: Call, playback: Playback, difference: str) -> None:
        """The client has not answered what it answered when the call was recorded."""
        what = call.name(self._server)
        explained = self._scope.clean(f"cortex-replay: {what}: {difference}")
        if call.id is None or playback.has_ended:
            self._scope.run.ledger.remark(explained)
            return
        playback.stop()
        text = f"{explained}\nTo record it: {self._scope.how_to_record}"
        self._scope.count_miss(what, text, nothing)
        self._client.count("missed")
        await self._client.refuse(call, NO_FIXTURE, text)

    async def _settle(self, call: Call) -> None:
        if call.playback is not None and call.playback.is_over:
            self._by_name.pop(call.playback.name, None)
            if self._client.calls.get(call.id) is call and call.method != LISTEN:
                text = f"cortex-replay: the recording of {self._server} {call.method} has no end"
                await self._client.refuse(call, INTERNAL_ERROR, text)

    def _clean(self, value: JsonValue) -> JsonValue:
        return self._scope.run.redactor.document(value)[0]
