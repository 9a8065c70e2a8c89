"""Texts that changed, told in few words."""

from __future__ import annotations

from typing import Final

from cortex_replay.canonical import JsonValue, compact

__all__ = ["describe_rewording", "quote_short"]

_LONGEST: Final = 60
_CONTEXT: Final = 2
"""How many words that stayed are shown on either side."""


def quote_short(value: JsonValue) -> str:
    """A value in few characters; ``nothing`` for one that is not there."""
    if value is None:
        return "nothing"
    text = compact(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def describe_rewording(before: JsonValue, after: JsonValue) -> str:
    """What became of a text: the words that changed, quoted, with a few around them."""
    if not isinstance(before, str) or not isinstance(after, str):
        if before is None or after is None:
            return f"added: {_quoted(after)}" if before is None else f"removed: it was {_quoted(before)}"
        return f"{quote_short(before)} became {quote_short(after)}"
    old, new = before.split(), after.split()
    if old == new:
        return "changed in its spaces"
    shared = 0
    while shared < min(len(old), len(new)) and old[shared] == new[shared]:
        shared += 1
    behind = 0
    most = min(len(old), len(new)) - shared
    while behind < most and old[-1 - behind] == new[-1 - behind]:
        behind += 1
    was, now = (_piece(words, shared, len(words) - behind) for words in (old, new))
    return f"{was} became {now}"


def _piece(words: list[str], start: int, end: int) -> str:
    first, last = max(0, start - _CONTEXT), min(len(words), end + _CONTEXT)
    text = " ".join(words[first:last])
    if len(text) > _LONGEST:
        text, last = text[:_LONGEST], 0
    return f'"{"… " if first else ""}{text}{" …" if last < len(words) else ""}"'


def _quoted(value: JsonValue) -> str:
    return _piece(value.split(), 0, len(value.split())) if isinstance(value, str) else quote_short(value)
