"""``refresh --page``: what differs, as a page in one file."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import cast

from cortex_replay.canonical import JsonValue
from cortex_replay.cli import output
from cortex_replay.disk import write_file
from cortex_replay.redact.process import process_redactor
from cortex_replay.view.change_page import change_page
from cortex_replay.view.documents.drift import change_in
from cortex_replay.view.shapes import ChangeDocument, DriftDocument

__all__ = ["write_drift_page"]


def write_drift_page(path: Path, drift: DriftDocument) -> bool:
    """Write the page; whether that could be done."""
    now = datetime.now(UTC)
    clean, _ = process_redactor().document(cast("JsonValue", change_in(drift, f"{now:%Y-%m-%d}")))
    page = change_page(cast("ChangeDocument", clean), version("cortex-replay"), "cortex-replay refresh")
    try:
        write_file(path, "".join(page).encode())
    except OSError as error:
        output.talk(f"error: the page cannot be written: {output.escape(str(error))}")
        return False
    return True
