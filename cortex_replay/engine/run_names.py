"""What a run is called in its recordings: when it began, and four digits of chance."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Final

__all__ = [
    "RUN_VARIABLE",
    "is_run_name",
    "new_run_name",
    "now_in_milliseconds",
    "process_run_name",
    "run_name_in",
]

RUN_VARIABLE: Final = "CORTEX_REPLAY_RUN"
"""Names the run that this process is a part of; set by the outermost process."""
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}")


def new_run_name() -> str:
    """A name that no other run is likely to have; names of later runs sort behind it."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


@cache
def process_run_name() -> str:
    """The name for what this process records without a run of its own: one program, one run."""
    return new_run_name()


def run_name_in(environment: Mapping[str, str]) -> str | None:
    """The name that the outermost process of a run gave it.

    A user may call a run anything, and tomorrow's the same: that tells no two of them apart.
    """
    name = environment.get(RUN_VARIABLE, "")
    return name if is_run_name(name) else None


def is_run_name(name: str) -> bool:
    """Whether a name is one of those that :func:`new_run_name` makes."""
    return _NAME.fullmatch(name) is not None


def now_in_milliseconds() -> str:
    """The time as recordings have it, exact enough to tell the calls of a run apart."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
