"""Clients that read their files and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from cortex_replay.config.files import shown_path
from cortex_replay.mcp.configurations import Configuration, Dialect, Target
from cortex_replay.run.mcp.clients.base import Found, Pointer, Visit

__all__ = ["FixedClient"]


class FixedClient:
    """One that reads its files and nothing else."""

    def __init__(self, title: str, programs: tuple[str, ...], project: str, home: str) -> None:
        self.title = title
        self.programs = programs
        self._project = project
        self._home = home

    def find(self, visit: Visit, named: Configuration | None) -> Found:  # noqa: ARG002 - it cannot be shown it
        found = Found()
        home = None if visit.home is None else visit.home / self._home
        read = None if home is None else found.read_own(home, Dialect.COMMON)
        if home is not None and read is not None:
            found.add(shown_path(home), read)
        read = found.read_project(visit.cwd, self._project, Dialect.COMMON)
        if read is not None:
            found.add(shown_path(visit.cwd / self._project), read)
        why = f"{self.title} reads its own files alone: put `cortex-replay mcp NAME --` before their commands"
        for name in [*found.servers]:
            found.leave(name, why)
        return found

    def point(self, visit: Visit, found: Found, targets: Mapping[str, Target]) -> Pointer:  # noqa: ARG002 - as above
        return Pointer()
