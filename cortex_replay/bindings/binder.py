"""Binding the values of a request, and finding them again in its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cortex_replay.bindings.finder import Finder, Numbering
from cortex_replay.bindings.placeholders import (
    ESCAPE,
    Filling,
    escape_literals,
    has_literal,
    name_of,
    placeholder,
)
from cortex_replay.bindings.requests import rewrite_request, rewrite_value
from cortex_replay.bindings.rules import BindingRules
from cortex_replay.bindings.surroundings import Surroundings
from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmRequest

__all__ = ["Binder", "Binding", "Bound"]


class Binding:
    """What is bound in one conversation: a request, and then its answer."""

    def __init__(self, finder: Finder, surroundings: Surroundings) -> None:
        self.finder = finder
        self.numbering = Numbering()
        self.is_escaping = False
        """Whether literal text that looks like a placeholder is escaped: all of it, or none."""
        self._surroundings = surroundings

    def text(self, text: str) -> str:
        """A text with placeholders for what is bound."""
        made: list[str] = []
        at = 0
        for found in self.finder.find(text):
            token = self.numbering.token(found, text[found.start : found.end])
            made += [self.literal(text[at : found.start]), placeholder(token)]
            at = found.end
        return "".join([*made, self.literal(text[at:])]) if made or self.is_escaping else text

    def literal(self, text: str) -> str:
        return escape_literals(text) if self.is_escaping else text

    @property
    def names(self) -> tuple[str, ...]:
        """The bindings that were met."""
        return tuple(sorted({*map(name_of, self.numbering.values), *([ESCAPE] if self.is_escaping else [])}))

    @property
    def filling(self) -> Filling:
        """What placeholders stand for here and now."""
        return Filling({**self._surroundings.tokens(), **self.numbering.values})


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

    Args:
        rules: What is configured where the store is.
        surroundings: What is known of the run.
    """

    def __init__(self, rules: BindingRules, surroundings: Surroundings) -> None:
        self.rules = rules
        self.surroundings = surroundings
        self._finder = Finder(rules, surroundings)

    def bind(self, request: LlmRequest) -> Bound:
        """The request with placeholders; the very same one where nothing is bound."""
        binding = Binding(self._finder, self.surroundings)
        binding.is_escaping = _any_text(lambda change: rewrite_request(request, change), self._is_literal)
        return Bound(rewrite_request(request, binding.text), binding)

    def bind_value(self, value: JsonValue) -> tuple[JsonValue, Binding]:
        """The same for the body of a call that is recorded as it is."""
        binding = Binding(self._finder, self.surroundings)
        binding.is_escaping = _any_text(lambda change: rewrite_value(value, change), self._is_literal)
        return rewrite_value(value, binding.text), binding

    def _is_literal(self, text: str) -> bool:
        return has_literal(text, self._finder.names)


def _any_text(walk: Callable[[Callable[[str], str]], object], test: Callable[[str], bool]) -> bool:
    met = False

    def look(text: str) -> str:
        nonlocal met
        met = met or test(text)
        return text

    walk(look)
    return met
