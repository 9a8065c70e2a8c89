"""The requests of a session that wait for their answer, and which of them a message belongs to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

from cortex_replay.engine.mcp.calls import Call
from cortex_replay.mcp.messages import LISTEN, PING, Message, RequestId, parameters_of, progress_token
from cortex_replay.mcp.scripts import subscription_of

__all__ = ["MOST_OPEN", "OpenCalls"]

MOST_OPEN: Final = 10_000
"""Calls at once, and requests of the server that the client has not answered."""


class OpenCalls:
    """Calls by id, in the order in which they came."""

    def __init__(self) -> None:
        self._calls: dict[RequestId, Call] = {}
        self._by_token: dict[str | int, Call] = {}
        self._idle: asyncio.Event | None = None
        """Set when no call is open any more; ``None`` until something waits for that."""

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, about: object) -> bool:
        return about in self._calls

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    def get(self, about: object) -> Call | None:
        """The call of an id, if it is open."""
        return self._calls.get(about) if isinstance(about, str | int) else None

    def add(self, call: Call) -> None:
        if call.id is not None:
            self._calls[call.id] = call
            token = progress_token(call.message)
            if isinstance(token, str | int):
                self._by_token[token] = call

    def remove(self, call: Call) -> None:
        if call.id is not None:
            self._calls.pop(call.id, None)
        token = progress_token(call.message)
        if isinstance(token, str | int) and self._by_token.get(token) is call:
            del self._by_token[token]
        if self._idle is not None and not self._calls:
            self._idle.set()

    def is_any_sent(self) -> bool:
        """Whether a server has got a call that it has not answered."""
        return any(call.is_sent for call in self._calls.values())

    async def wait_for_none(self, timeout_s: float) -> None:
        """Wait until none is open, or for some time."""
        if self._calls:
            self._idle = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), timeout_s)

    def owner_of(self, message: Message, about: RequestId | None) -> Call | None:
        """The call that a message of the server belongs to: what the transport or its token tells, else the
        latest.

        A subscription stays open while others come and go: what is said to it belongs where it came.
        """
        token = parameters_of(message).get("progressToken")
        told = self.get(about)
        if told is None and isinstance(token, str | int):
            told = self._by_token.get(token)
        if told is not None and told.playback is None and told.method != LISTEN:
            return told
        for call in reversed(self._calls.values()):
            if call.playback is None and call.method not in (LISTEN, PING):
                return call
        return None

    def subscription(self, number: int) -> RequestId | None:
        """The id of a subscription, by its number from 1."""
        found = self._subscriptions()
        return found[number - 1] if 1 <= number <= len(found) else None

    def subscription_of(self, message: Message) -> tuple[int | None, RequestId | None]:
        """Which subscription a notification is for: its number, and its id."""
        about = subscription_of(message)
        if about is not None:
            for number, found in enumerate(self._subscriptions(), start=1):
                if found == about:
                    return number, found
        return None, None

    def _subscriptions(self) -> list[RequestId]:
        return [about for about, call in self._calls.items() if call.method == LISTEN]
