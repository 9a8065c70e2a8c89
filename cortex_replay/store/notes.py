"""Staged changes that are no answers: a pin, or a removal that makes room for an answer.

The tests of a run leave what they recorded in staging, and the run takes all of it over at its end. What
they did besides has to come along.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from cortex_replay.store.changes import Pin, Remove
from cortex_replay.store.index.index import ContentKey, ExchangeRow, FixtureRow, Row, content_key
from cortex_replay.store.trust import scope_problem
from cortex_replay.strict_json import JsonError, loads

__all__ = ["NOTE_KIND", "parse_note", "render_note"]

NOTE_KIND: Final = "note"
"""The end of its name in staging."""


def render_note(change: Pin | Remove) -> bytes:
    """The bytes of a note."""
    document: dict[str, Any] = {"scope": change.scope}
    if isinstance(change, Pin):
        document["pin"] = [[*row[:2], *content_key(row)] for row in change.rows]
    else:
        document["remove"] = list(change.key)
    return orjson.dumps(document)


def parse_note(data: bytes) -> Pin | Remove | None:
    """Read a note; one that is not as we write it says nothing."""
    try:
        match loads(data):
            case {"scope": str() as scope, "pin": [*rows]} if rows and scope_problem(scope) is None:
                found = [_row(row) for row in rows]
                listed = tuple(row for row in found if row is not None)
                return Pin(listed, scope) if len(listed) == len(rows) else None
            case {"scope": str() as scope, "remove": [*key]} if (about := _content_key(key)) is not None:
                return Remove(about, scope, is_kept=True)
    except JsonError:
        pass
    return None


def _row(value: object) -> Row | None:
    match value:
        case [str() as path, str() as digest, *key] if (about := _content_key(key)) is not None:
            if about[2:] == (None, None):
                return FixtureRow(path, digest, *about[:2])
            return ExchangeRow(path, digest, *about)
    return None


def _content_key(value: list[Any]) -> ContentKey | None:
    if len(value) != 4 or not all(item is None or isinstance(item, str) for item in value):
        return None
    model, prompt_hash, n, key = value
    return model, prompt_hash, n, key
