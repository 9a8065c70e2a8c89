"""Recorded WebSockets: found by what a client sends, message by message; and taken down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from cortex_replay.bindings import Binder
from cortex_replay.bindings.requests import rewrite_value
from cortex_replay.canonical import JsonValue
from cortex_replay.engine.bound_answers import fill_wire
from cortex_replay.engine.exchange_lookup import look_up_exchange
from cortex_replay.engine.http.call import Call
from cortex_replay.engine.http.opaque import opaque_key, opaque_request
from cortex_replay.engine.lookup import binder_of_known
from cortex_replay.engine.ws.messages import ClientMessages
from cortex_replay.misses.differences import MISSING, Difference, differences, escape_text
from cortex_replay.store import Store
from cortex_replay.store.exchange import Exchange
from cortex_replay.store.fixture import bindings_in
from cortex_replay.store.frames import WEBSOCKET, Close, Frame, close_in, frames_in, wire_of_frames

__all__ = ["Playback", "Recorded", "SessionMiss", "SessionTape", "opening_request", "recorded_sessions"]

_MOST_BYTES: Final = 32 * 2**20
"""Of a session that is recorded."""
_MOST_DIFFERENCES: Final = 5


class SessionMiss(Exception):
    """No recorded session goes on like this; the message says in what it differs."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded session."""

    key: str
    n: int
    """Which of those in which the client says the same, from 1."""
    sent: list[JsonValue]
    frames: list[Frame]
    subprotocol: str | None
    close: Close | None
    exchange: Exchange

    @classmethod
    def of(cls, exchange: Exchange, n: int = 1) -> Recorded:
        body = (exchange.request or {}).get("body")
        subprotocol = exchange.wire.get("subprotocol")
        return cls(
            exchange.key or "",
            n,
            body if isinstance(body, list) else [],
            frames_in(exchange.wire),
            subprotocol if isinstance(subprotocol, str) else None,
            close_in(exchange.wire),
            exchange,
        )


def opening_request(call: Call) -> dict[str, JsonValue]:
    """What a client opens, without credentials; what it sends is still to come."""
    return {**opaque_request(call), "method": WEBSOCKET, "body": []}


def recorded_sessions(
    store: Store, opening: dict[str, JsonValue], scope: str, binder: Binder
) -> list[Recorded]:
    """The sessions that a scope has at one place, its own and those that all share; the longest first.

    Args:
        store: What is recorded.
        opening: What a client opens.
        scope: Whose sessions are looked for.
        binder: What binds values in the place; those that were recorded without bindings count, too.

    Raises:
        FixtureIntegrityFailed: A file is no longer what the index vouches for.
    """
    places = [opening, look_up_exchange(binder, opening).request]
    found = (store.exchange(key, scope) for key in store.exchange_keys(scope))
    sessions = [
        Recorded.of(replace(exchange, wire=wire, then=()), n)
        for exchange in found
        if exchange is not None and "frames" in exchange.wire and _is_at(exchange, places)
        for n, wire in enumerate(exchange.wires, 1)
    ]
    return sorted(sessions, key=lambda session: (-len(session.sent), session.key, session.n))


def _is_at(exchange: Exchange, places: list[dict[str, JsonValue]]) -> bool:
    plain, bound = places
    asked, place = exchange.request or {}, bound if bindings_in(exchange.meta) else plain
    return all(asked.get(name) == place[name] for name in ("upstream", "method", "path", "query"))


class Playback:
    """One replayed session: what the server says, as soon as the client has said what it said before.

    Args:
        sessions: Those that it may be; the first is played until the client's messages tell.
        binder: What binds values in them.
    """

    def __init__(self, sessions: list[Recorded], binder: Binder) -> None:
        self._sessions = sessions
        self._messages = ClientMessages()
        _, self._binding = binder_of_known(binder).bind_value(None)
        self._binding.numbering.is_closed = False  # it goes on

    @property
    def session(self) -> Recorded:
        """The one that is played."""
        return self._sessions[0]

    @property
    def is_at_first(self) -> bool:
        """Whether the client has said one thing at the most."""
        return self._messages.count <= 1

    def due(self) -> list[tuple[int, str | bytes]]:
        """What the server says now, before the client says more: times and messages."""
        names = bindings_in(self.session.exchange.meta)
        return [
            (frame.at_ms, self._show(frame.message, names))
            for frame in self.session.frames
            if frame.after == self._messages.count
        ]

    def _show(self, message: str | bytes, names: tuple[str, ...]) -> str | bytes:
        """A stored message with the values of today, and what this client made up."""
        if isinstance(message, bytes):
            return message
        if names:
            match fill_wire({"frames": [{"text": message}]}, self._binding.filling, names):
                case {"frames": [{"text": str(filled)}]}:
                    message = filled
        return self._messages.show(message)

    @property
    def close(self) -> Close | None:
        """How the server closes the connection now, if it does."""
        close = self.session.close
        return close if close is not None and close.after == self._messages.count else None

    def take(self, message: str | bytes) -> None:
        """Go on with what the client says.

        Raises:
            SessionMiss: Nothing that is recorded goes on like this.
        """
        number = self._messages.count
        said = self._messages.read(message)
        bound = rewrite_value(said, self._binding.text)

        def read_for(session: Recorded) -> JsonValue:
            return bound if bindings_in(session.exchange.meta) else said

        fitting = [
            session
            for session in self._sessions
            if number < len(session.sent) and self._messages.is_last(read_for(session), session.sent[number])
        ]
        if not fitting:
            raise SessionMiss("\n".join(_describe(self.session, number, read_for(self.session))))
        self._sessions = fitting


def _describe(session: Recorded, number: int, said: JsonValue) -> Iterator[str]:
    if number >= len(session.sent):
        yield f"The recorded session ends after message {number} of the client; this one goes on with:"
        yield f"  {Difference(_name(number, said), MISSING, said)}"
        return
    recorded = session.sent[number]
    yield f"Message {number + 1} of the client is not the recorded one. It differs in:"
    name = _name(number, said)
    for difference in list(differences({name: recorded}, {name: said}))[:_MOST_DIFFERENCES]:
        yield f"  {difference}"


def _name(number: int, said: JsonValue) -> str:
    kind = said.get("type") if isinstance(said, dict) else None
    return f"message {number + 1}" + (f" ({escape_text(kind)})" if isinstance(kind, str) else "")


class SessionTape:
    """A session as it goes on."""

    def __init__(self, opening: dict[str, JsonValue], subprotocol: str | None) -> None:
        self._opening = opening
        self._subprotocol = subprotocol
        self._messages = ClientMessages()
        self._sent: list[JsonValue] = []
        self._frames: list[Frame] = []
        self._started = time.monotonic()
        self._size = 0
        self.close: Close | None = None

    @property
    def is_empty(self) -> bool:
        return not self._sent and not self._frames

    @property
    def is_too_large(self) -> bool:
        return self._size > _MOST_BYTES

    @property
    def size(self) -> int:
        return self._size

    def add_sent(self, message: str | bytes) -> JsonValue:
        """Take down what the client says; gives it as it is stored."""
        said = self._messages.read(message)
        self._grow(len(message))
        if not self.is_too_large:
            self._sent.append(said)
        return said

    def add_received(self, message: str | bytes) -> None:
        """Take down what the server says."""
        self._grow(len(message))
        if not self.is_too_large:
            at_ms = round((time.monotonic() - self._started) * 1000)
            text = self._messages.hide(message) if isinstance(message, str) else message
            self._frames.append(Frame(self._messages.count, at_ms, text))

    def add_close(self, code: int, reason: str) -> None:
        """Take down that the server closes the connection."""
        self.close = Close(self._messages.count, code, reason)

    def _grow(self, size: int) -> None:
        self._size += size
        if self.is_too_large:  # nothing of it can be stored
            self._sent, self._frames = [], []

    def exchange(self) -> Exchange:
        """The session as it is recorded."""
        request: dict[str, JsonValue] = {**self._opening, "body": self._sent}
        wire = wire_of_frames(self._frames, self._subprotocol, self.close)
        return Exchange(wire, key=opaque_key(request), request=request)
