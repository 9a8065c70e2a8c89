"""What a recording says of when it was made, and in which run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from cortex_replay.canonical import JsonValue
from cortex_replay.store.fixture import moment_in

__all__ = ["BEFORE", "run_in", "scopes_with", "seconds_in"]

BEFORE: Final = "before"
"""The run of all recordings that do not say in which run they were made."""

_RUN: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,63}")


def run_in(meta: Mapping[str, JsonValue]) -> str:
    """The run that a recording is of."""
    run = meta.get("run")
    return run if isinstance(run, str) and _RUN.fullmatch(run) else BEFORE


def scopes_with(owner: object, scopes: Iterable[str]) -> tuple[str, ...]:
    """Whose a recording is: first the scope that it says made it, then those that it is kept for."""
    return tuple(dict.fromkeys([*([owner] if isinstance(owner, str) else []), *scopes]))


def seconds_in(meta: Mapping[str, JsonValue], name: str) -> float | None:
    """A time that a recording says, in seconds since 1970; ``None`` if it says none."""
    moment = moment_in(meta, name)
    with suppress(ValueError, OverflowError):
        return None if moment is None else moment.timestamp()
    return None
