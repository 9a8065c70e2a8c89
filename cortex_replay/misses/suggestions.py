"""The normaliser that would make two requests one, if what differs is a time, an id, a counter or the like.

Nothing is suggested by its looks alone: the rule is applied to both requests, and they must then have one
key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from cortex_replay.config.built_in import BUILT_IN, PREFIX
from cortex_replay.config.key_rules import KeyRules
from cortex_replay.errors import InvalidRequest
from cortex_replay.misses.differences import Hunk, differences, hunks, plain_form
from cortex_replay.types import LlmRequest

__all__ = ["KINDS", "SHAPE_KINDS", "suggest_normalisers", "toml_line"]

KINDS: Final[Mapping[str, str]] = {
    "time": "a time",
    "date": "a date",
    "uuid": "a UUID",
    "temp-path": "a temporary path",
    "hex-id": "an id",
    "duration": "a duration",
    "counter": "a counter",
}
"""What each suggestion is about, by the name it has in the configuration."""
SHAPE_KINDS: Final[Mapping[str, str]] = {
    "uuid": "a UUID",
    "ulid": "a ULID",
    "time": "a time",
    "epoch": "a time",
    "duration": "a duration",
    "port": "a port",
    "pid": "a process id",
    "path": "a temporary path",
    "hex-id": "an id",
    "number": "a count",
}
"""What each rule is about, by the shape that it binds."""

_NAMES: Final = {"iso-time": "time"}
_MOST_COUNTERS: Final = 3
_NEAR: Final = 24
_TELLING: Final = re.compile(r"[0-9/\\]")
_BEFORE_COUNTER: Final = re.compile(r"[A-Za-z][A-Za-z_]{0,30}[ :=#(/-]{1,3}\Z|#\Z")


def suggest_normalisers(
    rules: KeyRules, recorded: LlmRequest, asked: LlmRequest, *, counters: bool = True
) -> dict[str, str]:
    """The fewest further rules under which both requests have one key: names and patterns.

    Args:
        rules: Those that hold already.
        recorded: A request as it was stored.
        asked: One as it would be stored.
        counters: Whether to look for numbers, whose patterns quote the word before them.

    Returns:
        None at all, if there are none.
    """
    if not _may_help(recorded, asked):
        return {}
    taken = {*rules.normalisers, *rules.redact_key}
    built_in = {_free_name(_NAMES.get(name, name), taken): f"{PREFIX}{name}" for name in BUILT_IN}
    wanted = built_in
    if not _have_one_key(rules, wanted, recorded, asked):
        if not counters:
            return {}
        try:
            with_all = rules.with_normalisers(wanted)
        except InvalidRequest:
            return {}
        wanted = wanted | dict(_counters(with_all.apply(recorded)[0], with_all.apply(asked)[0], taken))
        if len(wanted) == len(built_in) or not _have_one_key(rules, wanted, recorded, asked):
            return {}
    for name in reversed(wanted):
        fewer = {other: pattern for other, pattern in wanted.items() if other != name}
        if _have_one_key(rules, fewer, recorded, asked):
            wanted = fewer
    return wanted


def toml_line(name: str, pattern: str) -> str:
    """A normaliser as it stands in a configuration."""
    if pattern.startswith(PREFIX):
        return f'{name} = "{pattern}"'
    return f"{name} = '{pattern}'" if "'" not in pattern else f"{name} = {json.dumps(pattern)}"


def _have_one_key(rules: KeyRules, further: Mapping[str, str], one: LlmRequest, other: LlmRequest) -> bool:
    try:
        more = rules.with_normalisers(further)
    except InvalidRequest:  # it does not agree with the rules that are there
        return False
    return more.apply(one)[0].prompt_hash() == more.apply(other)[0].prompt_hash()


def _may_help(recorded: LlmRequest, asked: LlmRequest) -> bool:
    """Whether all that differs is text with a digit or a path near it; for most edits it is not."""
    return all(
        hunk is not None
        and _TELLING.search(f"{before[max(0, hunk.start - _NEAR) : hunk.end + _NEAR]}{hunk.after}")
        for before, hunk in _hunks(recorded, asked)
    )


def _hunks(recorded: LlmRequest, asked: LlmRequest) -> Iterator[tuple[str, Hunk | None]]:
    """What differs, each with the text that it stands in; ``None`` where that is no text."""
    for difference in differences(plain_form(recorded), plain_form(asked)):
        before, after = difference.recorded, difference.asked
        if isinstance(before, str) and isinstance(after, str):
            yield from ((before, hunk) for hunk in hunks(before, after))
        else:
            yield "", None


def _counters(recorded: LlmRequest, asked: LlmRequest, taken: set[str]) -> Iterator[tuple[str, str]]:
    """Patterns for the numbers that differ, each with the word that stands before it."""
    patterns: dict[str, None] = {}
    for before, hunk in _hunks(recorded, asked):
        if hunk is None or not (_is_number(hunk.before) and _is_number(hunk.after)):
            return
        above = _BEFORE_COUNTER.search(before, max(0, hunk.start - 34), hunk.start)
        if above is None:
            return
        patterns[f"(?<={re.escape(above[0]).replace(chr(92) + ' ', ' ')})[0-9]+"] = None
    if len(patterns) <= _MOST_COUNTERS:
        for pattern in patterns:
            name = _free_name("counter", taken)
            taken = taken | {name}
            yield name, pattern


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free
