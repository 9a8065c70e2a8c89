"""Reading the settings of one file."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast, get_args

from cortex_replay.config import checks
from cortex_replay.config.caller import CALLER_CHECKS, CallerSettings
from cortex_replay.config.checks import Check
from cortex_replay.config.files import ConfigFile
from cortex_replay.config.layers import DEFAULT, Layer, SourceValue
from cortex_replay.config.origin import ProjectOrigin
from cortex_replay.config.provider import PROVIDER_CHECKS, refuse_foreign_setting
from cortex_replay.config.settings import SCALAR_CHECKS
from cortex_replay.config.tables import Normaliser, Price, Redaction, pattern_names
from cortex_replay.errors import ConfigError
from cortex_replay.providers import PROVIDERS, Kind

__all__ = ["PATHS", "expand_home", "read_layer", "refuse_store_elsewhere"]

PATHS: Final = frozenset(["store", "key_file", "script", "token_file"])
"""The settings that are paths."""

_TABLES: Final = ("providers", "redaction", "normalisers", "prices", "callers")
_REDACTION: Final = ("extra_patterns", "redact_key", "known_env")
_PATHS_OF_GATEWAY: Final = re.compile(r"v[0-9]+[a-z0-9]*|api|rpc", re.IGNORECASE)
"""Where clients ask that name no provider: ``/v1/messages``, ``/api/chat``, ``/rpc``."""
_GIT_FOLDER: Final = re.compile(r"\.git|git~\d+", re.IGNORECASE)
"""Also as some file systems spell it."""
_OF_PROJECTS: Final = frozenset(["store", "mode", "normalisers"])
"""What the user's own file cannot say: it would make one store mean two things."""


def read_layer(file: ConfigFile, home: str, kinds: Mapping[str, Kind] | None = None) -> Layer:
    """What a file says, checked.

    Args:
        file: The file.
        home: What ``~`` stands for.
        kinds: The kinds of providers that weaker files describe.

    Raises:
        ConfigError: It says what cannot be; ``field`` says where.
    """
    return _Reader(file, home, kinds or {}).read()


class _Reader:
    """Reads the settings of one file, and says where each stands when it is wrong."""

    def __init__(self, file: ConfigFile, home: str, kinds: Mapping[str, Kind]) -> None:
        self._file = file
        self._home = home
        self._root = file.path.parent if file.is_project else None
        self._kinds = {name: row.kind for name, row in PROVIDERS.items()} | dict(kinds)

    def read(self) -> Layer:
        table = self._file.table
        self._refuse_unknown(table, (*SCALAR_CHECKS, *_TABLES))
        if not self._file.is_project:
            self._refuse_what_projects_say(table)
        said = Layer()
        said.scalars = {
            name: self._given(check, table[name], name)
            for name, check in SCALAR_CHECKS.items()
            if name in table
        }
        for name, entry in self._entries(table, "providers"):
            said.providers[name] = self._provider(name, entry)
        for name, entry in self._entries(table, "normalisers"):
            said.normalisers[name] = self._normaliser(name, entry)
        for name, entry in self._table(table, "prices").items():
            said.prices[name] = self._price(name, entry)
        for name, entry in self._entries(table, "callers"):
            said.callers[name] = self._caller(name, entry)
        said.redaction = self._redaction(self._table(table, "redaction"))
        by_name = [f"normalisers.{name}" for name in said.normalisers]
        by_name += [f"redaction.extra_patterns.{name}" for name in said.redaction.extra_patterns]
        by_name += [f"prices.{name}" for name in said.prices]
        by_name += [f"redaction.{name}" for name in table.get("redaction", ())]
        by_name += [
            f"callers.{name}.{setting}" for name in said.callers for setting in table["callers"][name]
        ]
        said.origins = dict.fromkeys(by_name, self._file.shown)
        return said

    def _given(self, check: Check, value: object, *names: str) -> SourceValue:
        where = self._file.where(*names)
        if names[-1] in PATHS:
            value = self._file.path.parent / expand_home(checks.path(value, where), self._home)
            if names == ("store",) and self._file.is_project:
                refuse_store_elsewhere(value, self._file.path.parent, where)
        return SourceValue(check(value, where), self._file.shown, where, self._root)

    def _refuse_what_projects_say(self, table: Mapping[str, Any]) -> None:
        said = [(name,) for name in table if name in _OF_PROJECTS]
        if "redact_key" in self._table(table, "redaction"):
            said.append(("redaction", "redact_key"))  # type: ignore[arg-type]
        for names in said:
            raise ConfigError(self._file.where(*names), "is for a project to say, not for your own file")

    def _provider(self, name: str, entry: object) -> dict[str, SourceValue]:
        table = self._as_table(entry, "providers", name)
        if _PATHS_OF_GATEWAY.fullmatch(name):
            reason = "calls of other providers begin with this word, and would go here; choose another name"
            raise ConfigError(self._file.where("providers", name), reason)
        self._refuse_unknown(table, PROVIDER_CHECKS, "providers", name)
        if "kind" not in table and name not in self._kinds:
            kinds = ", ".join(get_args(Kind))
            raise ConfigError(self._file.where("providers", name), f"lacks kind: one of {kinds}")
        given = {
            setting: self._given(PROVIDER_CHECKS[setting], value, "providers", name, setting)
            for setting, value in table.items()
        }
        kind = cast("Kind", given["kind"].value if "kind" in given else self._kinds[name])
        given.setdefault("kind", SourceValue(kind, DEFAULT, ""))
        for setting, one in given.items():
            refuse_foreign_setting(kind, setting, one.where)
        return given

    def _normaliser(self, name: str, entry: object) -> Normaliser:
        table = {"pattern": entry} if isinstance(entry, str) else self._as_table(entry, "normalisers", name)
        self._refuse_unknown(table, ("pattern", "placeholder"), "normalisers", name)
        where = self._file.where("normalisers", name)
        if "pattern" not in table:
            raise ConfigError(where, "lacks pattern")
        return Normaliser(
            checks.normaliser(table["pattern"], f"{where}.pattern"),
            checks.placeholder(table.get("placeholder", f"<{name}>"), f"{where}.placeholder"),
        )

    def _price(self, name: str, entry: object) -> Price:
        table = self._as_table(entry, "prices", name)
        self._refuse_unknown(table, ("input", "output"), "prices", name)
        where = self._file.where("prices", checks.shown_name(name))
        for side in ("input", "output"):
            if side not in table:
                raise ConfigError(where, f"lacks {side}, per million tokens")
            checks.price(table[side], f"{where}.{side}")
        return Price(table["input"], table["output"])

    def _caller(self, name: str, entry: object) -> CallerSettings:
        table = self._as_table(entry, "callers", name)
        self._refuse_unknown(table, CALLER_CHECKS, "callers", name)
        given = {
            setting: self._given(CALLER_CHECKS[setting], value, "callers", name, setting).value
            for setting, value in table.items()
        }
        said = None if self._root is None else ProjectOrigin(self._root, frozenset(given))
        return CallerSettings(**cast("dict[str, Any]", given), project=said)

    def _redaction(self, table: Mapping[str, Any]) -> Redaction:
        self._refuse_unknown(table, _REDACTION, "redaction")
        where = self._file.where("redaction")
        patterns = {
            name: checks.pattern(value, f"{where}.extra_patterns.{name}")
            for name, value in self._entries(table, "extra_patterns", "redaction")
        }
        return Redaction(
            extra_patterns=patterns,
            redact_key=pattern_names(table.get("redact_key"), patterns, f"{where}.redact_key"),
            known_env=checks.variables(table.get("known_env"), f"{where}.known_env"),
        )

    def _entries(self, table: Mapping[str, Any], name: str, *above: str) -> Iterator[tuple[str, object]]:
        """The entries of a table whose names are the user's."""
        entries = self._table(table, name, *above)
        checks.refuse_more(entries, checks.MAX_ENTRIES, self._file.where(*above, name))
        for key, value in entries.items():
            yield checks.name(key, self._file.where(*above, name)), value

    def _table(self, table: Mapping[str, Any], name: str, *above: str) -> Mapping[str, Any]:
        return self._as_table(table.get(name, {}), *above, name)

    def _as_table(self, value: object, *names: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise ConfigError(self._file.where(*map(checks.shown_name, names)), "expected a table")
        return value

    def _refuse_unknown(self, table: Mapping[str, Any], known: Collection[str], *above: str) -> None:
        for name in table:
            if name not in known:
                where = self._file.where(*map(checks.shown_name, (*above, name)))
                raise ConfigError(where, f"there is no such setting{checks.did_you_mean(name, known)}")


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
