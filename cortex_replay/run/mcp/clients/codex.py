"""Codex."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cortex_replay.config.files import shown_path
from cortex_replay.mcp.configurations import Configuration, Dialect, Target, merge, toml_words
from cortex_replay.run.mcp.clients.base import Found, Pointer, Visit

__all__ = ["Codex"]


class Codex:
    """Takes single settings by ``-c``, which hold before its files."""

    title = "Codex"
    programs = ("codex", "@openai/codex")

    def find(self, visit: Visit, named: Configuration | None) -> Found:
        found = Found()
        told = visit.environment.get("CODEX_HOME")
        home = Path(told) if told else None if visit.home is None else visit.home / ".codex"
        own = None if home is None else found.read_own(home / "config.toml", Dialect.CODEX)
        if own is not None:
            found.add("~/.codex/config.toml", own)
        whole = {} if own is None else own.document
        if self._is_trusted(visit, whole):
            for folder in visit.folders(to_top=True):
                read = found.read_project(folder, ".codex/config.toml", Dialect.CODEX)
                if read is not None:
                    table = {Dialect.CODEX.value: read.document.get(Dialect.CODEX.value) or {}}
                    whole = merge(whole, table)
                    found.interpret(shown_path(folder / ".codex" / "config.toml"), whole, Dialect.CODEX)
        if named is not None:
            found.left["--mcp-config"] = "Codex has its servers from its own configuration only"
        for name, server in [*found.servers.items()]:
            if server.label != name or "." in name:
                found.leave(name, "its name cannot be said on a command line")
            elif server.kind != "stdio":
                found.leave(name, "Codex cannot be shown another URL for one run")
        return found

    def point(self, visit: Visit, found: Found, targets: Mapping[str, Target]) -> Pointer:
        words: list[str] = []
        for name, target in targets.items():
            words += toml_words(name, {"command": target.words[0], "args": target.words[1:]})
            if "cwd" in found.servers[name].spec:
                words += toml_words(name, {"cwd": str(visit.cwd)})
        return Pointer(words)

    def _is_trusted(self, visit: Visit, own: Mapping[str, Any]) -> bool:
        """Whether it reads what a project says: the user has trusted it, or does so by an argument."""
        if "--dangerously-bypass-approvals-and-sandbox" in visit.words or "--yolo" in visit.words:
            return True
        projects = own.get("projects")
        trusted = projects if isinstance(projects, dict) else {}
        return any(
            isinstance(one := trusted.get(str(folder)), dict) and one.get("trust_level") == "trusted"
            for folder in visit.folders(to_top=True)
        )
