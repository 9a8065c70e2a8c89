"""Bringing the sources of settings together.

From the weakest to the strongest:

1. the defaults (:class:`~cortex_replay.config.settings.Settings`);
2. the user's own ``cortex-replay/config.toml``, below ``$XDG_CONFIG_HOME`` or ``~/.config``; not in CI;
3. the project's: ``[tool.cortex-replay]`` of the nearest ``pyproject.toml``, or the nearest
   ``cortex-replay.toml``;
4. the environment: ``CORTEX_REPLAY_MODE`` and its like; one that is empty counts as not set;
5. flags.

A project's file may be a stranger's. What it says of servers, keys and paths is marked as its own
(:class:`~cortex_replay.config.origin.ProjectOrigin`), and counts for less.

A value that loses is checked all the same. With ``CI`` set, a mode that stands in a file is not used:
there the default is always ``replay``. A mode from the environment or a flag holds, with a warning.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from cortex_replay.config import checks
from cortex_replay.config.files import ConfigFile, find_config, find_user_config
from cortex_replay.config.layers import DEFAULT, Layer, SourceValue, provider_settings
from cortex_replay.config.provider import PROVIDER_CHECKS, refuse_foreign_setting, refuse_unknown_provider
from cortex_replay.config.reader import PATHS, LayerReader, expand_home
from cortex_replay.config.remote import REMOTE_CHECKS, REMOTE_VARIABLES, RemoteSettings
from cortex_replay.config.settings import SCALAR_CHECKS, Settings
from cortex_replay.config.trust import is_ci
from cortex_replay.errors import ConfigError
from cortex_replay.providers import PROVIDERS, Kind

__all__ = ["VARIABLES", "Configuration", "load_from", "load_settings"]

_PREFIX: Final = "CORTEX_REPLAY_"
VARIABLES: Final[Mapping[str, str]] = {f"{_PREFIX}{name.upper()}": name for name in SCALAR_CHECKS}
"""The environment variables that give a setting."""

_NUMBERS: Final = frozenset(["timeout_ms", "max_retries", "jobs", "budget_calls", "budget_tokens"])
_FLAGS: Final = frozenset(["every_answer"])
_WORDS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings that hold, and how they came about."""

    settings: Settings
    origins: dict[str, str]
    """By dotted name: ``default``, the file, ``CORTEX_REPLAY_MODE``, ``--mode``, or ``CI``."""
    warnings: list[str] = field(default_factory=list)
    """What somebody should be told."""
    file: ConfigFile | None = None
    """The file that was found."""


def load_settings(
    start: Path, environment: Mapping[str, str], flags: Mapping[str, object] | None = None
) -> Configuration:
    """The settings that hold in a folder.

    Args:
        start: Where to look for a file, and then upward.
        environment: ``os.environ``, or what stands for it.
        flags: By name; ``None`` for one that was not given. A setting of providers is for the one that
            is chosen.

    Raises:
        ConfigError: Something is configured that cannot be; ``field`` says where.
    """
    return load_from(find_config(start), environment, flags or {})


@checks.config_errors()
def load_from(
    file: ConfigFile | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Configuration:
    """The settings that hold with a file that was found; see :func:`load_settings`."""
    home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - a text, to be joined
    in_ci = is_ci(environment)
    own = None if in_ci else find_user_config(environment)
    of_user = Layer() if own is None else LayerReader(own, home, {}).read()
    of_project = Layer() if file is None else LayerReader(file, home, of_user.kinds).read()
    layer = of_project.over(of_user)
    scalars = layer.scalars | _environment_values(environment, home) | _flag_values(flags)
    warnings = [*layer.warnings, *_spelling_warnings(environment)]
    if in_ci:
        warnings += _settle_mode_in_ci(scalars)
    chosen = scalars.get("provider")
    if chosen is not None:
        refuse_unknown_provider(str(chosen.value), PROVIDERS | layer.providers, chosen.where)
    _add_provider_flags(layer.providers, chosen, flags)
    remote = layer.remote | _remote_values(environment)
    settings = Settings(
        **cast("dict[str, Any]", {name: given.value for name, given in scalars.items()}),
        providers={name: provider_settings(name, given) for name, given in layer.providers.items()},
        redaction=layer.redaction,
        normalisers=layer.normalisers,
        prices=layer.prices,
        callers=layer.callers,
        bindings=layer.bindings,
        mcp=layer.mcp,
        remote=RemoteSettings(**cast("dict[str, Any]", {name: one.value for name, one in remote.items()})),
    )
    given_by = {name: given.origin for name, given in scalars.items()} | layer.origins
    given_by |= {f"remote.{name}": given.origin for name, given in remote.items()}
    for name, given in layer.providers.items():
        given_by |= {f"providers.{name}.{setting}": one.origin for setting, one in given.items()}
    origins = {name: given_by.get(name, DEFAULT) for name, _ in settings.flat()}
    return Configuration(settings, origins, warnings, file)


def _environment_values(environment: Mapping[str, str], home: str) -> dict[str, SourceValue]:
    found: dict[str, SourceValue] = {}
    for variable, name in VARIABLES.items():
        text = environment.get(variable, "").strip()
        if text:
            value: object = text
            if name in _NUMBERS:
                if not (text.isascii() and text.isdigit() and len(text) < 30):
                    raise ConfigError(variable, "expected a whole number")
                value = int(text)
            elif name in _FLAGS:
                if text.lower() not in _WORDS:
                    raise ConfigError(variable, "expected true or false")
                value = _WORDS[text.lower()]
            elif name in PATHS:
                value = expand_home(checks.path(text, variable), home)
            found[name] = SourceValue(SCALAR_CHECKS[name](value, variable), variable, variable)
    return found


def _remote_values(environment: Mapping[str, str]) -> dict[str, SourceValue]:
    return {
        name: SourceValue(REMOTE_CHECKS[name](text, variable), variable, variable)
        for variable, name in REMOTE_VARIABLES.items()
        if (text := environment.get(variable, "").strip())
    }


def _flag_values(flags: Mapping[str, object]) -> dict[str, SourceValue]:
    found: dict[str, SourceValue] = {}
    for name, value in flags.items():
        option = _option_name(name)
        if name in SCALAR_CHECKS and value is not None:
            found[name] = SourceValue(SCALAR_CHECKS[name](value, option), option, option)
        elif name not in SCALAR_CHECKS and (name not in PROVIDER_CHECKS or name == "kind"):
            raise ConfigError(option, "there is no such setting")
    return found


def _add_provider_flags(
    providers: dict[str, dict[str, SourceValue]], chosen: SourceValue | None, flags: Mapping[str, object]
) -> None:
    """Flags such as ``--base-url`` are about the provider that is chosen."""
    for name, value in flags.items():
        if name in SCALAR_CHECKS or value is None:
            continue
        option = _option_name(name)
        if chosen is None:
            raise ConfigError(option, "is about a provider, and none is named")
        given = providers.setdefault(str(chosen.value), {})
        kind = cast("Kind", given["kind"].value if given else PROVIDERS[str(chosen.value)].kind)
        given.setdefault("kind", SourceValue(kind, DEFAULT, ""))
        refuse_foreign_setting(kind, name, option)
        given[name] = SourceValue(PROVIDER_CHECKS[name](value, option), option, option)


def _option_name(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _spelling_warnings(environment: Mapping[str, str]) -> list[str]:
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


def _settle_mode_in_ci(scalars: dict[str, SourceValue]) -> list[str]:
    given = scalars.get("mode")
    if given is None or given.value == "replay":
        return []
    if given.origin in (_option_name("mode"), f"{_PREFIX}MODE"):
        return [f"CI is set, and {given.origin} asks for the mode {given.value}; else it would be replay"]
    scalars["mode"] = SourceValue("replay", "CI", "CI")
    how = f"{_option_name('mode')} or {_PREFIX}MODE can say otherwise"
    return [f"CI is set, so the mode is replay and not {given.value}, as {given.origin} says; {how}"]
