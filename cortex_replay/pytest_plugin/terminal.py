"""The plugin's door to the terminal: what it shows, or writes for others to show, passes here."""

from __future__ import annotations

from typing import Any

from cortex_replay.printable import defuse_commands, escape_controls

__all__ = ["print_line", "shown"]


def shown(text: str) -> str:
    """Text as it may be shown: without secrets, and without what steers a terminal or a CI runner."""
    from cortex_replay.redact.process import process_redactor  # noqa: PLC0415 - few runs have much to say

    return defuse_commands(escape_controls(process_redactor().text(text)[0]))


def print_line(reporter: Any, text: str = "") -> None:
    """A line of the section at the end of a run."""
    reporter.line(shown(text))
