"""Binding the values of a request, and finding them again in its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cortex_replay.bindings.finder import Finder
from cortex_replay.bindings.numbering import Numbering
from cortex_replay.bindings.placeholders import (
    ESCAPE,
    OPEN,
    Filling,
    escape_literals,
    has_literal,
    name_of,
    placeholder,
)
from cortex_replay.bindings.requests import Change, rewrite_request, rewrite_value
from cortex_replay.bindings.rules import BindingRules
from cortex_replay.bindings.surroundings import Surroundings
from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmRequest

__all__ = ["Binder", "Binding", "Bound"]

_T = TypeVar("_T")


class Binding:
    """What is bound in one conversation: a request, and then its answer."""

    def __init__(self, finder: Finder, surroundings: Surroundings, *, is_escaping: bool = False) -> None:
        self.finder = finder
        self.numbering = Numbering(surroundings)
        self.is_escaping = is_escaping
        """Whether literal text that looks like a placeholder is escaped: all of it, or none."""
        self.has_literals = False
        """Whether there was such text."""

    def text(self, text: str) -> str:
        """A text with placeholders for what is bound."""
        if OPEN in text and not self.has_literals:
            self.has_literals = has_literal(text, self.finder.names)
        found = self.finder.find(text)
        if not found:
            return self.literal(text)
        made: list[str] = []
        at = 0
        for one in found:
            token = self.numbering.token(one, text[one.start : one.end])
            made += [self.literal(text[at : one.start]), placeholder(token)]
            at = one.end
        return "".join([*made, self.literal(text[at:])])

    def literal(self, text: str) -> str:
        return escape_literals(text) if self.is_escaping else text

    @property
    def names(self) -> tuple[str, ...]:
        """The bindings that were met."""
        return tuple(sorted({*map(name_of, self.numbering.values), *([ESCAPE] if self.is_escaping else [])}))

    @property
    def filling(self) -> Filling:
        """What placeholders stand for here and now."""
        return Filling(self.numbering.filling())


@dataclass(frozen=True, slots=True)
class Bound:
    """A request as it is hashed and stored."""

    request: LlmRequest
    binding: Binding
    """For its answer."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.binding.names

    @property
    def filling(self) -> Filling:
        return self.binding.filling


class Binder:
    """Binds what is volatile in requests.

    It knows what holds at the moment it is made; :meth:`Surroundings.state` tells when to make another.

    Args:
        rules: What is configured where the store is.
        surroundings: What is known of the run.
    """

    def __init__(self, rules: BindingRules, surroundings: Surroundings) -> None:
        self.rules = rules
        self.surroundings = surroundings.with_rules(rules).current()
        self._finder = Finder(rules, self.surroundings)

    def bind(self, request: LlmRequest) -> Bound:
        """The request with placeholders; the very same one where nothing is bound."""
        return Bound(*self._bind(request, rewrite_request))

    def bind_value(self, value: JsonValue) -> tuple[JsonValue, Binding]:
        """The same for the body of a call that is recorded as it is."""
        return self._bind(value, rewrite_value)

    def _bind(self, given: _T, rewrite: Callable[[_T, Change], _T]) -> tuple[_T, Binding]:
        binding = Binding(self._finder, self.surroundings)
        made = rewrite(given, binding.text)
        if binding.has_literals:
            binding = Binding(self._finder, self.surroundings, is_escaping=True)
            made = rewrite(given, binding.text)
        binding.numbering.is_closed = True
        return made, binding
