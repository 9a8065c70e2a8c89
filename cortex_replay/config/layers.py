"""What each source says about settings, and how one goes over another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast, get_args

from cortex_replay.bindings import BindingRules
from cortex_replay.config.caller import CallerSettings
from cortex_replay.config.mcp import McpSettings
from cortex_replay.config.origin import ProjectOrigin
from cortex_replay.config.provider import ProviderSettings
from cortex_replay.config.settings import SensitivityLevel
from cortex_replay.config.tables import Normaliser, Price, Redaction
from cortex_replay.providers import PROVIDERS, Kind

__all__ = ["DEFAULT", "Layer", "SourceValue", "provider_settings"]

DEFAULT: Final = "default"
"""The origin of what no source says."""

_LONGEST_STEM: Final = 36
_CEILINGS: Final[Mapping[str, Callable[[Any], int]]] = {
    "budget_calls": int,
    "budget_tokens": int,
    "max_sensitivity": get_args(SensitivityLevel).index,
}
"""What a user sets as a limit for every project: a project can lower it, and not lift it."""


class SourceValue(NamedTuple):
    """A setting as one source gives it, checked."""

    value: object
    origin: str
    where: str
    root: Path | None = None
    """The folder of the project's file that gives it; ``None`` if the user does."""


@dataclass(slots=True)
class Layer:
    """What one file says, or several together."""

    scalars: dict[str, SourceValue] = field(default_factory=dict)
    providers: dict[str, dict[str, SourceValue]] = field(default_factory=dict)
    redaction: Redaction = field(default_factory=Redaction)
    normalisers: dict[str, Normaliser] = field(default_factory=dict)
    prices: dict[str, Price] = field(default_factory=dict)
    callers: dict[str, CallerSettings] = field(default_factory=dict)
    bindings: BindingRules = field(default_factory=BindingRules)
    mcp: dict[str, McpSettings] = field(default_factory=dict)
    remote: dict[str, SourceValue] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    """Of every table but ``providers`` and ``remote``."""
    warnings: list[str] = field(default_factory=list)
    """What the user should be told of a file."""

    @property
    def kinds(self) -> dict[str, Kind]:
        return {name: cast("Kind", given["kind"].value) for name, given in self.providers.items()}

    def over(self, weaker: Layer) -> Layer:
        """Both, where this one wins."""
        providers = {**weaker.providers, **self.providers}
        for name in weaker.providers.keys() & self.providers.keys():
            given = self.providers[name]
            if given["kind"].value == weaker.kinds[name]:  # else it is another provider altogether
                providers[name] = weaker.providers[name] | given
                providers[name] |= _lower(weaker.providers[name], given, "requests_per_minute", int)
        own, further = weaker.redaction.extra_patterns, self.redaction.extra_patterns
        names = _free_names(own, further)
        table = "redaction.extra_patterns"
        renamed = {f"{table}.{names[name]}": weaker.origins[f"{table}.{name}"] for name in own}
        redaction = Redaction(
            extra_patterns={**{names[name]: pattern for name, pattern in own.items()}, **further},
            redact_key=self.redaction.redact_key,
            known_env=(*weaker.redaction.known_env, *self.redaction.known_env),
        )
        scalars = weaker.scalars | self.scalars
        for name, rank in _CEILINGS.items():
            scalars |= _lower(weaker.scalars, self.scalars, name, rank)
        return Layer(
            scalars,
            providers,
            redaction,
            self.normalisers,
            weaker.prices | self.prices,
            weaker.callers | self.callers,
            self.bindings,
            weaker.mcp
            | {name: one.over(weaker.mcp.get(name, McpSettings())) for name, one in self.mcp.items()},
            weaker.remote | self.remote,
            weaker.origins | renamed | self.origins,
            [*weaker.warnings, *self.warnings],
        )


def _lower(
    own: Mapping[str, SourceValue],
    of_project: Mapping[str, SourceValue],
    name: str,
    rank: Callable[[Any], int],
) -> dict[str, SourceValue]:
    """The user's own limit, where a project would lift it."""
    if name in own and name in of_project and rank(own[name].value) < rank(of_project[name].value):
        return {name: own[name]}
    return {}


def _free_names(own: Mapping[str, str], of_project: Mapping[str, str]) -> dict[str, str]:
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


def provider_settings(name: str, given: Mapping[str, SourceValue]) -> ProviderSettings:
    """A provider as the layers describe it; what they leave out, its row of the table says."""
    values = {setting: one.value for setting, one in given.items()}
    row = PROVIDERS.get(name)
    if row is not None and row.base_url and row.kind == values["kind"]:
        values.setdefault("base_url", row.base_url)
    roots = {setting: one.root for setting, one in given.items() if one.root is not None}
    origin = ProjectOrigin(next(iter(roots.values())), frozenset(roots)) if roots else None
    return ProviderSettings(**cast("dict[str, Any]", values), project=origin)
