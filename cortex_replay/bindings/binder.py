"""Binding the values of a request, and finding them again in its answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from cortex_replay.bindings.binding import Binding
from cortex_replay.bindings.echoes import EchoFinder, echoes_of
from cortex_replay.bindings.finder import Finder
from cortex_replay.bindings.placeholders import Filling, name_of
from cortex_replay.bindings.requests import Change, rewrite_request, rewrite_value
from cortex_replay.bindings.rules import BindingRules
from cortex_replay.bindings.stored import StoredBinding
from cortex_replay.bindings.surroundings import Surroundings
from cortex_replay.canonical import JsonValue
from cortex_replay.types import LlmRequest

__all__ = ["Binder", "Binding", "Bound"]

_T = TypeVar("_T")


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
        self._known = self.surroundings.tokens()

    def bind(self, request: LlmRequest) -> Bound:
        """The request with placeholders; the very same one where nothing is bound."""
        return Bound(*self._bind(request, rewrite_request))

    def bind_value(self, value: JsonValue) -> tuple[JsonValue, Binding]:
        """The same for the body of a call that is recorded as it is."""
        return self._bind(value, rewrite_value)

    def bind_stored(self, request: LlmRequest, names: Collection[str]) -> Bound:
        """A request that was stored, with what these rules bind beyond what is bound in it.

        Args:
            request: As it is stored.
            names: The bindings that its recording says were applied to it.
        """
        return Bound(*self._bind(request, rewrite_request, names))

    def unbind_common(self, request: LlmRequest, names: Collection[str]) -> LlmRequest:
        """A stored request as it is bound here: what is too common here to be bound stands as it is.

        A recording from a machine with a telling user name may be asked for by ``root``. Its placeholder
        shows the place, so that the request from here can be compared with it.

        Args:
            request: As it is stored.
            names: The bindings that its recording says were applied to it.
        """
        unsafe = self.surroundings.unsafe_tokens()
        common = {name for name in map(name_of, unsafe) if name in names}
        filling = Filling({**self._known, **unsafe})
        return rewrite_request(request, lambda text: filling.text(text, common)) if common else request

    def bind_stored_value(self, value: JsonValue, names: Collection[str]) -> tuple[JsonValue, Binding]:
        """As :meth:`bind_stored`, for the body of a call that is recorded as it is."""
        return self._bind(value, rewrite_value, names)

    def _bind(
        self, given: _T, rewrite: Callable[[_T, Change], _T], names: Collection[str] | None = None
    ) -> tuple[_T, Binding]:
        finder: Finder | EchoFinder = self._finder
        binding = self._binding(finder, names)
        made = rewrite(given, binding.text)
        if values := echoes_of(binding.numbering.values):
            finder = EchoFinder(self._finder, values)
            binding = self._binding(finder, names)
            made = rewrite(given, binding.text)
        if binding.has_literals and not binding.is_escaping:
            binding = self._binding(finder, names, is_escaping=True)
            made = rewrite(given, binding.text)
        binding.numbering.is_closed = True
        return made, binding

    def _binding(
        self, finder: Finder | EchoFinder, names: Collection[str] | None, *, is_escaping: bool = False
    ) -> Binding:
        if names is None:
            return Binding(finder, self._known, is_escaping=is_escaping)
        return StoredBinding(finder, self._known, names, is_escaping=is_escaping)
