"""Claude Code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from cortex_replay.config.files import shown_path
from cortex_replay.mcp.configurations import (
    BadConfiguration,
    Configuration,
    Dialect,
    Target,
    parse,
)
from cortex_replay.run.mcp.clients.base import FOLDER, Found, Pointer, Visit

__all__ = ["ClaudeCode"]

_PATIENCE: Final = {"MCP_CONNECTION_NONBLOCKING": "0", "MCP_CONNECT_TIMEOUT_MS": "60000"}
"""Claude Code tells its model only of those tools whose servers are there within two seconds. A recorded
server is there at once, a real one perhaps not: so it is to wait, in each run."""


class ClaudeCode:
    """Takes a file by ``--mcp-config``, whose servers hold before all others of their name."""

    title = "Claude Code"
    programs = ("claude", "@anthropic-ai/claude-code")
    _FILE = "mcp.json"

    def find(self, visit: Visit, named: Configuration | None) -> Found:
        found = Found()
        if not {"--strict-mcp-config", "--bare", "--safe-mode"} & set(visit.words):
            self._find_files(visit, found)
        for shown, configuration in self._given(visit, found):
            found.add(shown, configuration)
        if named is not None:
            found.add("--mcp-config", named.translate(Dialect.COMMON, visit.environment))
        return found

    def point(self, visit: Visit, found: Found, targets: Mapping[str, Target]) -> Pointer:
        patience = {name: value for name, value in _PATIENCE.items() if name not in visit.environment}
        if not targets:
            return Pointer(variables=patience)
        table: dict[str, Any] = {}
        for _, configuration in self._given(visit, Found()):  # its file goes, so all of it is copied
            table |= configuration.document.get(Dialect.COMMON.value) or {}
        table |= {name: found.servers[name].point_at(target) for name, target in targets.items()}
        data = json.dumps({Dialect.COMMON.value: table}).encode()
        return Pointer(
            [f"--mcp-config={FOLDER}/{self._FILE}"],
            frozenset(index for index, _ in self._words(visit)),
            patience,
            {self._FILE: data},
        )

    def _find_files(self, visit: Visit, found: Found) -> None:
        sources = _sources_in(visit.words)
        own, settings = self._own(visit)
        if own is not None and "user" in sources:
            found.add("~/.claude.json", own)
        projects = own.document.get("projects") if own is not None else None
        project = projects.get(str(visit.cwd)) if isinstance(projects, dict) else None
        project = project if isinstance(project, dict) else {}
        if "project" in sources:
            self._find_project(visit, found, project, settings)
        local = project.get(Dialect.COMMON.value)
        if isinstance(local, dict) and "local" in sources:
            found.interpret("~/.claude.json", {Dialect.COMMON.value: local}, Dialect.COMMON)
        for name in _names(project.get("disabledMcpServers")):
            found.leave(name, "Claude Code has it switched off")

    def _own(self, visit: Visit) -> tuple[Configuration | None, list[dict[str, Any]]]:
        """The user's own file and settings."""
        told = visit.environment.get("CLAUDE_CONFIG_DIR")
        folder = Path(told) if told else visit.home
        if folder is None:
            return None, []
        own = Found().read_own(folder / ".claude.json", Dialect.COMMON)
        where = folder / "settings.json" if told else folder / ".claude" / "settings.json"
        settings = Found().read_own(where, Dialect.COMMON)
        return own, [] if settings is None else [settings.document]

    def _find_project(
        self, visit: Visit, found: Found, project: Mapping[str, Any], settings: list[dict[str, Any]]
    ) -> None:
        """What a repository names. Claude Code asks about these if it runs at a terminal."""
        of_project: Found = Found()
        for folder in visit.folders(to_top=False):
            configuration = of_project.read_project(folder, ".mcp.json", Dialect.COMMON)
            if configuration is not None:
                of_project.add(shown_path(folder / ".mcp.json"), configuration)
        for name in ("settings.json", "settings.local.json"):
            told = Found().read_project(visit.cwd, f".claude/{name}", Dialect.COMMON)
            settings = [*settings, told.document] if told is not None else settings
        told_of = [project, *settings]
        refused = {name for one in told_of for name in _names(one.get("disabledMcpjsonServers"))}
        allowed = {name for one in told_of for name in _names(one.get("enabledMcpjsonServers"))}
        words = visit.words if visit.script is None else visit.script.split()
        asks = not {"-p", "--print"} & set(words)
        takes_all = any(one.get("enableAllProjectMcpServers") is True for one in told_of)
        is_trusted = project.get("hasTrustDialogAccepted") is True
        for name in [*of_project.servers]:
            if name in refused:
                of_project.leave(name, "Claude Code has it switched off")
            elif asks and not (is_trusted and (takes_all or name in allowed)):
                of_project.leave(name, "Claude Code asks about it first")
        found.files |= of_project.files
        found.has_stand_in |= of_project.has_stand_in
        for name, server in of_project.servers.items():
            found.left.pop(name, None)
            found.servers[name] = server
        for name, why in of_project.left.items():
            found.servers.pop(name, None)
            found.left[name] = why

    def _given(self, visit: Visit, found: Found) -> Iterator[tuple[str, Configuration]]:
        """What its own arguments name: files, or JSON as it is."""
        for _, value in self._words(visit):
            if value.lstrip().startswith("{"):
                try:
                    yield "--mcp-config", parse(value.encode("utf-8", "surrogateescape"), Dialect.COMMON)
                except BadConfiguration as reason:
                    found.left["--mcp-config"] = f"it {reason}"
            elif value:
                path = visit.cwd / value
                read = found.read_own(path, Dialect.COMMON)
                if read is not None:
                    yield shown_path(path), read

    def _words(self, visit: Visit) -> list[tuple[int, str]]:
        """Its arguments ``--mcp-config`` and what belongs to them, by their place."""
        made: list[tuple[int, str]] = []
        is_inside = False
        for index, word in enumerate(visit.words):
            if word == "--":
                break
            if word == "--mcp-config":
                is_inside = True
                made.append((index, ""))
            elif word.startswith("--mcp-config="):
                is_inside = False
                made.append((index, word.partition("=")[2]))
            elif is_inside and not word.startswith("-"):
                made.append((index, word))
            else:
                is_inside = False
        return made


def _sources_in(words: Sequence[str]) -> set[str]:
    """Which settings Claude Code is to read."""
    for before, word in pairwise(words):
        if before == "--setting-sources":
            return set(word.split(","))
    return {"user", "project", "local"}


def _names(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
