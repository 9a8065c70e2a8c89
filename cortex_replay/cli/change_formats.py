"""The forms in which a report on changes is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from cortex_replay.behaviour.report import ChangeReport
from cortex_replay.cli import output
from cortex_replay.cli.change_text import change_lines
from cortex_replay.cli.options import version_of
from cortex_replay.errors import Finding

if TYPE_CHECKING:
    from cortex_replay.view.shapes import ChangeDocument

__all__ = ["FORMATS", "Format"]


class Format(NamedTuple):
    """How a report is written, and how that is printed."""

    render: Callable[[ChangeReport, list[Finding], bool], str]
    """From the report, what is wrong with either side, and whether rewordings are listed one by one."""
    show: Callable[[str], None] = output.echo
    """Print it on stdout: through the door to the terminal."""
    is_talkative: bool = False
    """Whether a summary follows on stderr."""
    clean: Callable[[str], str] = output.redact
    """Take secrets out of what goes to a file."""


def _text(report: ChangeReport, findings: list[Finding], everything: bool) -> str:  # noqa: ARG001 - these are talk
    return "\n".join(change_lines(report, everything=everything))


def _json(report: ChangeReport, findings: list[Finding], everything: bool) -> str:  # noqa: ARG001 - a program reads all
    from cortex_replay.redact.process import process_redactor  # noqa: PLC0415
    from cortex_replay.view.documents.change import whole_change  # noqa: PLC0415

    document = {
        "tier": report.tier.word,
        **whole_change(report, process_redactor()),
        "findings": [asdict(finding) for finding in findings],
    }
    return json.dumps(document, indent=2)


def _markdown(report: ChangeReport, findings: list[Finding], everything: bool) -> str:
    from cortex_replay.cli.change_markdown import markdown_of  # noqa: PLC0415

    return markdown_of(_page_document(report, findings), everything=everything)


def _html(report: ChangeReport, findings: list[Finding], everything: bool) -> str:  # noqa: ARG001 - it folds them itself
    from cortex_replay.view.change_page import change_page  # noqa: PLC0415

    version = version_of(click.get_current_context())
    return "".join(change_page(_page_document(report, findings), version))


def _page_document(report: ChangeReport, findings: list[Finding]) -> ChangeDocument:
    from cortex_replay.redact.process import process_redactor  # noqa: PLC0415
    from cortex_replay.view.documents.change import change_document  # noqa: PLC0415

    return change_document(report, process_redactor(), findings)


def _show_text(text: str) -> None:
    if text:
        output.echo_lines(text.split("\n"))


def _show_page(page: str) -> None:
    # It holds no secret, and what was recorded is base64 in it, which nothing may change.
    output.print_file(page.encode())


FORMATS: Final[Mapping[str, Format]] = {
    "text": Format(_text, _show_text, is_talkative=True),
    "json": Format(_json, output.print_json_text),
    "markdown": Format(_markdown),
    "html": Format(_html, _show_page, clean=str),
}
"""By the name that ``--format`` takes."""
