"""Everything that can be configured, as one frozen value; `docs/configuration.md` has the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar, get_args

from cortex_replay.bindings import BindingRules
from cortex_replay.config import checks
from cortex_replay.config.caller import CALLER_CHECKS, CallerSettings
from cortex_replay.config.checks import Check
from cortex_replay.config.mcp import MCP_CHECKS, McpSettings, server_key
from cortex_replay.config.provider import ProviderSettings, kind_settings, refuse_unknown_provider
from cortex_replay.config.remote import REMOTE_CHECKS, RemoteSettings
from cortex_replay.config.tables import Normaliser, Price, Redaction
from cortex_replay.errors import ConfigError, InvalidRequest
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.providers import KINDS, PROVIDERS
from cortex_replay.validation import flag, keep, kind_of

__all__ = ["SCALAR_CHECKS", "SensitivityLevel", "Settings"]

_T = TypeVar("_T")

SensitivityLevel = Literal["low", "medium", "high"]

SCALAR_CHECKS: Final[Mapping[str, Check]] = {
    "store": checks.path,
    "mode": checks.choice_of(tuple(Mode)),
    "provider": checks.optional(checks.name),
    "model": checks.optional(checks.word),
    "timeout_ms": checks.whole_from(1),
    "max_retries": checks.whole_from(0, 100),
    "max_sensitivity": checks.choice_of(get_args(SensitivityLevel)),
    "jobs": checks.whole_from(1, 1000),
    "budget_calls": checks.optional(checks.whole_from(0)),
    "budget_tokens": checks.optional(checks.whole_from(0)),
    "every_answer": flag,
    "currency": checks.optional(checks.currency),
    "max_age": checks.optional(checks.age),
}
"""The settings that also the environment and flags may give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be configured. ``Settings()`` is what holds without any configuration."""

    store: Path = Path()
    """Root of the store, where ``INDEX.toml`` stands."""
    mode: Mode = Mode.REPLAY
    """What to do with a call: answer from the store, record, record what is missing, or pass through."""
    provider: str | None = None
    """Who is asked: one of ``providers``."""
    model: str | None = None
    """The model that is asked where nothing else names one."""
    timeout_ms: int = 30_000
    """How long a call may take in all."""
    max_retries: int = 2
    """How often to try again after 429, 5xx and broken connections."""
    max_sensitivity: SensitivityLevel = "medium"
    """The highest label that may be sent."""
    jobs: int = 4
    """How many calls to make at once."""
    budget_calls: int | None = None
    """The most calls of one run; ``None`` for no limit."""
    budget_tokens: int | None = None
    """The most tokens of one run; ``None`` for no limit."""
    every_answer: bool = False
    """Whether the gateway records each answer to a question whose calls name no scope; else the first."""
    currency: str | None = None
    """What the prices are in."""
    max_age: timedelta | None = None
    """From when on `verify` calls a recording old; ``None``: never. Nothing is ever asked because of it."""
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    """By name. Those that need no configuration are always there."""
    redaction: Redaction = field(default_factory=Redaction)
    normalisers: Mapping[str, Normaliser] = field(default_factory=dict)
    """By name, in the order in which they apply."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By model. Without one, no report speaks of money."""
    callers: Mapping[str, CallerSettings] = field(default_factory=dict)
    """By name: who may use the admin RPC. Without one, nobody may."""
    bindings: BindingRules = field(default_factory=BindingRules)
    """Which values of a run's surroundings are bound."""
    mcp: Mapping[str, McpSettings] = field(default_factory=dict)
    """By the name of an MCP server: what becomes of calls to it."""
    remote: RemoteSettings = field(default_factory=RemoteSettings)
    """Where files are besides the work tree."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            *,
            store: Path | str = Path(),
            mode: AnyMode = Mode.REPLAY,
            provider: str | None = None,
            model: str | None = None,
            timeout_ms: int = 30_000,
            max_retries: int = 2,
            max_sensitivity: SensitivityLevel = "medium",
            jobs: int = 4,
            budget_calls: int | None = None,
            budget_tokens: int | None = None,
            every_answer: bool = False,
            currency: str | None = None,
            max_age: timedelta | str | None = None,
            providers: Mapping[str, ProviderSettings] | None = None,
            redaction: Redaction = ...,
            normalisers: Mapping[str, Normaliser] | None = None,
            prices: Mapping[str, Price] | None = None,
            callers: Mapping[str, CallerSettings] | None = None,
            bindings: BindingRules = ...,
            mcp: Mapping[str, McpSettings] | None = None,
            remote: RemoteSettings = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, check in SCALAR_CHECKS.items():
            keep(self, name, check(getattr(self, name), name))
        built_in = {
            name: ProviderSettings(kind=row.kind, base_url=row.base_url or None)
            for name, row in PROVIDERS.items()
            if row.base_url or "base_url" not in KINDS[row.kind].settings
        }
        keep(self, "providers", built_in | _copy_of(self.providers, ProviderSettings, "providers"))
        keep(self, "normalisers", _copy_of(self.normalisers, Normaliser, "normalisers"))
        keep(self, "prices", dict(self.prices or {}))
        keep(self, "callers", _copy_of(self.callers, CallerSettings, "callers"))
        keep(self, "mcp", _copy_of(self.mcp, McpSettings, "mcp", server_key))
        if self.provider is not None:
            refuse_unknown_provider(self.provider, self.providers, "provider")

    def provider_named(self, name: str | None = None) -> ProviderSettings:
        """One of the providers; without a name, the one that ``provider`` names.

        Raises:
            InvalidRequest: There is none of that name.
            ConfigError: None is named at all.
        """
        name = self.provider if name is None else name
        if name is None:
            raise ConfigError("provider", f"none is named; there are {', '.join(self.providers)}")
        refuse_unknown_provider(name, self.providers, "provider")
        return self.providers[name]

    def flat(self) -> Iterator[tuple[str, object]]:
        """Every setting by its dotted name, as ``cortex-replay config`` lists them."""
        for name in SCALAR_CHECKS:
            yield name, getattr(self, name)
        for name, provider in self.providers.items():
            for setting in kind_settings(provider.kind):
                value = provider.key_variables if setting == "key_env" else getattr(provider, setting)
                yield f"providers.{name}.{setting}", value
        for name, pattern in self.redaction.extra_patterns.items():
            yield f"redaction.extra_patterns.{name}", pattern
        yield "redaction.redact_key", self.redaction.redact_key
        yield "redaction.known_env", self.redaction.known_env
        for name, normaliser in self.normalisers.items():
            yield f"normalisers.{name}", normaliser
        yield "bindings.off", self.bindings.off
        yield "bindings.shapes", self.bindings.shapes
        for name, value in self.bindings.values.items():
            yield f"bindings.values.{name}", value
        yield "bindings.rules", self.bindings.rules
        for name, price in self.prices.items():
            yield f"prices.{name}", price
        yield from _rows("callers", self.callers, CALLER_CHECKS)
        yield from _rows("mcp", self.mcp, MCP_CHECKS)
        for name in REMOTE_CHECKS:
            yield f"remote.{name}", getattr(self.remote, name)


def _rows(table: str, entries: Mapping[str, object], settings: Iterable[str]) -> Iterator[tuple[str, object]]:
    for name, entry in entries.items():
        for setting in settings:
            yield f"{table}.{name}.{setting}", getattr(entry, setting)


def _copy_of(
    value: Mapping[str, _T] | None, kind: type[_T], where: str, check: Check = checks.name
) -> dict[str, _T]:
    """A copy, since a frozen value must not change when the caller's mapping does."""
    checks.refuse_more(value or {}, checks.MAX_ENTRIES, where)
    for name, item in (value or {}).items():
        check(name, where)
        if not isinstance(item, kind):
            raise InvalidRequest(f"{where}.{name}", f"expected a {kind.__name__}, not {kind_of(item)}")
    return dict(value or {})
