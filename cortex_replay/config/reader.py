"""Reading the settings of one file."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, cast

from cortex_replay.bindings import BindingRules
from cortex_replay.config import checks
from cortex_replay.config.bindings import read_bindings
from cortex_replay.config.caller import CALLER_CHECKS, CallerSettings
from cortex_replay.config.checks import Check, config_errors
from cortex_replay.config.files import ConfigFile
from cortex_replay.config.layers import DEFAULT, Layer, SourceValue
from cortex_replay.config.mcp import MCP_CHECKS, McpSettings, server_key
from cortex_replay.config.origin import ProjectOrigin
from cortex_replay.config.provider import PROVIDER_CHECKS, refuse_foreign_setting
from cortex_replay.config.remote import CACHE_SIZE_VARIABLE, OF_USERS, REMOTE_CHECKS
from cortex_replay.config.settings import SCALAR_CHECKS
from cortex_replay.config.tables import Normaliser, Price, Redaction
from cortex_replay.errors import ConfigError
from cortex_replay.providers import KINDS, PROVIDERS, Kind

__all__ = ["PATHS", "LayerReader", "expand_home", "refuse_store_elsewhere"]

PATHS: Final = frozenset(["store", "key_file", "script", "token_file"])
"""The settings that are paths."""

_TABLES: Final = ("providers", "redaction", "normalisers", "bindings", "prices", "callers", "mcp", "remote")
_REDACTION: Final = ("extra_patterns", "redact_key", "known_env")
_PATHS_OF_GATEWAY: Final = re.compile(r"v[0-9]+[a-z0-9]*|api|rpc", re.IGNORECASE)
"""Where clients ask that name no provider: ``/v1/messages``, ``/api/chat``, ``/rpc``."""
_GIT_FOLDER: Final = re.compile(r"\.git|git~\d+", re.IGNORECASE)
"""Also as some file systems spell it."""
_OF_PROJECTS: Final = frozenset(["store", "mode", "normalisers", "bindings"])
"""What the user's own file cannot say: it would make one store mean two things."""
_OF_ENVIRONMENTS: Final = frozenset(["account", "endpoint", "endpoint_url", "headers", "profile", "proxy"])
"""What a user may look for in the table of a remote, and a repository must not say."""
_EVERY_WRITE: Final = "cache_write"
"""What one price for both times of a cache was called."""
_WRITES: Final = ("cache_write_5m", "cache_write_1h")


class LayerReader:
    """Reads what a file says, and says where it stands when it is wrong.

    Args:
        file: The file.
        home: What ``~`` stands for.
        kinds: The kinds of the providers that weaker files describe.
    """

    def __init__(self, file: ConfigFile, home: str, kinds: Mapping[str, Kind]) -> None:
        self._file = file
        self._home = home
        self._root = file.path.parent if file.is_project else None
        self._kinds = {name: row.kind for name, row in PROVIDERS.items()} | dict(kinds)

    def read(self) -> Layer:
        """The layer that the file is.

        Raises:
            ConfigError: It says what cannot be; ``field`` says where.
        """
        table = self._table(self._file.table, (*SCALAR_CHECKS, *_TABLES))
        if not self._file.is_project:
            self._refuse_what_projects_say(table)
        checked = {name: check for name, check in SCALAR_CHECKS.items() if name in table}
        layer = Layer(
            scalars={name: self._value(check, table[name], name) for name, check in checked.items()},
            providers={name: self._provider(name, one) for name, one in self._entries(table, "providers")},
            normalisers={
                name: self._normaliser(name, one) for name, one in self._entries(table, "normalisers")
            },
            prices={name: self._price(name, one) for name, one in self._any(table, "prices").items()},
            callers={name: self._caller(name, one) for name, one in self._entries(table, "callers")},
            redaction=self._redaction(table),
            bindings=self._bindings(table),
            mcp={name: self._server(name, one) for name, one in self._any(table, "mcp").items()},
            remote=self._remote(table.get("remote", {})),
        )
        if any(_EVERY_WRITE in entry for entry in table.get("prices", {}).values()):
            note = f"{_EVERY_WRITE} is read as {' and '.join(_WRITES)}; write these instead"
            layer.warnings.append(f"{self._file.where('prices')}: {note}")
        names = [f"normalisers.{name}" for name in layer.normalisers]
        names += [f"redaction.extra_patterns.{name}" for name in layer.redaction.extra_patterns]
        names += [f"prices.{name}" for name in layer.prices]
        names += [f"redaction.{name}" for name in table.get("redaction", ())]
        names += [f"bindings.{name}" for name in self._any(table, "bindings")]
        names += [f"bindings.values.{name}" for name in layer.bindings.values]
        names += [f"callers.{name}.{setting}" for name in layer.callers for setting in table["callers"][name]]
        names += [f"mcp.{name}.{setting}" for name in layer.mcp for setting in table["mcp"][name]]
        layer.origins = dict.fromkeys(names, self._file.shown)
        return layer

    def _value(self, check: Check, value: object, *names: str) -> SourceValue:
        where = self._file.where(*names)
        if names[-1] in PATHS:
            value = self._file.path.parent / expand_home(checks.path(value, where), self._home)
            if names == ("store",) and self._file.is_project:
                refuse_store_elsewhere(value, self._file.path.parent, where)
        return SourceValue(check(value, where), self._file.shown, where, self._root)

    def _refuse_what_projects_say(self, table: Mapping[str, Any]) -> None:
        names = [name for name in table if name in _OF_PROJECTS]
        if "redact_key" in self._any(table, "redaction"):
            names.append("redaction.redact_key")
        for name in names:
            raise ConfigError(self._file.where(name), "is for a project to say, not for your own file")

    def _provider(self, name: str, entry: object) -> dict[str, SourceValue]:
        where = self._file.where("providers", name)
        if _PATHS_OF_GATEWAY.fullmatch(name):
            reason = "calls of other providers begin with this word, and would go here; choose another name"
            raise ConfigError(where, reason)
        table = self._table(entry, PROVIDER_CHECKS, "providers", name)
        if "kind" not in table and name not in self._kinds:
            raise ConfigError(where, f"lacks kind: one of {', '.join(KINDS)}")
        values = {
            setting: self._value(PROVIDER_CHECKS[setting], value, "providers", name, setting)
            for setting, value in table.items()
        }
        kind = cast("Kind", values["kind"].value if "kind" in values else self._kinds[name])
        values.setdefault("kind", SourceValue(kind, DEFAULT, ""))
        for setting, one in values.items():
            refuse_foreign_setting(kind, setting, one.where)
        return values

    def _normaliser(self, name: str, entry: object) -> Normaliser:
        entry = {"pattern": entry} if isinstance(entry, str) else entry
        table = self._table(entry, ("pattern", "placeholder"), "normalisers", name)
        if "pattern" not in table:
            raise ConfigError(self._file.where("normalisers", name), "lacks pattern")
        with config_errors(self._file.where("normalisers", name, "")):
            return Normaliser(table["pattern"], table.get("placeholder", f"<{name}>"))

    def _price(self, name: str, entry: object) -> Price:
        known = [one.name for one in fields(Price)]
        table = dict(self._table(entry, [*known, _EVERY_WRITE], "prices", name))
        shown = checks.shown_name(name)
        for side in ("input", "output"):
            if side not in table:
                reason = f"lacks {side}, per million tokens"
                raise ConfigError(self._file.where("prices", shown), reason)
        with config_errors(self._file.where("prices", shown, "")):
            if _EVERY_WRITE in table:
                both = checks.price(table.pop(_EVERY_WRITE), _EVERY_WRITE)
                table = dict.fromkeys(_WRITES, both) | table
            return Price(**table)

    def _caller(self, name: str, entry: object) -> CallerSettings:
        table = self._table(entry, CALLER_CHECKS, "callers", name)
        values: dict[str, Any] = {
            setting: self._value(CALLER_CHECKS[setting], value, "callers", name, setting).value
            for setting, value in table.items()
        }
        origin = None if self._root is None else ProjectOrigin(self._root, frozenset(values))
        return CallerSettings(**values, project=origin)

    def _server(self, name: str, entry: object) -> McpSettings:
        server_key(name, self._file.where("mcp"))
        table = self._table(entry, MCP_CHECKS, "mcp", name)
        with config_errors(self._file.where("mcp", checks.shown_name(name), "")):
            return McpSettings(**table)

    def _remote(self, entry: object) -> dict[str, SourceValue]:
        for name in _OF_ENVIRONMENTS.intersection(entry if isinstance(entry, dict) else ()):
            reason = "comes from your environment, in the way of your cloud, and never from a file"
            raise ConfigError(self._file.where("remote", name), reason)
        table = self._table(entry, REMOTE_CHECKS, "remote")
        for name in table:
            if self._file.is_project and name in OF_USERS:
                reason = f"is for you to say: in your own file, or by {CACHE_SIZE_VARIABLE}"
                raise ConfigError(self._file.where("remote", name), reason)
            if not self._file.is_project and name not in OF_USERS:
                reason = "is for a project to say, not for your own file"
                raise ConfigError(self._file.where("remote", name), reason)
        return {name: self._value(REMOTE_CHECKS[name], one, "remote", name) for name, one in table.items()}

    def _redaction(self, above: Mapping[str, Any]) -> Redaction:
        table = self._table(above.get("redaction", {}), _REDACTION, "redaction")
        patterns = dict(self._entries(table, "extra_patterns", "redaction"))
        with config_errors(self._file.where("redaction", "")):
            return Redaction(**{**table, "extra_patterns": patterns})

    def _bindings(self, table: Mapping[str, Any]) -> BindingRules:
        with config_errors(self._file.where("bindings", "")):
            return read_bindings(self._any(table, "bindings"))

    def _entries(self, table: Mapping[str, Any], name: str, *above: str) -> Iterator[tuple[str, Any]]:
        """The entries of a table whose names are the user's."""
        entries = self._any(table, name, *above)
        checks.refuse_more(entries, checks.MAX_ENTRIES, self._file.where(*above, name))
        for key, value in entries.items():
            yield checks.name(key, self._file.where(*above, name)), value

    def _any(self, table: Mapping[str, Any], name: str, *above: str) -> Mapping[str, Any]:
        """A table with any names, by its own."""
        entries = table.get(name, {})
        return self._table(entries, entries, *above, name)

    def _table(self, value: object, known: Collection[str], *names: str) -> Mapping[str, Any]:
        """A value that is a table, with no names but those that are known."""
        if not isinstance(value, dict):
            raise ConfigError(self._file.where(*map(checks.shown_name, names)), "expected a table")
        for name in value:
            if name not in known:
                where = self._file.where(*map(checks.shown_name, (*names, name)))
                raise ConfigError(where, f"there is no such setting{checks.did_you_mean(name, known)}")
        return value


def refuse_store_elsewhere(store: Path, folder: Path, where: str) -> None:
    """Refuse a store beyond the repository of the file that names it: commands write and remove there."""
    above = (one for one in (folder, *folder.parents) if os.path.lexists(one / ".git"))
    project, normal = next(above, folder), Path(os.path.normpath(store))
    if not normal.is_relative_to(project):
        reason = "is outside of this project; only you can name such a store: --store or CORTEX_REPLAY_STORE"
        raise ConfigError(where, reason)
    if any(_GIT_FOLDER.fullmatch(part) for part in normal.relative_to(project).parts):
        raise ConfigError(where, "is in git's own folder, where no store belongs")


def expand_home(path: Path, home: str) -> Path:
    """The path, with ``~/`` for the user's own folder, where a key is best kept."""
    return Path(home, *path.parts[1:]) if path.parts[:1] == ("~",) else path
