"""What happens to a request before it is hashed: texts that change from run to run, or must not be
stored, give way to a placeholder.

Only the key and the stored request are made from what comes out; the model is sent the request as it
was. The rules of a store are those of the nearest configuration above *its* root, wherever a program
runs, so that what was recorded in one place is found from another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from cortex_replay.bindings import BindingRules
from cortex_replay.bindings.placeholders import OPEN
from cortex_replay.bindings.requests import rewrite_texts
from cortex_replay.bindings.stored import PLACEHOLDER
from cortex_replay.config import checks
from cortex_replay.config.built_in import PREFIX, expression
from cortex_replay.config.files import find_config
from cortex_replay.config.load import load_from
from cortex_replay.config.settings import Settings
from cortex_replay.config.tables import Normaliser
from cortex_replay.errors import InvalidRequest
from cortex_replay.expressions import Expression
from cortex_replay.types import LlmRequest
from cortex_replay.validation import keep

__all__ = ["Further", "KeyRules", "key_rules", "key_rules_for"]


class _Rule(NamedTuple):
    name: str
    pattern: re.Pattern[str] | Expression
    instead: str
    replacement: Callable[[Any], str]

    @classmethod
    def of(cls, name: str, table: str, pattern: str, instead: str) -> Self:
        """A rule of a table in a configuration.

        Raises:
            InvalidRequest: Its pattern is not sound.
        """
        compiled: re.Pattern[str] | Expression
        if pattern.startswith(PREFIX):
            compiled = re.compile(expression(pattern))  # ours: the time it takes grows with the text alone
        else:
            compiled = Expression(checks.pattern(pattern, f"{table}.{name}"), f"{table}.{name}")
        # A function, since a text would be searched for references to groups.
        return cls(name, compiled, instead, partial(_put, instead))


def _put(instead: str, match: Any) -> str:
    return instead if match[0] else ""  # nothing was found where nothing matched


@dataclass(frozen=True, slots=True)
class KeyRules:
    """Normalisers, and patterns of secrets, that apply to a request before it is hashed.

    Secrets go first, so that no normaliser can change one until its pattern no longer knows it. Then
    each rule applies to what the one before it left, in the order of the configuration.

    Raises:
        InvalidRequest: A rule would change what a rule has put in place: then the key of a stored
            request would be another one than the key it was stored under.
    """

    normalisers: Mapping[str, Normaliser] = field(default_factory=dict)
    redact_key: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions by name."""
    bindings: BindingRules = field(default_factory=BindingRules)
    """Which values of the surroundings are bound; that is done by whoever knows the surroundings."""
    _rules: tuple[_Rule, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        keep(self, "normalisers", dict(self.normalisers))
        keep(self, "redact_key", dict(self.redact_key))
        secrets = [
            _Rule.of(name, "redaction.extra_patterns", one, f"[REDACTED:{name}]")
            for name, one in self.redact_key.items()
        ]
        changing = [
            _Rule.of(name, "normalisers", one.pattern, one.placeholder)
            for name, one in self.normalisers.items()
        ]
        keep(self, "_rules", (*secrets, *changing))
        for name in self.normalisers:
            if name in self.redact_key:
                raise InvalidRequest(f"normalisers.{name}", "a pattern of redact_key has the same name")
        for rule in self._rules:
            self._refuse_changes_of(rule)

    def with_normalisers(self, further: Further) -> Self:
        """These rules and further ones behind them, as for one test.

        Args:
            further: Names of built-in normalisers such as ``builtin:uuid``, or patterns by name.

        Raises:
            InvalidRequest: One is not sound, or does not agree with another.
        """
        added = dict(_normalisers_in(further))
        for name, one in added.items():
            if self.normalisers.get(name, one) != one:
                raise InvalidRequest(f"normalisers.{name}", "another normaliser has the same name")
        return replace(self, normalisers={**self.normalisers, **added})

    def __bool__(self) -> bool:
        return bool(self._rules)

    def apply(self, request: LlmRequest) -> tuple[LlmRequest, list[str]]:
        """The request that is hashed and stored, and the names of the rules that changed something.

        It is the very same request when none did.
        """
        if not self._rules:
            return request, []
        changed: set[str] = set()
        made = rewrite_texts(request, lambda text: self._replace(text, changed))
        if not changed:
            return request, []
        return made, [rule.name for rule in self._rules if rule.name in changed]

    def _refuse_changes_of(self, rule: _Rule) -> None:
        changed: set[str] = set()
        self._replace(rule.instead, changed)
        for other in self._rules:
            if other.name in changed:
                table = "normalisers" if other.name in self.normalisers else "redaction.extra_patterns"
                reason = f"would change {rule.instead}, which stands for what {rule.name} has found"
                raise InvalidRequest(f"{table}.{other.name}", reason)

    def _replace(self, text: str, changed: set[str]) -> str:
        if OPEN not in text:
            return self._replace_between(text, changed)
        # What stands for a bound value stays, so that a stored request keeps its key.
        pieces = PLACEHOLDER.split(text)
        pieces[::2] = [self._replace_between(piece, changed) for piece in pieces[::2]]
        return "".join(pieces)

    def _replace_between(self, text: str, changed: set[str]) -> str:
        for rule in self._rules:
            after = rule.pattern.sub(rule.replacement, text)
            if after != text:
                changed.add(rule.name)
                text = after
        return text


Further = Iterable[str] | Mapping[str, str | Normaliser]
"""Normalisers as a caller may give them."""


def _normalisers_in(given: Further) -> Iterator[tuple[str, Normaliser]]:
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping):
        for name, one in given.items():
            where = f"normalisers.{checks.name(name, 'normalisers')}"
            if isinstance(one, Normaliser):
                yield name, one
            else:
                yield name, Normaliser(checks.normaliser(one, where), f"<{name}>")
        return
    for i, pattern in enumerate(given):
        where = f"normalisers[{i}]"
        if not checks.normaliser(pattern, where).startswith(PREFIX):
            raise InvalidRequest(where, "is a pattern without a name; give a mapping of names and patterns")
        name = pattern.removeprefix(PREFIX)
        yield name, Normaliser(pattern, f"<{name}>")


def key_rules(settings: Settings) -> KeyRules:
    """The rules that settings ask for.

    Raises:
        InvalidRequest: Two of them do not agree.
    """
    patterns = settings.redaction.extra_patterns
    secrets = {name: patterns[name] for name in settings.redaction.redact_key}
    return KeyRules(settings.normalisers, secrets, settings.bindings)


def key_rules_for(store_root: Path) -> KeyRules:
    """The rules of the store at ``store_root``.

    Environment and flags have no say: two people who replay one store must get the same keys.

    Raises:
        ConfigError: The configuration is not sound; ``field`` says where.
    """
    file = find_config(store_root)
    if file is None:
        return KeyRules()  # as for most stores, and at no cost
    settings = load_from(file, {}, {}).settings
    with checks.config_errors(file.where("")):
        return key_rules(settings)
