"""The plugin's door to the terminal: what it shows, or writes for others to show, passes here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from cortex_replay.printable import defuse_commands, escape_controls

__all__ = ["fetch_line", "print_line", "shown"]

_WORTH_A_LINE: Final = 20


def shown(text: str) -> str:
    """Text as it may be shown: without secrets, and without what steers a terminal or a CI runner."""
    from cortex_replay.redact.process import process_redactor  # noqa: PLC0415 - few runs have much to say

    return defuse_commands(escape_controls(process_redactor().text(text)[0]))


def print_line(reporter: Any, text: str = "") -> None:
    """A line of the section at the end of a run."""
    reporter.line(shown(text))


@contextmanager
def fetch_line(config: Any) -> Iterator[Callable[[int, int], None] | None]:
    """A line at the terminal that says how many recordings are fetched so far, where a person is watching."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None or capture is None or not reporter.isatty:
        yield None
        return
    drawn = -1

    def advance(done: int, total: int) -> None:
        nonlocal drawn
        percent = 100 * done // max(total, 1)
        if total < _WORTH_A_LINE or percent == drawn:
            return
        with capture.global_and_fixture_disabled():
            if drawn < 0:
                reporter.ensure_newline()
            drawn = percent
            reporter.rewrite(f"fetching recordings: {done} of {total}", erase=True)

    yield advance
    if drawn >= 0:
        with capture.global_and_fixture_disabled():
            reporter.line("")
