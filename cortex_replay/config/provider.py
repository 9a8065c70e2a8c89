"""The settings of one provider."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final, Literal, get_args

from cortex_replay.config import checks
from cortex_replay.config.checks import Check
from cortex_replay.config.origin import WithOrigin
from cortex_replay.config.servers import server_of
from cortex_replay.errors import InvalidRequest
from cortex_replay.providers import ANTHROPIC_VERSION, KINDS, PROVIDERS, Kind, Provider
from cortex_replay.validation import flag, keep

__all__ = [
    "PROVIDER_CHECKS",
    "MaxTokensField",
    "ProviderSettings",
    "kind_settings",
    "refuse_foreign_setting",
    "refuse_unknown_provider",
]

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]

_EVERY_KIND: Final = frozenset(["kind", "models"])
"""The settings that every provider has."""

PROVIDER_CHECKS: Final[Mapping[str, Check]] = {
    "kind": checks.choice_of(get_args(Kind)),
    "base_url": checks.optional(checks.server),
    "key_env": checks.variables,
    "key_file": checks.optional(checks.path),
    "allow_remote": flag,
    "allow_unpinned": flag,
    "allow_latest": flag,
    "version": checks.optional(checks.word),
    "betas": checks.words,
    "max_tokens_field": checks.optional(checks.choice_of(get_args(MaxTokensField))),
    "script": checks.optional(checks.path),
    "models": checks.optional(checks.some_words),
    "requests_per_minute": checks.optional(checks.whole_from(1, 100_000)),
}


def kind_settings(kind: Kind) -> list[str]:
    """The settings that a provider of this kind has, in the order of the document."""
    return [name for name in PROVIDER_CHECKS if name in _EVERY_KIND | KINDS[kind].settings]


def refuse_foreign_setting(kind: Kind, setting: str, where: str) -> None:
    """Refuse a setting that says nothing about a provider of this kind.

    Raises:
        InvalidRequest: It is for other kinds.
    """
    if setting not in kind_settings(kind):
        kinds = ", ".join(other for other, row in KINDS.items() if setting in row.settings)
        raise InvalidRequest(where, f"is for providers of the kind {kinds}; this one is {kind}")


def refuse_unknown_provider(name: str, known: Collection[str], where: str) -> None:
    """Refuse the name of a provider that is not there.

    Raises:
        InvalidRequest: It is not among ``known``.
    """
    if name not in known:
        hint = checks.did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise InvalidRequest(where, f"there is no such provider{hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings(WithOrigin):
    """One place that answers requests.

    What is not given is what the kind's own service needs.
    """

    kind: Kind
    base_url: str | None = None
    """The server; ``None`` where there is none."""
    key_env: tuple[str, ...] = ()
    """The environment variables that may hold the key; see :attr:`key_variables`."""
    key_file: Path | None = None
    """A file with the key, for when no variable is set."""
    allow_remote: bool = False
    """Ollama: take a server on another machine."""
    allow_unpinned: bool = False
    """Ollama: take a model without a digest."""
    allow_latest: bool = False
    """Claude: take a model with ``latest`` in its name."""
    version: str | None = None
    """Claude: the ``anthropic-version`` header."""
    betas: tuple[str, ...] = ()
    """Claude: what goes into ``anthropic-beta``."""
    max_tokens_field: MaxTokensField | None = None
    """Chat completions: the name of the limit on the wire; ``None`` for what fits the server."""
    script: Path | None = None
    """Scripted: the file of rules."""
    models: tuple[str, ...] | None = None
    """The models that callers of the admin RPC may name; ``None`` for any."""
    requests_per_minute: int | None = None
    """How many requests may go out in a minute; ``None`` for any number."""

    def __post_init__(self) -> None:
        for name, check in PROVIDER_CHECKS.items():
            keep(self, name, check(getattr(self, name), name))
        kind = KINDS[self.kind]
        if self.base_url is None and kind.service is not None:
            keep(self, "base_url", PROVIDERS[kind.service].base_url)
        if self.base_url is None and "base_url" in kind.settings:
            raise InvalidRequest("base_url", f"a provider of the kind {self.kind} has none of its own")
        if self.kind == "claude" and self.version is None:
            keep(self, "version", ANTHROPIC_VERSION)
        for setting in fields(self):
            is_given = getattr(self, setting.name) not in (setting.default, None)
            if is_given and setting.name in PROVIDER_CHECKS:
                refuse_foreign_setting(self.kind, setting.name, setting.name)

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The environment variables that may hold the key; the first that is set does.

        Those of a service are for its own server alone. With another ``base_url`` there are none but
        ``key_env``, since a key must not reach a server that it was not made for.
        """
        return self.key_env or self.own_key_variables

    @property
    def own_key_variables(self) -> tuple[str, ...]:
        """The variables that hold the key of the service that this provider is."""
        return () if self.service is None else self.service.key_variables

    @property
    def service(self) -> Provider | None:
        """The service of this kind that is at the provider's server; ``None`` at any other."""
        server, own = server_of(self.base_url or ""), KINDS[self.kind].service
        rows = (row for name, row in PROVIDERS.items() if row.kind == self.kind or name == own)
        return next((row for row in rows if server is not None and server == server_of(row.base_url)), None)

    def at(self, base_url: str) -> ProviderSettings:
        """The provider at a server that the user chose."""
        origin = self.project and replace(self.project, names=self.project.names - {"base_url"})
        return replace(self, base_url=base_url, project=origin)
