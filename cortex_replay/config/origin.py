"""What of the settings a project's file says, which may be a stranger's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProjectOrigin"]


@dataclass(frozen=True, slots=True)
class ProjectOrigin:
    """Which settings of a provider or a caller come from a project's file, which may be a stranger's."""

    root: Path
    """The folder of the file. Paths that it names are followed only below."""
    names: frozenset[str]

    def root_of(self, setting: str) -> Path | None:
        """The folder that a path must be below because the file names it; ``None`` for any."""
        return self.root if setting in self.names else None
