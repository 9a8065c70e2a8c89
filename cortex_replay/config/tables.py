"""Normalisers, prices and redaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from decimal import Decimal
from typing import TYPE_CHECKING

from cortex_replay.config import checks
from cortex_replay.errors import InvalidRequest
from cortex_replay.validation import keep, texts

__all__ = ["Normaliser", "Price", "Redaction"]

_Number = int | float | Decimal | None


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
    """What a model costs per million tokens."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    """Of what the provider had cached; as ``input`` where it is not given, and so are the next two."""
    cache_write_5m: Decimal | None = None
    """Of what the provider has put into its cache for five minutes, or for a time that it does not tell."""
    cache_write_1h: Decimal | None = None
    """Of what the provider has put into its cache for an hour."""

    if TYPE_CHECKING:  # what may be passed is wider than what is kept

        def __init__(
            self,
            input: _Number,  # noqa: A002 - as it is called in a file
            output: _Number,
            cached: _Number = None,
            cache_write_5m: _Number = None,
            cache_write_1h: _Number = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None or one.default is MISSING:
                keep(self, one.name, checks.price(value, one.name))


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

    def __post_init__(self) -> None:
        checks.refuse_more(self.extra_patterns or {}, checks.MAX_ENTRIES, "extra_patterns")
        patterns = {
            checks.name(name, "extra_patterns"): checks.pattern(pattern, f"extra_patterns.{name}")
            for name, pattern in (self.extra_patterns or {}).items()
        }
        keep(self, "extra_patterns", patterns)
        redact_key = texts(self.redact_key, "redact_key")
        for i, name in enumerate(redact_key):
            if name not in patterns:
                hint = checks.did_you_mean(name, patterns)
                reason = f"names no pattern of redaction.extra_patterns{hint}"
                raise InvalidRequest(f"redact_key[{i}]", reason)
        keep(self, "redact_key", tuple(dict.fromkeys(redact_key)))
        keep(self, "known_env", checks.variables(self.known_env, "known_env"))
