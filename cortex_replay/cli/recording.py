"""What the ways to record have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cortex_replay.adapters import LlmAdapter
from cortex_replay.cli import output
from cortex_replay.cli.abandoned import adopt_abandoned
from cortex_replay.config import Settings, load_settings
from cortex_replay.engine.budget import Meter, MeteredAdapter
from cortex_replay.engine.recording import RecordingAdapter
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.redact.settings import redactor_for
from cortex_replay.run.adapters import adapter_for
from cortex_replay.store import Store
from cortex_replay.store.writer import CommitSummary

__all__ = ["Session", "open_session", "tell_of_yielded"]


@dataclass(frozen=True)
class Session:
    """One run of ``cortex-replay record``."""

    settings: Settings
    store: Store
    mode: Mode
    redactor: Redactor
    meter: Meter
    record_failures: bool = False

    def provider(self, name: str | None) -> LlmAdapter:
        """A provider whose calls are counted."""
        return MeteredAdapter(adapter_for(self.settings, name), self.meter)

    def recorder(self, name: str | None) -> RecordingAdapter:
        """A recorder of a provider, which leaves the commit to this run."""
        return RecordingAdapter(
            self.provider(name),
            self.store,
            self.mode,
            redactor=self.redactor,
            record_failures=self.record_failures,
            commit_on_close=False,
            meta={"provider": name or self.settings.provider},
        )


def tell_of_yielded(summary: CommitSummary) -> None:
    """Say that somebody else was faster."""
    if summary.dropped:
        answers = output.count(summary.dropped, "answer")
        output.talk(
            f"{answers} dropped: another one is recorded under the same key (--mode record overwrites)"
        )


def open_session(
    root: Path, flags: Mapping[str, object], *, record_failures: bool, makes_store: bool
) -> Session:
    """Load the settings, open the store, and take over what a run that died left behind.

    Raises:
        InvalidRequest: A setting cannot be.
        FixtureIntegrityFailed: The store is not what its index says. Recording would hide it.
    """
    loaded = load_settings(Path(), os.environ, {**flags, "mode": None, "store": root})
    for warning in loaded.warnings:
        output.talk(f"warning: {output.escape(warning)}")
    settings = loaded.settings
    mode = Mode.of(flags.get("mode") or (settings.mode if settings.mode.writes else Mode.ONCE))  # type: ignore[arg-type]
    if os.environ.get("CI"):
        output.talk(f"warning: recording (mode {mode}) in CI, where only replay is expected")
    opened = Store.open_or_create if makes_store else Store.open
    store = opened(root, verify="on-read")
    if makes_store and adopt_abandoned(store):
        tell_of_yielded(store.commit())
    return Session(
        settings,
        store,
        mode,
        redactor_for(settings, os.environ),
        Meter(settings.budget_calls, settings.budget_tokens),
        record_failures,
    )
