"""What the ways to record have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cortex_replay.cli import output
from cortex_replay.cli.abandoned import adopt_abandoned
from cortex_replay.config import load_settings
from cortex_replay.modes import Mode
from cortex_replay.run import Run
from cortex_replay.store import Store
from cortex_replay.store.writer import CommitSummary

__all__ = ["open_recording", "warn_of_dropped"]


def warn_of_dropped(summary: CommitSummary) -> None:
    """Say that somebody else was faster."""
    if summary.dropped:
        answers = output.count(summary.dropped, "answer")
        output.talk(
            f"{answers} dropped: another one is recorded under the same key (--mode record overwrites)"
        )


def open_recording(
    root: Path, flags: Mapping[str, object], *, record_failures: bool, makes_store: bool
) -> Run:
    """Load the settings, open the run, and take over what a run that died left behind.

    Raises:
        InvalidRequest: A setting cannot be.
        FixtureIntegrityFailed: The store is not what its index says. Recording would hide it.
    """
    mode = flags.get("mode")
    loaded = load_settings(Path(), os.environ, {**flags, "mode": None, "store": root})
    for warning in loaded.warnings:
        output.talk(f"warning: {output.escape(warning)}")
    settings = loaded.settings
    chosen = Mode(str(mode)) if mode else settings.mode if settings.mode.writes else Mode.ONCE
    if os.environ.get("CI"):
        output.talk(f"warning: recording (mode {chosen}) in CI, where only replay is expected")
    opened = Store.open_or_create if makes_store else Store.open
    run = Run(settings, chosen, opened(root, verify="on-read"), record_failures=record_failures)
    if makes_store and adopt_abandoned(run.store):
        warn_of_dropped(run.commit())
    return run
