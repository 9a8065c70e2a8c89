"""Who is told of each change that is staged, as when it happens: for others than this machine."""

from __future__ import annotations

from typing import Protocol

from cortex_replay.store.changes import Add, Pin, Remove

__all__ = ["Testimony", "Witness"]


class Testimony(Protocol):
    """What is staged between two commits, by one store or by one branch of it."""

    def stage(self, change: Add | Remove | Pin, data: bytes) -> None:
        """A change was staged; ``data`` is the recording that it adds."""

    def withdraw(self) -> None:
        """All of it was dropped: a test failed, say."""


class Witness(Protocol):
    """Sees the changes of a store and of its branches."""

    def open(self) -> Testimony:
        """Begin with changes that are kept or dropped together."""
