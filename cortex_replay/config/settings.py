"""Everything that can be configured, as one frozen value; `docs/configuration.md` has the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar, get_args

from cortex_replay.config import checks
from cortex_replay.config.checks import Check
from cortex_replay.config.servers import server_of
from cortex_replay.errors import InvalidRequest
from cortex_replay.modes import AnyMode, Mode
from cortex_replay.validation import flag, keep, kind_of, texts

__all__ = [
    "BUILT_IN_KINDS",
    "CALLER_CHECKS",
    "PROVIDER_CHECKS",
    "SCALAR_CHECKS",
    "CallerSettings",
    "Grant",
    "Kind",
    "MaxTokensField",
    "Normaliser",
    "Price",
    "ProjectSays",
    "ProviderSettings",
    "Redaction",
    "SensitivityLevel",
    "Settings",
    "fields_of_kind",
    "pattern_names",
    "refuse_foreign_field",
    "refuse_unknown_provider",
]

_T = TypeVar("_T")

Kind = Literal["claude", "ollama", "openai-compat", "openai-responses", "gemini", "http", "scripted", "echo"]
SensitivityLevel = Literal["low", "medium", "high"]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]
Grant = Literal["llm_complete"]


class _KindFacts(NamedTuple):
    """What a kind of provider is without any configuration, and which settings it has."""

    base_url: str | None
    key_env: tuple[str, ...]
    settings: frozenset[str]


_WITH_KEY: Final = frozenset(["base_url", "key_env", "key_file"])
_OPENAI: Final = "https://api.openai.com/v1"
_OPENAI_KEYS: Final = ("CORTEX_OPENAI_API_KEY", "OPENAI_API_KEY")
_KINDS: Final[Mapping[Kind, _KindFacts]] = {
    "claude": _KindFacts(
        "https://api.anthropic.com",
        ("CORTEX_CLAUDE_API_KEY", "ANTHROPIC_API_KEY"),
        _WITH_KEY | {"allow_latest", "version", "betas"},
    ),
    "ollama": _KindFacts(
        "http://127.0.0.1:11434", (), frozenset(["base_url", "allow_remote", "allow_unpinned"])
    ),
    "openai-compat": _KindFacts(_OPENAI, _OPENAI_KEYS, _WITH_KEY | {"max_tokens_field"}),
    "openai-responses": _KindFacts(_OPENAI, _OPENAI_KEYS, _WITH_KEY),
    "gemini": _KindFacts(
        "https://generativelanguage.googleapis.com", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), _WITH_KEY
    ),
    "http": _KindFacts(None, (), _WITH_KEY),
    "scripted": _KindFacts(None, (), frozenset(["script"])),
    "echo": _KindFacts(None, (), frozenset()),
}
_EVERY_KIND: Final = frozenset(["kind", "models"])
"""The settings that every provider has."""
_CLAUDE_VERSION: Final = "2023-06-01"

BUILT_IN_KINDS: Final[Mapping[str, Kind]] = {
    "claude": "claude",
    "ollama": "ollama",
    "openai": "openai-compat",
    "gemini": "gemini",
    "scripted": "scripted",
    "echo": "echo",
}
"""The providers that are there without any configuration."""


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
}

CALLER_CHECKS: Final[Mapping[str, Check]] = {
    "token_env": checks.variables,
    "token_file": checks.optional(checks.path),
    "grants": checks.choices_of(get_args(Grant)),
    "max_calls": checks.optional(checks.whole_from(0)),
    "max_tokens": checks.optional(checks.whole_from(0)),
}

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
}
"""The settings that also the environment and flags may give."""


def fields_of_kind(kind: Kind) -> list[str]:
    """The settings that a provider of this kind has, in the order of the document."""
    return [name for name in PROVIDER_CHECKS if name in _EVERY_KIND | _KINDS[kind].settings]


def refuse_foreign_field(kind: Kind, setting: str, where: str) -> None:
    """Refuse a setting that says nothing about a provider of this kind.

    Raises:
        InvalidRequest: It is for other kinds.
    """
    if setting not in fields_of_kind(kind):
        kinds = ", ".join(other for other, facts in _KINDS.items() if setting in facts.settings)
        raise InvalidRequest(where, f"is for providers of the kind {kinds}; this one is {kind}")


def pattern_names(value: object, patterns: Collection[str], where: str) -> tuple[str, ...]:
    """Names of patterns, each of which is there.

    Raises:
        InvalidRequest: One is not.
    """
    given = texts(value, where)
    for i, name in enumerate(given):
        if name not in patterns:
            hint = checks.did_you_mean(name, patterns)
            raise InvalidRequest(f"{where}[{i}]", f"names no pattern of redaction.extra_patterns{hint}")
    return tuple(dict.fromkeys(given))


def refuse_unknown_provider(name: str, known: Collection[str], where: str) -> None:
    """Refuse the name of a provider that is not there.

    Raises:
        InvalidRequest: It is not among ``known``.
    """
    if name not in known:
        hint = checks.did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise InvalidRequest(where, f"there is no such provider{hint}")


@dataclass(frozen=True, slots=True)
class ProjectSays:
    """Which settings of a provider or a caller come from a project's file, which may be a stranger's."""

    root: Path
    """The folder of the file. Paths that it names are followed only below."""
    names: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
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
    project: ProjectSays | None = field(default=None, compare=False, repr=False)
    """What a project's file said of all this; the rest the user did (:mod:`cortex_replay.config.trust`)."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            *,
            kind: Kind,
            base_url: str | None = None,
            key_env: str | Sequence[str] = (),
            key_file: Path | str | None = None,
            allow_remote: bool = False,
            allow_unpinned: bool = False,
            allow_latest: bool = False,
            version: str | None = None,
            betas: Sequence[str] = (),
            max_tokens_field: MaxTokensField | None = None,
            script: Path | str | None = None,
            models: Sequence[str] | None = None,
            project: ProjectSays | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, check in PROVIDER_CHECKS.items():
            keep(self, name, check(getattr(self, name), name))
        own = _KINDS[self.kind]
        if self.base_url is None:
            keep(self, "base_url", own.base_url)
        if self.kind == "http" and self.base_url is None:
            raise InvalidRequest("base_url", "a provider of the kind http has none of its own")
        if self.kind == "claude" and self.version is None:
            keep(self, "version", _CLAUDE_VERSION)
        for setting in fields(self):
            is_given = getattr(self, setting.name) not in (setting.default, None)
            if is_given and setting.name in PROVIDER_CHECKS:
                refuse_foreign_field(self.kind, setting.name, setting.name)

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The environment variables that may hold the key; the first that is set does.

        Those of the kind are for its own service alone. With another ``base_url`` there are none but
        ``key_env``, since a key must not reach a server that it was not made for.
        """
        return self.key_env or (self.own_key_variables if self.is_own_service else ())

    @property
    def own_key_variables(self) -> tuple[str, ...]:
        """The variables that hold the key of the kind's own service, wherever this provider is."""
        return _KINDS[self.kind].key_env

    @property
    def is_own_service(self) -> bool:
        """Whether the server is that of the kind's own service, over TLS."""
        own = _KINDS[self.kind].base_url
        server = server_of(self.base_url or "")
        return own is not None and server is not None and server == server_of(own)

    def at(self, base_url: str) -> ProviderSettings:
        """The provider at a server that the user chose."""
        said = self.project and ProjectSays(self.project.root, self.project.names - {"base_url"})
        return replace(self, base_url=base_url, project=said)

    def root_of(self, setting: str) -> Path | None:
        """The folder that a path must be below because a project's file names it; ``None`` for any."""
        return _root_of(self.project, setting)


def _root_of(said: ProjectSays | None, setting: str) -> Path | None:
    return said.root if said is not None and setting in said.names else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerSettings:
    """Somebody who may use the admin RPC, and how far; `docs/admin.md` is the guide."""

    token_env: tuple[str, ...] = ()
    """The environment variables that may hold the token; the first that is set does."""
    token_file: Path | None = None
    """A file with the token, for when no variable is set."""
    grants: tuple[Grant, ...] = ()
    """What the caller may do: nothing, unless it is named here."""
    max_calls: int | None = None
    """The most calls while the server runs; ``None`` for no limit."""
    max_tokens: int | None = None
    """The most tokens while the server runs; ``None`` for no limit."""
    project: ProjectSays | None = field(default=None, compare=False, repr=False)
    """What a project's file said of all this."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            *,
            token_env: str | Sequence[str] = (),
            token_file: Path | str | None = None,
            grants: Sequence[Grant] = (),
            max_calls: int | None = None,
            max_tokens: int | None = None,
            project: ProjectSays | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, check in CALLER_CHECKS.items():
            keep(self, name, check(getattr(self, name), name))

    def root_of(self, setting: str) -> Path | None:
        """See :meth:`ProviderSettings.root_of`."""
        return _root_of(self.project, setting)


@dataclass(frozen=True, slots=True)
class Normaliser:
    """A text that changes from run to run, and what stands for it in the key."""

    pattern: str
    """A regular expression, or the name of one that comes with the program: ``builtin:uuid``."""
    placeholder: str
    """Taken as it is: there are no references to groups."""

    def __post_init__(self) -> None:
        checks.normaliser(self.pattern, "pattern")
        checks.placeholder(self.placeholder, "placeholder")


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs per million tokens, in whatever currency."""

    input: float
    output: float

    def __post_init__(self) -> None:
        keep(self, "input", checks.price(self.input, "input"))
        keep(self, "output", checks.price(self.output, "output"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What counts as a secret beyond what always does."""

    extra_patterns: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions of further secrets, by name."""
    redact_key: tuple[str, ...] = ()
    """Which of them apply to the key as well. Those that come with the program cannot: they get better
    with its versions, and keys must not change with them."""
    known_env: tuple[str, ...] = ()
    """Further environment variables whose values are secrets."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            *,
            extra_patterns: Mapping[str, str] | None = None,
            redact_key: Sequence[str] = (),
            known_env: str | Sequence[str] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        checks.at_most(self.extra_patterns or {}, checks.MAX_ENTRIES, "extra_patterns")
        patterns = {
            checks.name(name, "extra_patterns"): checks.pattern(pattern, f"extra_patterns.{name}")
            for name, pattern in (self.extra_patterns or {}).items()
        }
        keep(self, "extra_patterns", patterns)
        keep(self, "redact_key", pattern_names(self.redact_key, patterns, "redact_key"))
        keep(self, "known_env", checks.variables(self.known_env, "known_env"))


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
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    """By name. Those that need no configuration are always there."""
    redaction: Redaction = field(default_factory=Redaction)
    normalisers: Mapping[str, Normaliser] = field(default_factory=dict)
    """By name, in the order in which they apply."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By model. Without one, no report speaks of money."""
    callers: Mapping[str, CallerSettings] = field(default_factory=dict)
    """By name: who may use the admin RPC. Without one, nobody may."""

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
            providers: Mapping[str, ProviderSettings] | None = None,
            redaction: Redaction = ...,
            normalisers: Mapping[str, Normaliser] | None = None,
            prices: Mapping[str, Price] | None = None,
            callers: Mapping[str, CallerSettings] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, check in SCALAR_CHECKS.items():
            keep(self, name, check(getattr(self, name), name))
        built_in = {name: ProviderSettings(kind=kind) for name, kind in BUILT_IN_KINDS.items()}
        keep(self, "providers", built_in | _named(self.providers, ProviderSettings, "providers"))
        keep(self, "normalisers", _named(self.normalisers, Normaliser, "normalisers"))
        keep(self, "prices", dict(self.prices or {}))
        keep(self, "callers", _named(self.callers, CallerSettings, "callers"))
        if self.provider is not None:
            refuse_unknown_provider(self.provider, self.providers, "provider")

    def provider_named(self, name: str | None = None) -> ProviderSettings:
        """One of the providers; without a name, the one that ``provider`` names.

        Raises:
            InvalidRequest: There is none of that name, or none is named at all.
        """
        name = self.provider if name is None else name
        if name is None:
            raise InvalidRequest("provider", f"none is named; there are {', '.join(self.providers)}")
        refuse_unknown_provider(name, self.providers, "provider")
        return self.providers[name]

    def flat(self) -> Iterator[tuple[str, object]]:
        """Every setting by its dotted name, as ``cortex-replay config`` lists them."""
        for name in SCALAR_CHECKS:
            yield name, getattr(self, name)
        for name, provider in self.providers.items():
            for setting in fields_of_kind(provider.kind):
                value = provider.key_variables if setting == "key_env" else getattr(provider, setting)
                yield f"providers.{name}.{setting}", value
        for name, pattern in self.redaction.extra_patterns.items():
            yield f"redaction.extra_patterns.{name}", pattern
        yield "redaction.redact_key", self.redaction.redact_key
        yield "redaction.known_env", self.redaction.known_env
        for name, normaliser in self.normalisers.items():
            yield f"normalisers.{name}", normaliser
        for name, price in self.prices.items():
            yield f"prices.{name}", price
        for name, caller in self.callers.items():
            for setting in CALLER_CHECKS:
                yield f"callers.{name}.{setting}", getattr(caller, setting)


def _named(value: Mapping[str, _T] | None, kind: type[_T], where: str) -> dict[str, _T]:
    """A copy, since a frozen value must not change when the caller's mapping does."""
    checks.at_most(value or {}, checks.MAX_ENTRIES, where)
    for name, item in (value or {}).items():
        checks.name(name, where)
        if not isinstance(item, kind):
            raise InvalidRequest(f"{where}.{name}", f"expected a {kind.__name__}, not {kind_of(item)}")
    return dict(value or {})
