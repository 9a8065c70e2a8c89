"""The summary of a GitHub job: a table of what a run did, and what it missed."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from cortex_replay.disk import append_to
from cortex_replay.printable import escape_controls
from cortex_replay.redact.process import process_redactor

__all__ = ["write_step_summary"]

_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
_MOST_SHOWN: Final = 10
_MARKS: Final = re.compile(r"[\\`*\[\]<>|&]")
"""What Markdown and HTML take as more than text."""


def write_step_summary(
    environment: Mapping[str, str], title: str, rows: Mapping[str, object], texts: Iterable[str]
) -> None:
    """Write a table where a GitHub runner says that it is to be; elsewhere nothing is done.

    Args:
        environment: Where the runner says so.
        title: Of the section.
        rows: The table.
        texts: What was missed, and why the run failed; each becomes a block of its own.
    """
    path = environment.get(_VARIABLE)
    if not path:
        return
    redactor = process_redactor()

    def cell(value: object) -> str:
        return _cell(redactor.text(str(value))[0])  # before marks of ours stand in a secret

    lines = [f"### {title}", "", "| | |", "|---|---|"]
    lines += [f"| {cell(name)} | {cell(value)} |" for name, value in rows.items()]
    for text in islice(texts, _MOST_SHOWN):
        lines += ["", "```", escape_controls(text).replace("```", "'''"), "```"]
    clean, _ = redactor.text("\n".join(lines))
    with contextlib.suppress(OSError):
        append_to(Path(path), f"{clean}\n\n".encode())


def _cell(text: str) -> str:
    """What stands in a table as it is: an MCP server may be called like a row, a link or a picture."""
    return _MARKS.sub(r"\\\g<0>", escape_controls(" ".join(text.splitlines())))
