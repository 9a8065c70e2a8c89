"""What a run of planted bugs has found so far, in a file: one that was stopped goes on where it was."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.mutants.catalogue import Mutant
from tests.mutants.report import document
from tests.mutants.trials import Trial, Verdict

CHANGED = "with changes"
"""How the commit of a tree ends that has changes nobody committed."""


class Kept:
    """The file of a run, written anew with every trial.

    Args:
        path: The file.
        commit: The commit whose tests are run: what was found at another one says nothing.
        mutants: The bugs that are tried.
    """

    def __init__(self, path: Path, commit: str, mutants: Sequence[Mutant]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._commit = path, commit
        self._lock = threading.Lock()
        self.trials = _read(path, commit, {mutant.name: mutant for mutant in mutants})

    def add(self, trial: Trial) -> None:
        """One more trial, of which is not known yet whether its test passes without the bug."""
        with self._lock:
            self.trials.append(trial)
            self.write(self.trials)

    def write(self, trials: Sequence[Trial]) -> None:
        """Everything in place of what was there."""
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text(json.dumps(document(trials, self._commit), indent=2) + "\n")
        new.replace(self._path)


def _read(path: Path, commit: str, mutants: Mapping[str, Mutant]) -> list[Trial]:
    if commit.endswith(CHANGED):
        return []
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        if found["commit"] != commit:
            return []
        return [
            Trial(
                mutants[row["name"]],
                Verdict(row["verdict"]),
                row["by"],
                row["cpu_seconds"],
                is_checked=row["is_checked"],
            )
            for row in found["trials"]
            if row["name"] in mutants
        ]
    except (OSError, ValueError, LookupError, TypeError):  # no file of a run
        return []
