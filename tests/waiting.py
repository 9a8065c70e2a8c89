"""Waiting for something to happen, where no event tells of it. Tests sleep nowhere else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

__all__ = ["LONGEST_S", "let_others_run", "until", "wait_until"]

LONGEST_S = 30.0
"""How long a test waits before it fails: far more than a loaded machine needs."""
_LOOK_EVERY_S = 0.005


def wait_until(condition: Callable[[], object], longest_s: float = LONGEST_S) -> None:
    """Return as soon as the condition holds; fail if it does not in a long time."""
    end = time.monotonic() + longest_s
    while not condition():
        assert time.monotonic() < end, f"not so after {longest_s:g} seconds"
        time.sleep(_LOOK_EVERY_S)


async def until(condition: Callable[[], object], longest_s: float = LONGEST_S) -> None:
    """The same, for what happens in the running loop."""
    end = time.monotonic() + longest_s
    while not condition():
        assert time.monotonic() < end, f"not so after {longest_s:g} seconds"
        await asyncio.sleep(_LOOK_EVERY_S)


async def let_others_run() -> None:
    """Give every other task of the loop its turn, until each waits for something."""
    for _ in range(100):
        await asyncio.sleep(0)
