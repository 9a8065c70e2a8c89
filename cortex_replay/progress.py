"""How far long work is, and how people are shown that files are fetched.

It imports nothing, so a command line can say early what is to be shown.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

__all__ = ["Progress", "fetch_bar", "show_fetches"]

Progress = Callable[[int, int], None]
"""Told now and then how many things are done, and of how many."""
_Bar = Callable[[], AbstractContextManager[Progress | None]]
_bar: _Bar = nullcontext


def show_fetches(bar: _Bar) -> None:
    """Have a bar shown wherever files are fetched, from now on. A library shows none; who has a terminal says
    so once."""
    global _bar  # noqa: PLW0603 - a process has one terminal
    _bar = bar


def fetch_bar() -> AbstractContextManager[Progress | None]:
    """What is shown while something is fetched."""
    return _bar()
