"""What commands say of runs that died, and of what somebody else put in their place."""

from __future__ import annotations

from pathlib import Path

from cortex_replay.cli import output
from cortex_replay.store import Store
from cortex_replay.store.journal import STATE_FOLDER
from cortex_replay.store.staging import Abandoned

__all__ = ["adopt_abandoned", "warn_of_unmarked"]


def adopt_abandoned(store: Store) -> int:
    """Stage what runs of this user abandoned, and say so; gives the number of answers."""
    adopted = store.adopt_abandoned()
    if adopted:
        output.talk(f"took over {output.count(adopted, 'answer')} of a run that died")
    warn_of_unmarked(store.abandoned(), store.root)
    return adopted


def warn_of_unmarked(left: Abandoned, root: Path) -> None:
    """What somebody else staged is for a person to look at; no command takes it over."""
    if left.unmarked:
        folder = output.escape(str(root / STATE_FOLDER))
        output.talk(
            f"{folder} holds staged answers that no run of yours on this machine left there, so they are not "
            "taken over: look at them, and remove what you do not know"
        )
