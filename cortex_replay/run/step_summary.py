"""The summary of a GitHub job: a table of what a run did, and what it missed."""

from __future__ import annotations

import contextlib
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
    lines = [f"### {title}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(value)} |" for name, value in rows.items()]
    for text in islice(texts, _MOST_SHOWN):
        lines += ["", "```", escape_controls(text).replace("```", "'''"), "```"]
    clean, _ = process_redactor().text("\n".join(lines))
    with contextlib.suppress(OSError):
        append_to(Path(path), f"{clean}\n\n".encode())


def _cell(value: object) -> str:
    return escape_controls(str(value)).replace("|", "\\|")
