"""Progress of long work, on stderr, when a person is watching."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from cortex_replay.cli import output
from cortex_replay.progress import Progress

__all__ = ["call_progress", "progress_bar", "step_bar", "wait_line"]

_WORTH_A_BAR: Final = 2000
_REDRAW_S: Final = 0.1
_T = TypeVar("_T")


@contextmanager
def progress_bar(label: str, *, worth_it: int = _WORTH_A_BAR) -> Iterator[Progress | None]:
    """A bar that is told how far the work is, now and then; work that is done fills it.

    Args:
        label: What stands before it.
        worth_it: How much work there must be.
    """
    if not output.is_terminal(sys.stderr):
        yield None
        return
    bar: Any = None

    def advance(done: int, total: int) -> None:
        nonlocal bar
        if total < worth_it:
            return
        if bar is None:
            bar = click.progressbar(length=total, label=label, file=sys.stderr)
        bar.update(done - bar.pos)

    try:
        yield advance
        if bar is not None:
            bar.update(bar.length - bar.pos)
    finally:
        if bar is not None:
            bar.render_finish()


@contextmanager
def step_bar(items: Sequence[_T], label: str) -> Iterator[Iterable[_T]]:
    """The items, with a bar that moves from each to the next."""
    is_hidden = not output.is_terminal(sys.stderr)
    with click.progressbar(items, label=label, file=sys.stderr, hidden=is_hidden) as bar:
        yield bar


@contextmanager
def wait_line() -> Iterator[Callable[[str], None]]:
    """A line that says what is waited for."""
    with _line() as write:
        yield lambda text: write(f"{output.escape(text)} …")


@contextmanager
def call_progress(total: int, tokens: Callable[[], int]) -> Iterator[Callable[[int, int], None]]:
    """A line about calls to a model. What is yielded takes how many are done, and how many of them failed."""
    started = drawn = time.monotonic()

    def show(done: int, failed: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn < _REDRAW_S and done < total:
            return
        drawn = now
        line = f"{done}/{total}  {done / max(now - started, 0.001):.0f}/s  {tokens():,} tokens"
        write(f"{line}  {failed} failed" if failed else line)

    with _line() as write:
        yield show


@contextmanager
def _line() -> Iterator[Callable[[str], None]]:
    """A line on a terminal that is written again and again, and is gone at the end."""
    is_shown = output.is_terminal(sys.stderr)
    width = 0

    def write(text: str) -> None:
        nonlocal width
        if is_shown:
            click.echo("\r" + text.ljust(width), nl=False, err=True)
            width = len(text)

    try:
        yield write
    finally:
        if width:
            click.echo("\r" + " " * width + "\r", nl=False, err=True)
