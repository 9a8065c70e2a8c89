"""The forms in which a report on changes is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final, NamedTuple

from cortex_replay.behaviour.report import ChangeReport
from cortex_replay.cli import output
from cortex_replay.cli.change_text import change_lines
from cortex_replay.errors import Finding

__all__ = ["FORMATS", "Format"]


class Format(NamedTuple):
    """How a report is written, and how that is printed."""

    render: Callable[[ChangeReport, list[Finding], bool], str]
    """From the report, what is wrong with either side, and whether rewordings are listed one by one."""
    show: Callable[[str], None] = output.echo
    """Print it on stdout: through the door to the terminal."""
    is_talkative: bool = False
    """Whether a summary follows on stderr."""


def _text(report: ChangeReport, findings: list[Finding], everything: bool) -> str:  # noqa: ARG001 - these are talk
    return "\n".join(change_lines(report, everything=everything))


def _json(report: ChangeReport, findings: list[Finding], everything: bool) -> str:  # noqa: ARG001 - a program reads all
    document = {
        "tier": report.tier.word,
        **report.to_document(),
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(document, indent=2)


def _show_text(text: str) -> None:
    if text:
        output.echo_lines(text.split("\n"))


FORMATS: Final[Mapping[str, Format]] = {
    "text": Format(_text, _show_text, is_talkative=True),
    "json": Format(_json, output.print_json_text),
}
"""By the name that ``--format`` takes."""
