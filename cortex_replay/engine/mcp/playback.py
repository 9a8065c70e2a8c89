"""A recorded script that is played to a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple, cast

from cortex_replay.canonical import JsonValue, compact
from cortex_replay.engine.mcp.link import Outgoing, SendToClient
from cortex_replay.mcp.messages import (
    CANCELLED,
    PROGRESS,
    Message,
    RequestId,
    outcome_of,
    parameters_of,
    progress_token,
    render_message,
    request_id,
)
from cortex_replay.mcp.scripts import SUBSCRIPTION, subscription_of

__all__ = ["Answered", "Playback"]

_MOST_SHOWN: Final = 8
_MANY: Final = 100
_LONGEST_NUMBER: Final = 9


class Answered(NamedTuple):
    """What a client was asked, and what it answered."""

    method: str
    parameters: JsonValue
    outcome: Message
    """With its ``result`` or ``error``."""


class Playback:
    """Says what a server said, and stops where the client has to speak first. It has no task of its own: what
    a client gets depends on what it sends, and on nothing else.

    Args:
        wire: The script, with the values of today.
        message: The client's, which it follows.
        send: Takes what the client gets.
        name: Of this playback: what ids of requests begin with.
        clean: A value as it would be stored: answers are compared so.
        subscribed: The id of the k-th subscription that the client has open, if it has so many.
    """

    def __init__(
        self,
        wire: dict[str, JsonValue],
        message: Message,
        send: SendToClient,
        name: str,
        clean: Callable[[JsonValue], JsonValue],
        subscribed: Callable[[int], RequestId | None],
    ) -> None:
        entries = wire.get("messages")
        self._entries = entries if isinstance(entries, list) else []
        self._about = request_id(message)
        self._token = progress_token(message)
        self._send = send
        self.name = name
        self._clean = clean
        self._subscribed = subscribed
        self._at = 0
        self._asked: list[tuple[str, JsonValue]] = []
        self._answers: dict[int, Message] = {}
        self._recorded: dict[int, Message] | None = None
        self._is_cancelled = False
        self._is_playing = False
        self.has_ended = False
        """Whether the client has the answer to its call, or has given it up."""
        self.answered: list[Answered] = []
        """What the client has answered so far."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self._at >= len(self._entries)

    async def cancel(self) -> None:
        """The client gives the call up: what it got then, if it did so then, comes now."""
        if self.has_ended:
            return
        self._is_cancelled = self.has_ended = True
        while not self.is_over:
            entry = self._entries[self._at]
            self._at += 1
            if isinstance(entry, dict) and "cancelled" in entry:
                break
        await self.play()

    def take_answer(self, message: Message) -> str:
        """The client answers a request.

        Returns:
            In what the answer differs from the recorded one; nothing if it does not, or if none is.
        """
        number = self._number_in(request_id(message))
        if number is None or number in self._answers:
            return ""
        outcome = outcome_of(message)
        self._answers[number] = outcome
        self.answered.append(Answered(*self._asked[number - 1], outcome))
        recorded = self._recorded_answer(number)
        return "" if recorded is None else self._difference(number, recorded, outcome)

    def stop(self) -> None:
        """Say nothing more."""
        self._at = len(self._entries)
        self.has_ended = True

    async def play(self) -> None:
        """Go on, as far as it goes without the client."""
        if self._is_playing:  # the loop that plays it goes on with what is there
            return
        self._is_playing = True
        try:
            while not self.is_over and self._may_go_on():
                entry = self._entries[self._at]
                self._at += 1
                assert isinstance(entry, dict)  # noqa: S101 - the store has checked it
                await self._play_entry(entry)
                if self._at % _MANY == 0:
                    await asyncio.sleep(0)  # other sessions have their turn, too
        finally:
            self._is_playing = False

    def _may_go_on(self) -> bool:
        match self._entries[self._at]:
            case {"answer": {"to": int(to)}}:
                return to in self._answers
            case {"cancelled": _}:
                return self._is_cancelled
        return True

    async def _play_entry(self, entry: dict[str, JsonValue]) -> None:
        match entry:
            case {"notification": dict(said)}:
                await self._notify(said)
            case {"request": dict(said)}:
                self._asked.append((str(said["method"]), said.get("params")))
                await self._say({"jsonrpc": "2.0", "id": self._id_of(len(self._asked)), **said})
            case {"result": _} | {"error": _} if self._about is not None and not self.has_ended:
                self.has_ended = True
                frame = render_message({"jsonrpc": "2.0", "id": self._about, **outcome_of(entry)})
                await self._send(Outgoing(frame, self._about, is_end=True))

    async def _notify(self, said: dict[str, JsonValue]) -> None:
        parameters = dict(parameters_of(said))
        message: Message = {"jsonrpc": "2.0", "method": said["method"]}
        about = None
        if said["method"] == PROGRESS and parameters.get("progressToken") is None:
            if self._token is None:
                return
            parameters["progressToken"] = self._token
        to = said.get("to")
        if said["method"] == CANCELLED and isinstance(to, int):
            parameters = {"requestId": self._id_of(to), **parameters}
        subscription, meta = subscription_of(said), parameters.get("_meta")
        if isinstance(subscription, int) and isinstance(meta, dict):
            about = self._subscribed(subscription)
            if about is None:
                return
            parameters["_meta"] = {**meta, SUBSCRIPTION: about}
        if "params" in said:
            message["params"] = parameters if isinstance(said["params"], dict) else said["params"]
        await self._say(message, about)

    async def _say(self, message: Message, about: RequestId | None = None) -> None:
        if about is None and not self.has_ended:
            about = self._about
        await self._send(Outgoing(render_message(message), about))

    def _id_of(self, number: int) -> str:
        return f"{self.name}-{number}"

    def _number_in(self, found: RequestId | None) -> int | None:
        name, _, number = found.rpartition("-") if isinstance(found, str) else ("", "", "")
        if name != self.name or not number.isdecimal() or len(number) > _LONGEST_NUMBER:
            return None
        return int(number) if 1 <= int(number) <= len(self._asked) else None

    def _recorded_answer(self, number: int) -> Message | None:
        if self._recorded is None:
            self._recorded = {}
            for entry in self._entries:
                match entry:
                    case {"answer": {"to": int(to)} as answer}:
                        self._recorded[to] = outcome_of(cast("Message", answer))
        return self._recorded.get(number)

    def _difference(self, number: int, recorded: Message, given: Message) -> str:
        before, after = _essence(recorded), _essence(given)
        if compact(before) == compact(after):
            return ""
        clean_before, clean_after = self._clean(before), self._clean(after)
        if compact(clean_before) == compact(clean_after):
            return ""
        from cortex_replay.misses.differences import differences  # noqa: PLC0415 - most answers are as recorded

        assert isinstance(clean_before, dict)  # noqa: S101 - as it was
        assert isinstance(clean_after, dict)  # noqa: S101 - as it was
        found = [
            f"  {difference}" for difference in islice(differences(clean_before, clean_after), _MOST_SHOWN)
        ]
        method = self._asked[number - 1][0]
        return "\n".join([f"the client's answer to {method} of the server is not the recorded one:", *found])


def _essence(outcome: Message) -> Message:
    """An answer without what is not part of what it says."""
    [(name, value)] = outcome.items()
    if isinstance(value, dict):
        value = {inner: held for inner, held in value.items() if inner != "_meta"}
    return {name: value}
