"""Which request goes on from which: a page shows what is new in each, and finds the rest a step before.

A conversation of 500 turns sends its first message 500 times. Documents that repeated it would grow with the
square of its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from cortex_replay.history.calls import HistoryCall

__all__ = ["ALONE", "Thread", "threads_of"]


@dataclass(frozen=True, slots=True)
class Thread:
    """What a recording has in common with earlier ones. Recordings are named by their paths."""

    continues: str | None = None
    """The recording whose request has the messages before the new ones."""
    before: int = 0
    """How many of its messages stand there, too. At least the last message is new."""
    goes_back: bool = False
    """Whether the other request has more than these: the conversation took another way from there."""
    system_in: str | None = None
    """The first recording with the same system text; ``None`` for that one itself."""
    tools_in: str | None = None
    """Likewise, of the tools."""


_ANY: Final = ""
ALONE: Final = Thread()
"""Of a recording that has everything in its own document."""


@dataclass(slots=True)
class _Node:
    """A message behind others."""

    following: dict[int, _Node] = field(default_factory=dict)
    """By the identity of the next message: equal ones are one value in a history."""
    passed: dict[str, HistoryCall] = field(default_factory=dict)
    """By scope, the latest call that goes through here; of all calls, under no name."""


def threads_of(calls: Sequence[HistoryCall]) -> dict[str, Thread]:
    """For each recording, by its path, what it goes on from.

    What it names is in every story that it is in itself: of the same run, and of all its scopes.

    Args:
        calls: As :func:`cortex_replay.history.calls.read_calls` gives them.
    """
    roots: dict[str, _Node] = {}
    texts: dict[tuple[str, tuple[str, ...], str], str] = {}
    tools: dict[tuple[str, tuple[str, ...], int], str] = {}
    found: dict[str, Thread] = {}
    for call in _in_order(calls):
        if call.path in found:  # another answer to the same request
            continue
        request = call.request
        continues, before, goes_back = _pass(roots.setdefault(call.run, _Node()), call)
        place = (call.run, call.scopes)
        system_in = tools_in = None
        if request.system:
            system_in = texts.setdefault((*place, request.system), call.path)
        if request.tools:
            tools_in = tools.setdefault((*place, id(request.tools)), call.path)
        found[call.path] = Thread(
            continues,
            before,
            goes_back,
            None if system_in == call.path else system_in,
            None if tools_in == call.path else tools_in,
        )
    return found


def _in_order(calls: Iterable[HistoryCall]) -> list[HistoryCall]:
    """As they were asked. Those without a time come last, the shorter before what goes on from it."""
    return sorted(calls, key=lambda call: len(call.request.messages) if call.at is None else -1)


def _pass(root: _Node, call: HistoryCall) -> tuple[str | None, int, bool]:
    """Go along the messages of a call: who shares most of them, how many, and whether that one has more."""
    node = root
    found: tuple[str | None, int, bool] = (None, 0, False)
    messages = call.request.messages
    for number, message in enumerate(messages, start=1):
        node = node.following.setdefault(id(message), _Node())
        other = node.passed.get(call.scopes[0] if call.scopes else _ANY)
        if number < len(messages) and other is not None and {*call.scopes} <= {*other.scopes}:
            found = (other.path, number, len(other.request.messages) > number)
        node.passed.update(dict.fromkeys((_ANY, *call.scopes), call))
    return found
