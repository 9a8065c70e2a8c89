"""A client as a command starts it, what it would read, and how it is shown something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from cortex_replay.config.files import read_at_most, shown_path
from cortex_replay.disk import Folder
from cortex_replay.errors import StoreIo
from cortex_replay.mcp.configurations import (
    MOST_BYTES,
    BadConfiguration,
    Configuration,
    Dialect,
    Document,
    Server,
    Target,
    interpret,
    parse,
)
from cortex_replay.store.git.repository import find_top

__all__ = ["FOLDER", "Client", "Found", "Pointer", "Visit"]


@dataclass(frozen=True, slots=True)
class Visit:
    """A client as a command starts it."""

    words: tuple[str, ...]
    """The arguments, as far as they are known; in a script of a shell they are not."""
    cwd: Path
    environment: Mapping[str, str] = field(repr=False)
    """The command's own."""
    script: str | None = None
    """What starts it, where that is a script of a shell."""

    @property
    def home(self) -> Path | None:
        named = self.environment.get("HOME")
        return Path(named) if named else None

    def folders(self, *, to_top: bool) -> list[Path]:
        """The working directory and those above it, the outermost first; to the top of the repository, if
        there is one and no more is wanted."""
        above = [self.cwd, *self.cwd.parents]
        if to_top:
            try:
                top = find_top(self.cwd)
            except StoreIo:
                top = None
            above = above[: above.index(top) + 1] if top in above else above[:1]
        return above[::-1]


@dataclass(slots=True)
class Found:
    """What a client would read, and what of it can be wrapped."""

    servers: dict[str, Server] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    """Servers, or whole files, that stay as they are, and why."""
    files: dict[str, None] = field(default_factory=dict)
    """Where the servers are named, as a person would say it."""
    has_stand_in: bool = False
    """Whether the user's own configuration has our stand-in before a server."""

    def add(self, shown: str, configuration: Configuration) -> None:
        """Take up a configuration that holds before those so far."""
        if configuration.servers or configuration.unusable:
            self.files[shown] = None
        for name, server in configuration.servers.items():
            self.left.pop(name, None)
            self.servers.pop(name, None)
            if server.is_stand_in:
                self.has_stand_in = True
            else:
                self.servers[name] = server
        for name, why in configuration.unusable.items():
            self.servers.pop(name, None)
            self.left[name] = why

    def interpret(self, shown: str, document: Document, dialect: Dialect) -> None:
        """Take up what was put together from several files; if it is no good, that is noted."""
        try:
            self.add(shown, interpret(document, dialect))
        except BadConfiguration as reason:
            self.left[shown] = f"it {reason}"

    def leave(self, name: str, why: str) -> None:
        """Let a server be as it is."""
        if self.servers.pop(name, None) is not None:
            self.left[name] = why

    def read_own(self, path: Path, dialect: Dialect) -> Configuration | None:
        """A configuration of the user's, if there is one; one that is no good is noted."""
        return self._parse(path, dialect, lambda: read_at_most(path, MOST_BYTES)[1])

    def read_project(self, folder: Path, name: str, dialect: Dialect) -> Configuration | None:
        """As :meth:`read_own`, of one that came with a repository: no link is followed.

        Args:
            folder: Where the client looks.
            name: Of the file, from there.
            dialect: Whose it is.
        """

        def read() -> bytes:
            above, _, last = name.rpartition("/")
            with Folder.at(folder) as start, start.below(above) as place:
                return place.read(last, MOST_BYTES + 1)

        return self._parse(folder / name, dialect, read)

    def _parse(self, path: Path, dialect: Dialect, read: Callable[[], bytes]) -> Configuration | None:
        try:
            return parse(read() or b"{}", dialect)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.left[shown_path(path)] = f"it cannot be read: {error.strerror}"
        except BadConfiguration as reason:
            self.left[shown_path(path)] = f"it {reason}"
        return None


@dataclass(slots=True)
class Pointer:
    """How one run of a client is shown other servers."""

    arguments: list[str] = field(default_factory=list)
    """To be put before its own."""
    dropped: frozenset[int] = frozenset()
    """Which of its own are left out."""
    variables: dict[str, str] = field(default_factory=dict, repr=False)
    files: dict[str, bytes] = field(default_factory=dict, repr=False)
    """To be written to a private folder, which :data:`FOLDER` stands for."""


FOLDER: Final = "\0folder\0"
"""Stands for the private folder in words and variables."""


class Client(Protocol):
    """A program that reads a configuration."""

    @property
    def title(self) -> str:
        """Its name, for a person."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The names of its program, and of its package."""

    def find(self, visit: Visit, named: Configuration | None) -> Found:
        """The servers that it would have.

        Args:
            visit: How it is started.
            named: A configuration that the user names besides.
        """

    def point(self, visit: Visit, found: Found, targets: Mapping[str, Target]) -> Pointer:
        """How it is shown those servers at their targets; with none, what it needs for stand-ins alone."""
