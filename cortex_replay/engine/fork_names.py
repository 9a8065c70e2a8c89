"""Where a run leaves its recording, and whose answers the road has (`docs/adr/0022-a-fork-is-a-scope.md`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FORK_VARIABLE", "ForkPlan", "fork_owner", "is_of_fork"]

FORK_VARIABLE: Final = "CORTEX_REPLAY_FORK"
"""Holds the name of the fork that a command replays, for processes of it that replay by themselves."""


def fork_owner(fork: str, owner: str) -> str:
    """Whose answers a scope gets and records in a fork."""
    return f"{fork}/{owner}" if fork and owner else fork or owner


def is_of_fork(fork: str, owner: str) -> bool:
    """Whether answers of this owner belong to a fork."""
    return owner == fork or owner.startswith(f"{fork}/")


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """Where every scope of a run forks, and what the new road is called."""

    calls: int
    """How many calls to models the past answers, in each scope."""
    name: str
