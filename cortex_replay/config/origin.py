"""What of the settings a project's file says, which may be a stranger's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ProjectOrigin", "WithOrigin"]


@dataclass(frozen=True, slots=True)
class ProjectOrigin:
    """Which settings of a provider or a caller come from a project's file, which may be a stranger's."""

    root: Path
    """The folder of the file. Paths that it names are followed only below."""
    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WithOrigin:
    """Settings of which a project's file may say a part."""

    project: ProjectOrigin | None = field(default=None, compare=False, repr=False)
    """What a project's file said of all this; the rest the user did (:mod:`cortex_replay.config.trust`)."""

    def root_of(self, setting: str) -> Path | None:
        """The folder that a path must be below because a project's file names it; ``None`` for any."""
        return self.project.root if self.project is not None and setting in self.project.names else None
