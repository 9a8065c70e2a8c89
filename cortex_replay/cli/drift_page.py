"""``refresh --page``: what differs, as a page in one file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import version_of
from cortex_replay.disk import write_file
from cortex_replay.redact.process import process_redactor
from cortex_replay.view.change_page import change_page
from cortex_replay.view.documents.change import clean_change
from cortex_replay.view.documents.drift import change_in
from cortex_replay.view.shapes import DriftDocument

__all__ = ["write_drift_page"]


def write_drift_page(path: Path, drift: DriftDocument) -> bool:
    """Write the page; whether that could be done."""
    now = datetime.now(UTC)
    change = clean_change(change_in(drift, f"{now:%Y-%m-%d}"), process_redactor())
    page = change_page(change, version_of(click.get_current_context()), "cortex-replay refresh")
    try:
        write_file(path, "".join(page).encode())
    except OSError as error:
        output.talk(f"error: the page cannot be written: {output.escape(str(error))}")
        return False
    return True
