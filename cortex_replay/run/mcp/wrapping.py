"""Pointing the servers of a command's MCP configuration at us, for that command alone.

Nothing is written but to a private folder, which is gone afterwards. What the command starts in place of a
server is our stand-in for it; the gateway stands in for those that are reached over HTTP. Which configuration
the command will read, its client tells (:mod:`cortex_replay.run.mcp.clients`). Any other command can be given
the copy of a file that the user names: by an argument that is that file, or by a variable.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cortex_replay.config.files import read_at_most, shown_path
from cortex_replay.disk import Folder
from cortex_replay.errors import InvalidRequest
from cortex_replay.mcp.configurations import (
    MOST_BYTES,
    BadConfiguration,
    Configuration,
    Server,
    Target,
    parse,
    variables_in,
)
from cortex_replay.run.mcp.clients import find_client, real_program
from cortex_replay.run.mcp.clients.base import FOLDER, Client, Found, Visit

__all__ = ["COPY_VARIABLE", "Wrapping", "wrap"]

COPY_VARIABLE: Final = "CORTEX_REPLAY_MCP_CONFIG"
"""Tells a command where the copy of the file is that ``--mcp-config`` names."""
_COPY: Final = "servers.json"
_PRIVATE: Final = 0o600
_PROGRAM: Final = 0o700

TargetOf = Callable[[Server], Target | None]
"""Where a server is to be looked for; ``None`` if it cannot be. Variables in what it says are not filled in:
in the words of a command, its client does that."""


@dataclass(frozen=True, slots=True)
class Wrapping:
    """A command whose MCP servers lead to us."""

    command: list[str]
    environment: dict[str, str] = field(repr=False)
    servers: tuple[Server, ...] = ()
    """Those that do."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Those that do not, or files that could not be read, and why."""
    files: tuple[str, ...] = ()
    """Where they are named."""
    client: str = ""
    """Who reads it."""

    def wanted(self, withheld: Sequence[str]) -> list[str]:
        """The variables that servers are to be told, and the command does not have."""
        named = {name for server in self.servers for name in variables_in(server)}
        return sorted(named & set(withheld))


def wrap(
    command: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    scratch: Path,
    target_of: TargetOf,
    named: Path | None = None,
) -> Wrapping:
    """Point the servers that a command would use at us.

    Args:
        command: Its words.
        environment: Its own.
        cwd: Where it is to run.
        scratch: A private folder that lasts as long as the command.
        target_of: Where a server is to be looked for.
        named: A configuration that the user names.

    Raises:
        InvalidRequest: That is no configuration.
    """
    own = None if named is None else _read_named(named)
    place = find_client(command)
    if place is None:
        if own is None or named is None:
            return Wrapping([*command], dict(environment))
        return _Work(environment, scratch, target_of).give_copy(command, cwd, named, own)
    client, index = place
    words = command[index + 1 :] if index is not None else ()
    visit = Visit(tuple(words), cwd, environment, None if index is not None else " ".join(command))
    return _Work(environment, scratch, target_of).show(command, client, index, visit, own)


class _Work:
    """What wrapping needs throughout."""

    def __init__(self, environment: Mapping[str, str], scratch: Path, target_of: TargetOf) -> None:
        self._environment = environment
        self._scratch = scratch
        self._target_of = target_of

    def show(
        self,
        command: Sequence[str],
        client: Client,
        index: int | None,
        visit: Visit,
        own: Configuration | None,
    ) -> Wrapping:
        """Show a client its servers at other places."""
        found = client.find(visit, own)
        targets = self._targets(found)
        if not targets and not found.has_stand_in:
            return _outcome(command, self._environment, found, {}, client.title)
        pointer = client.point(visit, found, targets)
        self._write(pointer.files, _PRIVATE)
        environment = {
            **self._environment,
            **{name: self._fill(text) for name, text in pointer.variables.items()},
        }
        arguments = [self._fill(word) for word in pointer.arguments]
        if index is not None:
            kept = [word for n, word in enumerate(command[index + 1 :]) if n not in pointer.dropped]
            made = [*command[: index + 1], *arguments, *kept]
        else:
            made = [*command]
            environment |= self._path_to(client, arguments)
        return _outcome(made, environment, found, targets, client.title)

    def give_copy(self, command: Sequence[str], cwd: Path, named: Path, own: Configuration) -> Wrapping:
        """Give a command that is no known client the copy of a configuration."""
        found = Found()
        found.add(shown_path(named), own)
        targets = self._targets(found)
        document = own.rewrite(targets)
        self._write({_COPY: json.dumps(document, indent=2).encode()}, _PRIVATE)
        copy = str(self._scratch / _COPY)
        file = os.path.abspath(named)  # noqa: PTH100 - what `..` means behind a link is not asked
        made = [_replace_path(word, file, copy, cwd) for word in command]
        return _outcome(made, {**self._environment, COPY_VARIABLE: copy}, found, targets, "")

    def _targets(self, found: Found) -> dict[str, Target]:
        """Where each server is to be looked for. Two whose names become one are two servers still.

        The one whose name it is has it, wherever it stands: what is recorded under it is its own.
        """
        made: dict[str, Target] = {}
        labels: set[str] = set()
        for name, server in sorted(found.servers.items(), key=lambda item: item[0] != item[1].label):
            if server.label in labels:
                found.leave(name, "another server is recorded under that name")
            elif (target := self._target_of(server)) is None:
                found.leave(name, "its URL is none that can be reached")
            else:
                labels.add(server.label)
                made[name] = target
        return made

    def _path_to(self, client: Client, arguments: Sequence[str]) -> dict[str, str]:
        """A search path on which a script finds the client with those arguments."""
        real = real_program(client, self._environment)
        if not arguments or real is None:
            return {}
        script = f'#!/bin/sh\nexec {shlex.join([real, *arguments])} "$@"\n'
        folder = self._scratch / "bin"
        with Folder.at(self._scratch) as scratch, scratch.create_folder("bin", _PROGRAM) as made:
            made.create(client.programs[0], os.fsencode(script), mode=_PROGRAM)
        return {"PATH": os.pathsep.join([str(folder), self._environment.get("PATH", os.defpath)])}

    def _write(self, files: Mapping[str, bytes], mode: int) -> None:
        with Folder.at(self._scratch) as folder:
            for name, data in files.items():
                folder.create(name, data, mode=mode)

    def _fill(self, text: str) -> str:
        return text.replace(FOLDER, str(self._scratch))


def _read_named(path: Path) -> Configuration:
    try:
        return parse(read_at_most(path, MOST_BYTES)[1])
    except OSError as error:
        raise InvalidRequest("--mcp-config", f"{path} cannot be read: {error.strerror}") from None
    except BadConfiguration as reason:
        raise InvalidRequest("--mcp-config", f"{path} {reason}") from None


def _replace_path(word: str, file: str, copy: str, cwd: Path) -> str:
    """A word of a command with a file in it, as it is or behind ``=``."""
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    is_same = bool(value) and os.path.abspath(cwd / value) == file  # noqa: PTH100 - as above
    return f"{option}{equals}{copy}" if is_same else word


def _outcome(
    command: Sequence[str],
    environment: Mapping[str, str],
    found: Found,
    targets: Mapping[str, Target],
    client: str,
) -> Wrapping:
    servers = tuple(found.servers[name] for name in targets)
    return Wrapping([*command], dict(environment), servers, dict(found.left), tuple(found.files), client)
