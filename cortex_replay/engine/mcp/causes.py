"""Which tool call of a model caused a call of a tool.

A scope remembers the tool calls of the answers that it gives out while it records, until they are dealt with:
a server gets an equal call, or the client goes on without. Equal ones are taken in the order in which the
model wished for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.messages import TOOLS_CALL, Message, parameters_of
from cortex_replay.mcp.tool_names import arguments_text, names_tool
from cortex_replay.store import FixtureKey
from cortex_replay.types import LlmRequest, ToolCall

__all__ = ["Causes"]

_MOST_WISHES: Final = 256
"""The oldest are forgotten."""


class _Wish(NamedTuple):
    """A tool call that a model has asked for, and that was not made yet."""

    key: FixtureKey
    answer: int
    """Which of the answers to the key, from 1."""
    number: int
    """Which of the tool calls of the answer, from 1."""
    call: ToolCall

    def to_dict(self) -> dict[str, JsonValue]:
        """What a recording says of its cause."""
        of: dict[str, JsonValue] = {"model": self.key.model, "prompt_hash": self.key.prompt_hash}
        of |= {"answer": self.answer, "tool_call": self.number}
        return of if self.call.id is None else of | {"id": self.call.id}


class Causes:
    """The tool calls that a scope's models have asked for, and that were not made yet."""

    def __init__(self) -> None:
        self._open: list[_Wish] = []
        self._lock = threading.Lock()

    def note(
        self, key: FixtureKey, answer: int, calls: Sequence[ToolCall], ask: Callable[[], LlmRequest]
    ) -> None:
        """A model has answered.

        Args:
            key: What the answer stands under.
            answer: Which of the answers to it, from 1.
            calls: The tools that it wants called.
            ask: What was asked: calls that stand in it are dealt with.
        """
        if not calls and not self._open:
            return
        past = ask() if self._open else None
        new = [_Wish(key, answer, number, call) for number, call in enumerate(calls, start=1)]
        with self._lock:
            still = self._open if past is None else _without_past(self._open, past)
            self._open = [*still, *new][-_MOST_WISHES:]

    def link(self, meta: dict[str, JsonValue], server: str, message: Message) -> None:
        """Put into the ``meta`` of a recorded call what caused it, if that is known and not there yet.

        Args:
            meta: Of the recording.
            server: The name of the server.
            message: The client's request.
        """
        if message.get("method") != TOOLS_CALL or "cause" in meta:
            return
        if (cause := self._take(server, parameters_of(message))) is not None:
            meta["cause"] = cause.to_dict()

    def _take(self, server: str, parameters: dict[str, JsonValue]) -> _Wish | None:
        tool = parameters.get("name")
        if not self._open or not isinstance(tool, str):
            return None
        arguments = arguments_text(parameters.get("arguments"))
        with self._lock:
            for wish in self._open:
                fits = names_tool(wish.call.name, server, tool)
                if fits and arguments_text(wish.call.arguments) == arguments:
                    self._open.remove(wish)
                    return wish
        return None


def _without_past(wishes: list[_Wish], request: LlmRequest) -> list[_Wish]:
    """The wishes that a conversation has not gone on from: what it says of one may be that it was refused."""
    calls = [call for message in request.messages for call in message.tool_calls]
    ids = {call.id for call in calls} | {message.tool_call_id for message in request.messages}
    nameless = {(call.name, arguments_text(call.arguments)) for call in calls if call.id is None}
    return [
        wish
        for wish in wishes
        if (
            wish.call.id not in ids
            if wish.call.id is not None
            else (wish.call.name, arguments_text(wish.call.arguments)) not in nameless
        )
    ]
