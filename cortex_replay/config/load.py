"""Bringing the sources of settings together.

From the weakest to the strongest:

1. the defaults (:class:`~cortex_replay.config.settings.Settings`);
2. the user's own ``cortex-replay/config.toml``, below ``$XDG_CONFIG_HOME`` or ``~/.config``; not in CI;
3. the project's: ``[tool.cortex-replay]`` of the nearest ``pyproject.toml``, or the nearest
   ``cortex-replay.toml``;
4. the environment: ``CORTEX_REPLAY_MODE`` and its like; one that is empty counts as not set;
5. flags.

A project's file may be a stranger's. What it says of servers, keys and paths is marked as its own
(:class:`~cortex_replay.config.settings.ProjectSays`), and counts for less.

A value that loses is checked all the same. With ``CI`` set, a mode that stands in a file is not used:
there the default is always ``replay``. A mode from the environment or a flag holds, with a warning.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, get_args

from cortex_replay.config import checks
from cortex_replay.config.checks import Check
from cortex_replay.config.files import ConfigFile, find_config, find_user_config
from cortex_replay.config.settings import (
    BUILT_IN_KINDS,
    CALLER_CHECKS,
    PROVIDER_CHECKS,
    SCALAR_CHECKS,
    CallerSettings,
    Kind,
    Normaliser,
    Price,
    ProjectSays,
    ProviderSettings,
    Redaction,
    SensitivityLevel,
    Settings,
    pattern_names,
    refuse_foreign_field,
    refuse_unknown_provider,
)
from cortex_replay.config.trust import is_ci
from cortex_replay.errors import InvalidRequest

__all__ = ["VARIABLES", "Loaded", "load_from", "load_settings", "refuse_store_elsewhere"]

_PREFIX: Final = "CORTEX_REPLAY_"
VARIABLES: Final[Mapping[str, str]] = {f"{_PREFIX}{name.upper()}": name for name in SCALAR_CHECKS}
"""The environment variables that give a setting."""

_DEFAULT: Final = "default"
_TABLES: Final = ("providers", "redaction", "normalisers", "prices", "callers")
_REDACTION: Final = ("extra_patterns", "redact_key", "known_env")
_NUMBERS: Final = frozenset(["timeout_ms", "max_retries", "jobs", "budget_calls", "budget_tokens"])
_PATHS: Final = frozenset(["store", "key_file", "script", "token_file"])
_LONGEST_STEM: Final = 36
_CEILINGS: Final[Mapping[str, Callable[[Any], int]]] = {
    "budget_calls": int,
    "budget_tokens": int,
    "max_sensitivity": get_args(SensitivityLevel).index,
}
"""What a user sets as a limit for every project: a project can lower it, and not lift it."""
_PATHS_OF_GATEWAY: Final = re.compile(r"v[0-9]+[a-z0-9]*|api|rpc", re.IGNORECASE)
"""Where clients ask that name no provider: ``/v1/messages``, ``/api/chat``, ``/rpc``."""
_GIT_FOLDER: Final = re.compile(r"\.git|git~\d+", re.IGNORECASE)
"""Also as some file systems spell it."""
_OF_PROJECTS: Final = frozenset(["store", "mode", "normalisers"])
"""What the user's own file cannot say: it would make one store mean two things."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings that hold, and how they came about."""

    settings: Settings
    origins: dict[str, str]
    """By dotted name: ``default``, the file, ``CORTEX_REPLAY_MODE``, ``--mode``, or ``CI``."""
    warnings: list[str] = field(default_factory=list)
    """What somebody should be told."""
    file: ConfigFile | None = None
    """The file that was found."""


class _Given(NamedTuple):
    """A setting as one source gives it, checked."""

    value: object
    origin: str
    where: str
    root: Path | None = None
    """The folder of the project's file that gives it; ``None`` if the user does."""


def load_settings(
    start: Path, environment: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> Loaded:
    """The settings that hold in a folder.

    Args:
        start: Where to look for a file, and then upward.
        environment: ``os.environ``, or what stands for it.
        flags: By name; ``None`` for one that was not given. A setting of providers is for the one that
            is chosen.

    Raises:
        InvalidRequest: Something is configured that cannot be; ``field`` says where.
    """
    return load_from(find_config(start), environment, flags or {})


def load_from(file: ConfigFile | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Loaded:
    """The settings that hold with a file that was found; see :func:`load_settings`."""
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - a text, to be joined
    in_ci = is_ci(environment)
    own = None if in_ci else find_user_config(environment)
    of_user = _Said() if own is None else _Reader(own, home).read()
    said = _Said() if file is None else _Reader(file, home, of_user.kinds).read()
    said = said.over(of_user)
    scalars = said.scalars | _from_environment(environment, home) | _scalar_flags(flags)
    warnings = _misspelt(environment)
    if in_ci:
        warnings += _settle_mode_in_ci(scalars)
    chosen = scalars.get("provider")
    if chosen is not None:
        known = [*BUILT_IN_KINDS, *(name for name in said.providers if name not in BUILT_IN_KINDS)]
        refuse_unknown_provider(str(chosen.value), known, chosen.where)
    _add_provider_flags(said.providers, chosen, flags)
    settings = Settings(
        **cast("dict[str, Any]", {name: given.value for name, given in scalars.items()}),
        providers={name: _provider(given) for name, given in said.providers.items()},
        redaction=said.redaction,
        normalisers=said.normalisers,
        prices=said.prices,
        callers=said.callers,
    )
    given_by = {name: given.origin for name, given in scalars.items()} | said.origins
    for name, given in said.providers.items():
        given_by |= {f"providers.{name}.{setting}": one.origin for setting, one in given.items()}
    origins = {name: given_by.get(name, _DEFAULT) for name, _ in settings.flat()}
    return Loaded(settings, origins, warnings, file)


@dataclass(slots=True)
class _Said:
    """What a file says."""

    scalars: dict[str, _Given] = field(default_factory=dict)
    providers: dict[str, dict[str, _Given]] = field(default_factory=dict)
    redaction: Redaction = field(default_factory=Redaction)
    normalisers: dict[str, Normaliser] = field(default_factory=dict)
    prices: dict[str, Price] = field(default_factory=dict)
    callers: dict[str, CallerSettings] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    """Of every table but providers."""

    @property
    def kinds(self) -> dict[str, Kind]:
        return {name: cast("Kind", given["kind"].value) for name, given in self.providers.items()}

    def over(self, weaker: _Said) -> _Said:
        """Both, where this one wins."""
        providers = {**weaker.providers, **self.providers}
        for name in weaker.providers.keys() & self.providers.keys():
            given = self.providers[name]
            if given["kind"].value == weaker.kinds[name]:  # else it is another provider altogether
                providers[name] = weaker.providers[name] | given
        own, further = weaker.redaction.extra_patterns, self.redaction.extra_patterns
        names = _own_names(own, further)
        table = "redaction.extra_patterns"
        renamed = {f"{table}.{names[name]}": weaker.origins[f"{table}.{name}"] for name in own}
        redaction = Redaction(
            extra_patterns={**{names[name]: pattern for name, pattern in own.items()}, **further},
            redact_key=self.redaction.redact_key,
            known_env=(*weaker.redaction.known_env, *self.redaction.known_env),
        )
        stricter = {
            name: weaker.scalars[name]
            for name, rank in _CEILINGS.items()
            if name in weaker.scalars
            and name in self.scalars
            and rank(weaker.scalars[name].value) < rank(self.scalars[name].value)
        }
        return _Said(
            weaker.scalars | self.scalars | stricter,
            providers,
            redaction,
            self.normalisers,
            weaker.prices | self.prices,
            weaker.callers | self.callers,
            weaker.origins | renamed | self.origins,
        )


def _own_names(own: Mapping[str, str], of_project: Mapping[str, str]) -> dict[str, str]:
    """What the user's own patterns are called beside those of a project, which cannot take one away by
    giving another its name."""
    names: dict[str, str] = {}
    for name, pattern in own.items():
        free, number = name, 1
        while of_project.get(free, pattern) != pattern or (free != name and free in own):
            number += 1
            free = f"{name[:_LONGEST_STEM]}-{number}"
        names[name] = free
    return names


class _Reader:
    """Reads the settings of one file, and says where each stands when it is wrong."""

    def __init__(self, file: ConfigFile, home: str, kinds: Mapping[str, Kind] | None = None) -> None:
        self._file = file
        self._home = home
        self._root = file.path.parent if file.is_project else None
        self._kinds = {**BUILT_IN_KINDS, **(kinds or {})}

    def read(self) -> _Said:
        table = self._file.table
        self._refuse_unknown(table, (*SCALAR_CHECKS, *_TABLES))
        if not self._file.is_project:
            self._refuse_what_projects_say(table)
        said = _Said()
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

    def _given(self, check: Check, value: object, *names: str) -> _Given:
        where = self._file.where(*names)
        if names[-1] in _PATHS:
            value = self._file.path.parent / _at_home(checks.path(value, where), self._home)
            if names == ("store",) and self._file.is_project:
                refuse_store_elsewhere(value, self._file.path.parent, where)
        return _Given(check(value, where), self._file.shown, where, self._root)

    def _refuse_what_projects_say(self, table: Mapping[str, Any]) -> None:
        said = [(name,) for name in table if name in _OF_PROJECTS]
        if "redact_key" in self._table(table, "redaction"):
            said.append(("redaction", "redact_key"))  # type: ignore[arg-type]
        for names in said:
            raise InvalidRequest(self._file.where(*names), "is for a project to say, not for your own file")

    def _provider(self, name: str, entry: object) -> dict[str, _Given]:
        table = self._as_table(entry, "providers", name)
        if _PATHS_OF_GATEWAY.fullmatch(name):
            reason = "calls of other providers begin with this word, and would go here; choose another name"
            raise InvalidRequest(self._file.where("providers", name), reason)
        self._refuse_unknown(table, PROVIDER_CHECKS, "providers", name)
        if "kind" not in table and name not in self._kinds:
            kinds = ", ".join(get_args(Kind))
            raise InvalidRequest(self._file.where("providers", name), f"lacks kind: one of {kinds}")
        given = {
            setting: self._given(PROVIDER_CHECKS[setting], value, "providers", name, setting)
            for setting, value in table.items()
        }
        kind = cast("Kind", given["kind"].value if "kind" in given else self._kinds[name])
        given.setdefault("kind", _Given(kind, _DEFAULT, ""))
        for setting, one in given.items():
            refuse_foreign_field(kind, setting, one.where)
        return given

    def _normaliser(self, name: str, entry: object) -> Normaliser:
        table = {"pattern": entry} if isinstance(entry, str) else self._as_table(entry, "normalisers", name)
        self._refuse_unknown(table, ("pattern", "placeholder"), "normalisers", name)
        where = self._file.where("normalisers", name)
        if "pattern" not in table:
            raise InvalidRequest(where, "lacks pattern")
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
                raise InvalidRequest(where, f"lacks {side}, per million tokens")
            checks.price(table[side], f"{where}.{side}")
        return Price(table["input"], table["output"])

    def _caller(self, name: str, entry: object) -> CallerSettings:
        table = self._as_table(entry, "callers", name)
        self._refuse_unknown(table, CALLER_CHECKS, "callers", name)
        given = {
            setting: self._given(CALLER_CHECKS[setting], value, "callers", name, setting).value
            for setting, value in table.items()
        }
        said = None if self._root is None else ProjectSays(self._root, frozenset(given))
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
        checks.at_most(entries, checks.MAX_ENTRIES, self._file.where(*above, name))
        for key, value in entries.items():
            yield checks.name(key, self._file.where(*above, name)), value

    def _table(self, table: Mapping[str, Any], name: str, *above: str) -> Mapping[str, Any]:
        return self._as_table(table.get(name, {}), *above, name)

    def _as_table(self, value: object, *names: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise InvalidRequest(self._file.where(*map(checks.shown_name, names)), "expected a table")
        return value

    def _refuse_unknown(self, table: Mapping[str, Any], known: Collection[str], *above: str) -> None:
        for name in table:
            if name not in known:
                where = self._file.where(*map(checks.shown_name, (*above, name)))
                raise InvalidRequest(where, f"there is no such setting{checks.did_you_mean(name, known)}")


def refuse_store_elsewhere(store: Path, folder: Path, where: str) -> None:
    """Refuse a store beyond the repository of the file that names it: commands write and remove there."""
    above = (one for one in (folder, *folder.parents) if os.path.lexists(one / ".git"))
    project, normal = next(above, folder), Path(os.path.normpath(store))
    if not normal.is_relative_to(project):
        reason = "is outside of this project; only you can name such a store: --store or CORTEX_REPLAY_STORE"
        raise InvalidRequest(where, reason)
    if any(_GIT_FOLDER.fullmatch(part) for part in normal.relative_to(project).parts):
        raise InvalidRequest(where, "is in git's own folder, where no store belongs")


def _at_home(path: Path, home: str) -> Path:
    """The path, with ``~/`` for the user's own folder, where a key is best kept."""
    return Path(home, *path.parts[1:]) if path.parts[:1] == ("~",) else path


def _from_environment(environment: Mapping[str, str], home: str) -> dict[str, _Given]:
    found: dict[str, _Given] = {}
    for variable, name in VARIABLES.items():
        text = environment.get(variable, "").strip()
        if text:
            value: object = text
            if name in _NUMBERS:
                value = _number(text, variable)
            elif name in _PATHS:
                value = _at_home(checks.path(text, variable), home)
            found[name] = _Given(SCALAR_CHECKS[name](value, variable), variable, variable)
    return found


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 30):
        raise InvalidRequest(where, "expected a whole number")
    return int(text)


def _misspelt(environment: Mapping[str, str]) -> list[str]:
    """Variables that are nearly one of ours. Others may be somebody's own."""
    settings = {
        name: name.removeprefix(_PREFIX).lower()
        for name in sorted(environment)
        if name.startswith(_PREFIX) and name not in VARIABLES
    }
    return [
        f"{name} is not a setting; did you mean {_PREFIX}{near.upper()}?"
        for name, setting in settings.items()
        for near in difflib.get_close_matches(setting, SCALAR_CHECKS, 1, 0.8)
    ]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _scalar_flags(flags: Mapping[str, object]) -> dict[str, _Given]:
    found: dict[str, _Given] = {}
    for name, value in flags.items():
        option = _option(name)
        if name in SCALAR_CHECKS and value is not None:
            found[name] = _Given(SCALAR_CHECKS[name](value, option), option, option)
        elif name not in SCALAR_CHECKS and (name not in PROVIDER_CHECKS or name == "kind"):
            raise InvalidRequest(option, "there is no such setting")
    return found


def _add_provider_flags(
    providers: dict[str, dict[str, _Given]], chosen: _Given | None, flags: Mapping[str, object]
) -> None:
    """Flags such as ``--base-url`` are about the provider that is chosen."""
    for name, value in flags.items():
        if name in SCALAR_CHECKS or value is None:
            continue
        option = _option(name)
        if chosen is None:
            raise InvalidRequest(option, "is about a provider, and none is named")
        given = providers.setdefault(str(chosen.value), {})
        kind = cast("Kind", given["kind"].value if given else BUILT_IN_KINDS[str(chosen.value)])
        given.setdefault("kind", _Given(kind, _DEFAULT, ""))
        refuse_foreign_field(kind, name, option)
        given[name] = _Given(PROVIDER_CHECKS[name](value, option), option, option)


def _provider(given: Mapping[str, _Given]) -> ProviderSettings:
    values = {name: one.value for name, one in given.items()}
    roots = {name: one.root for name, one in given.items() if one.root is not None}
    said = ProjectSays(next(iter(roots.values())), frozenset(roots)) if roots else None
    return ProviderSettings(**cast("dict[str, Any]", values), project=said)


def _settle_mode_in_ci(scalars: dict[str, _Given]) -> list[str]:
    given = scalars.get("mode")
    if given is None or given.value == "replay":
        return []
    if given.origin in (_option("mode"), f"{_PREFIX}MODE"):
        return [f"CI is set, and {given.origin} asks for the mode {given.value}; else it would be replay"]
    scalars["mode"] = _Given("replay", "CI", "CI")
    how = f"{_option('mode')} or {_PREFIX}MODE can say otherwise"
    return [f"CI is set, so the mode is replay and not {given.value}, as {given.origin} says; {how}"]
