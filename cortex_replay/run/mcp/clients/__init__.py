"""MCP clients that a command may start: where they read their servers, and how one run is shown others.

Each is asked for what it would read itself, from where it would read it, and is shown a copy by its arguments
or its environment; its own files stay as they are. A server that the client would not start without asking,
or from a project that the user has not trusted, is not offered to it either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from cortex_replay.run.mcp.clients.base import Client
from cortex_replay.run.mcp.clients.claude_code import ClaudeCode
from cortex_replay.run.mcp.clients.codex import Codex
from cortex_replay.run.mcp.clients.fixed import FixedClient
from cortex_replay.run.mcp.clients.opencode import OpenCode

__all__ = ["CLIENTS", "find_client", "real_program"]

_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_LAUNCHERS: Final = frozenset(
    {"env", "npx", "bunx", "nice", "nohup", "time", "timeout", "stdbuf", "faketime"}
)
"""Programs that start another one, which stands in their own command line."""
_OF_A_PACKAGE: Final = frozenset({"-p", "--package"})
"""Behind these, npx has a package, and the program comes later."""

CLIENTS: Final[tuple[Client, ...]] = (
    ClaudeCode(),
    OpenCode(),
    Codex(),
    FixedClient(
        "Gemini CLI", ("gemini", "@google/gemini-cli"), ".gemini/settings.json", ".gemini/settings.json"
    ),
    FixedClient("Cursor", ("cursor-agent",), ".cursor/mcp.json", ".cursor/mcp.json"),
    FixedClient("Copilot CLI", ("copilot", "@github/copilot"), ".mcp.json", ".copilot/mcp-config.json"),
)


def find_client(command: Sequence[str]) -> tuple[Client, int | None] | None:
    """The client that a command starts, and the place of its program; ``None`` for that within a script.

    Only what starts other programs is looked into: a word that looks like a client may be anything else.
    """
    start = Path(command[0]).name if command else ""
    for index, word in enumerate(command[: len(command) if start in _LAUNCHERS else 1]):
        client = _client_called(word)
        if client is not None and (index == 0 or command[index - 1] not in _OF_A_PACKAGE):
            return client, index
    if start in _SHELLS:
        for script in (word for before, word in pairwise(command) if _is_script_option(before)):
            for client in CLIENTS:
                if re.search(rf"(?<![\w./@-]){re.escape(client.programs[0])}(?![\w./-])", script):
                    return client, None
    return None


def real_program(client: Client, environment: Mapping[str, str]) -> str | None:
    """Where a shell finds the client."""
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    places = (os.path.join(folder or os.curdir, client.programs[0]) for folder in folders)  # noqa: PTH118 - not on `.`
    return next((place for place in places if Path(place).is_file() and os.access(place, os.X_OK)), None)


def _is_script_option(word: str) -> bool:
    return re.fullmatch(r"-[a-z]*c", word) is not None


def _client_called(word: str) -> Client | None:
    name = re.sub(r"(?<=.)@[^/@]*$", "", word)  # a version
    names = {name, Path(word).name}
    return next((client for client in CLIENTS if names & set(client.programs)), None)
