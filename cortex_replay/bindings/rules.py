"""What a configuration says of bindings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["BindingRules", "PlaceRule", "ValueRule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRule:
    """A value that changes from run to run at one place of a text, as ``learn`` finds it."""

    bind: str
    """A shape, or the name of a known value."""
    before: str = ""
    """The text right before it, on the same line."""
    after: str = ""
    """The text right behind it."""
    learned: str = ""
    """Where it was learned, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRule:
    """A value that a configuration names."""

    env: str | None = None
    """The variable that holds it."""
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingRules:
    """Which values are bound."""

    off: tuple[str, ...] = ()
    """Known values and shapes that are not to be bound."""
    shapes: tuple[str, ...] = ("uuid", "ulid", "time", "epoch")
    """The shapes that are bound wherever they stand."""
    values: Mapping[str, ValueRule] = field(default_factory=dict)
    rules: tuple[PlaceRule, ...] = ()
