"""opencode."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cortex_replay.config.files import shown_path
from cortex_replay.mcp.configurations import (
    BadConfiguration,
    Configuration,
    Dialect,
    Target,
    interpret,
    merge,
    parse,
)
from cortex_replay.run.mcp.clients.base import Found, Pointer, Visit

__all__ = ["OpenCode"]


class OpenCode:
    """Takes a configuration from a variable, which is merged over its files."""

    title = "opencode"
    programs = ("opencode", "opencode-ai")
    _VARIABLE = "OPENCODE_CONFIG_CONTENT"
    _NAMES = ("opencode.json", "opencode.jsonc")

    def find(self, visit: Visit, named: Configuration | None) -> Found:
        found = Found()
        whole: dict[str, Any] = {}
        for shown, read in self._files(visit, found):
            whole = merge(whole, {Dialect.OPENCODE.value: read.document.get(Dialect.OPENCODE.value) or {}})
            if read.servers:
                found.files[shown] = None
        inline = self._inline(visit)
        if inline:
            whole = merge(whole, inline)
            found.files[self._VARIABLE] = None
        try:
            configuration = interpret(whole, Dialect.OPENCODE)
        except BadConfiguration as reason:
            found.left["mcp"] = str(reason)
        else:
            files = dict(found.files)
            found.add("", configuration)
            found.files = files
        if named is not None:
            found.add("--mcp-config", named.translate(Dialect.OPENCODE, visit.environment))
        return found

    def point(self, visit: Visit, found: Found, targets: Mapping[str, Target]) -> Pointer:
        if not targets:
            return Pointer()
        table = {name: found.servers[name].point_at(target) for name, target in targets.items()}
        made = merge(self._inline(visit), {Dialect.OPENCODE.value: table})
        return Pointer(variables={self._VARIABLE: json.dumps(made)})

    def _files(self, visit: Visit, found: Found) -> Iterator[tuple[str, Configuration]]:
        """What it reads, what holds last."""
        told = visit.environment.get("XDG_CONFIG_HOME")
        config = Path(told) if told else None if visit.home is None else visit.home / ".config"
        own = [] if config is None else [config / "opencode" / name for name in ("config.json", *self._NAMES)]
        if named := visit.environment.get("OPENCODE_CONFIG"):
            own.append(visit.cwd / named)
        for path in own:
            if (read := found.read_own(path, Dialect.OPENCODE)) is not None:
                yield shown_path(path), read
        folders = visit.folders(to_top=True)
        for below in ("", ".opencode/"):
            for folder, name in ((folder, below + name) for folder in folders for name in self._NAMES):
                if (read := found.read_project(folder, name, Dialect.OPENCODE)) is not None:
                    yield shown_path(folder / name), read
        if directory := visit.environment.get("OPENCODE_CONFIG_DIR"):
            for path in (visit.cwd / directory / name for name in self._NAMES):
                if (read := found.read_own(path, Dialect.OPENCODE)) is not None:
                    yield shown_path(path), read

    def _inline(self, visit: Visit) -> dict[str, Any]:
        try:
            given = visit.environment.get(self._VARIABLE, "{}")
            return parse(given.encode("utf-8", "surrogateescape"), Dialect.OPENCODE).document
        except BadConfiguration:
            return {}
