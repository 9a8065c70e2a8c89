"""The form of a recorded script: what a reader plays, and nothing else.

A file can hold anything. What is played becomes what a client gets, so each entry
has exactly the fields that a player knows, numbers name what stands before them, and a call comes to an end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard, cast

from cortex_replay.canonical import JsonValue
from cortex_replay.mcp.messages import LISTEN

__all__ = ["problem_of_script"]

_NOTIFICATIONS: Final = "notifications/"
_ENDS: Final = ("result", "error", "cancelled")
_OF_OTHERS: Final = ("status", "headers", "body", "body_base64", "events", "frames")
_FIELDS: Final = {
    "notification": frozenset(["method", "params", "to"]),
    "request": frozenset(["method", "params"]),
    "answer": frozenset(["to", "result", "error"]),
    "cancelled": frozenset(["reason"]),
}
"""Of the entries that are objects of ours; a result and an error are whatever the server said."""


def problem_of_script(wire: Mapping[str, JsonValue], method: str) -> str | None:
    """Why a recorded script cannot be played, if it cannot.

    Args:
        wire: What is recorded.
        method: Of the call.
    """
    entries = wire.get("messages")
    if not isinstance(entries, list):
        return "messages: expected a list"
    if not isinstance(wire.get("meta", {}), dict):
        return "meta: expected an object"
    if others := [name for name in _OF_OTHERS if name in wire]:
        return f"{others[0]}: is not there where there are messages"
    reader = _Reader()
    for number, entry in enumerate(entries):
        if problem := reader.take(entry):
            return f"messages[{number}]: {problem}"
    is_notification = method.startswith(_NOTIFICATIONS)
    if is_notification and reader.ends:
        return "messages: a notification has no answer"
    if not is_notification and not reader.ends and method != LISTEN:
        return "messages: expected a result, an error or that it was cancelled"
    return None


class _Reader:
    """What came so far, for what comes next."""

    def __init__(self) -> None:
        self._asked = 0
        self._unanswered: set[int] = set()
        self.ends = 0

    def take(self, entry: JsonValue) -> str | None:
        """What is wrong with the next entry, if something is."""
        kind, value = _read(entry)
        if kind is None:
            return f"expected at_ms from 0, and one of {', '.join([*_FIELDS, 'result', 'error'])}"
        self.ends += kind in _ENDS
        if self.ends > 1:
            return "a call ends once"
        if kind not in _FIELDS:
            return None
        if not isinstance(value, dict) or not value.keys() <= _FIELDS[kind]:
            return f"{kind}: expected an object with {', '.join(sorted(_FIELDS[kind]))}"
        if "method" in _FIELDS[kind] and not isinstance(value.get("method"), str):
            return f"{kind}: expected a method"
        if not isinstance(value.get("reason", ""), str):
            return f"{kind}: expected a reason in words"
        return self._follow(kind, value)

    def _follow(self, kind: str, value: dict[str, JsonValue]) -> str | None:
        if kind == "request":
            self._asked += 1
            self._unanswered.add(self._asked)
        elif kind == "answer":
            to = value.get("to")
            if not _is_number(to, self._asked) or to not in self._unanswered:
                return "answer: expected the number of a request before it that has none"
            if ("result" in value) == ("error" in value):
                return "answer: expected a result or an error"
            self._unanswered.remove(to)
        elif kind == "notification" and "to" in value and not _is_number(value["to"], self._asked):
            return "notification: expected the number of a request before it"
        return None


def _read(entry: JsonValue) -> tuple[str | None, JsonValue]:
    """What an entry is, and what it says."""
    match entry:
        case {"at_ms": int(at_ms), **others} if (
            at_ms >= 0 and not isinstance(at_ms, bool) and len(others) == 1
        ):
            [(kind, value)] = others.items()
            is_known = kind in _FIELDS or kind in _ENDS
            return (str(kind), cast("JsonValue", value)) if is_known else (None, None)
    return None, None


def _is_number(value: JsonValue, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
